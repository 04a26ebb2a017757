-- Users of an identity provider, recovery codes, invitations of the operator, and sign-ins at the provider.

-- A user of a provider is the subject of an issuer. Such a user has an empty password_hash, and so has a local user
-- whose account was reset.
ALTER TABLE users ADD COLUMN issuer TEXT;
ALTER TABLE users ADD COLUMN subject TEXT;
-- The e-mail address, name and groups that the provider sent at the last sign-in, as JSON.
ALTER TABLE users ADD COLUMN profile TEXT;
CREATE UNIQUE INDEX users_subject ON users (issuer, subject) WHERE issuer IS NOT NULL;

-- The name that an invitation of the operator is for.
ALTER TABLE invitations ADD COLUMN user_name TEXT;

CREATE TABLE recovery_codes (
    user_name TEXT NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (user_name, hash)
) STRICT;

-- Users who were sent to the provider and have not come back. Secrets are stored as digests.
CREATE TABLE sign_ins (
    state BLOB NOT NULL PRIMARY KEY,
    -- The cookie of the browser that began.
    browser BLOB NOT NULL,
    -- The address that began. It pays for its rows.
    peer BLOB NOT NULL,
    -- The session that wants a step-up.
    session BLOB,
    -- The invitation of the setup link, with which the first user joins.
    invitation BLOB,
    data TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX sign_ins_peer ON sign_ins (peer, created_ms);
CREATE INDEX sign_ins_expires ON sign_ins (expires_ms);

-- Changes of accounts that the operator made at the terminal. A gateway moves them to its activity log.
CREATE TABLE operator_actions (
    id TEXT NOT NULL PRIMARY KEY,
    time_ms INTEGER NOT NULL,
    code TEXT NOT NULL,
    user_name TEXT NOT NULL,
    -- The time at which a gateway began to record it.
    taken_ms INTEGER NOT NULL
) STRICT;

UPDATE schema_version SET version = 8;
