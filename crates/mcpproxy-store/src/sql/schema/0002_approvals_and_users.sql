-- What users decide, what is done only once, and who the users are.

CREATE TABLE approvals (
    -- A ULID: newer ones come after older ones.
    id TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    binding BLOB NOT NULL,
    agent TEXT NOT NULL,
    client TEXT,
    tool TEXT NOT NULL,
    pin BLOB NOT NULL,
    contract BLOB NOT NULL,
    variant TEXT NOT NULL,
    risk TEXT,
    least TEXT NOT NULL,
    -- The exact bytes that will be sent. They are there as long as something may be sent, and no longer.
    args BLOB,
    args_digest BLOB NOT NULL,
    shown_args TEXT NOT NULL,
    -- What goes to the server besides the arguments, if anything does: exact as long as they are, its digest, and for people.
    attached BLOB,
    attached_digest BLOB NOT NULL,
    shown_attached TEXT,
    about TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    given TEXT,
    decided_by TEXT,
    decided_ms INTEGER,
    comment TEXT,
    -- The call that it was used for.
    record_key INTEGER,
    record_tail INTEGER,
    consumed_ms INTEGER,
    CHECK (attached IS NULL OR args IS NOT NULL),
    CHECK ((args IS NOT NULL) = (state IN ('pending', 'approved'))),
    CHECK ((record_key IS NOT NULL) = (state = 'consumed'))
) STRICT;

-- Whatever is asked for, there is an index in the order of the answer.
CREATE INDEX approvals_state ON approvals (state, id);
CREATE INDEX approvals_agent ON approvals (agent, id);
CREATE INDEX approvals_agent_state ON approvals (agent, state, id);
CREATE INDEX approvals_agent_tool ON approvals (agent, tool, id);
CREATE INDEX approvals_agent_tool_state ON approvals (agent, tool, state, id);
CREATE INDEX approvals_tool ON approvals (tool, id);
CREATE INDEX approvals_tool_state ON approvals (tool, state, id);
CREATE INDEX approvals_open_binding ON approvals (binding, expires_ms) WHERE args IS NOT NULL;
CREATE INDEX approvals_denied_binding ON approvals (binding, expires_ms) WHERE state = 'denied';
CREATE INDEX approvals_open_expires ON approvals (expires_ms) WHERE args IS NOT NULL;
CREATE INDEX approvals_over_created ON approvals (created_ms) WHERE args IS NULL;

-- Moves with every change of an approval or a grant, so that other processes can poll one small row.
CREATE TABLE approvals_version (version INTEGER NOT NULL) STRICT;
INSERT INTO approvals_version (version) VALUES (0);

CREATE TABLE grants (
    id TEXT NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    pin BLOB NOT NULL,
    contract BLOB NOT NULL,
    schema TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    reason TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    uses_left INTEGER NOT NULL,
    revoked_ms INTEGER,
    revoked_by TEXT,
    CHECK (uses_left >= 0)
) STRICT;

CREATE INDEX grants_agent ON grants (agent, tool, expires_ms) WHERE revoked_ms IS NULL;

-- What an agent wants to be done once. The record tells how that went.
CREATE TABLE claims (
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    args_digest BLOB NOT NULL,
    record_key INTEGER NOT NULL,
    record_tail INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    answer BLOB,
    PRIMARY KEY (agent, tool, key)
) STRICT;

CREATE INDEX claims_expires ON claims (expires_ms);

CREATE TABLE dry_runs (
    binding BLOB NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    preview TEXT NOT NULL,
    is_native INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX dry_runs_at ON dry_runs (at_ms);

-- Made once, and the same for all gateways.
CREATE TABLE shared_secrets (
    name TEXT NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL
) STRICT;

CREATE TABLE users (
    name TEXT NOT NULL PRIMARY KEY,
    password_hash TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    totp_secret BLOB,
    -- The last code that was taken; only later ones count.
    totp_step INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    failed_ms INTEGER NOT NULL,
    locked_until_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE passkeys (
    id TEXT NOT NULL PRIMARY KEY,
    user_name TEXT NOT NULL,
    label TEXT NOT NULL,
    data TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX passkeys_user ON passkeys (user_name, created_ms);

CREATE TABLE invitations (
    hash BLOB NOT NULL PRIMARY KEY,
    -- Nobody, for the first user_name.
    invited_by TEXT,
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    hash BLOB NOT NULL PRIMARY KEY,
    user_name TEXT NOT NULL,
    -- The digest of the key that pages of a session have beside the cookie.
    page_key BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_user ON sessions (user_name);

CREATE TABLE challenges (
    session BLOB NOT NULL,
    purpose TEXT NOT NULL,
    state TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (session, purpose)
) STRICT;

UPDATE schema_version SET version = 2;
