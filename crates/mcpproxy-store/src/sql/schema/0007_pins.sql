-- The definitions that servers list, and what users decided about them. `identity` is the digest of a server's name and its
-- command or address. `key` is the digest of a definition's kind and name, because a name may be longer than an index
-- allows. `name` and `json` are the server's own bytes.

CREATE TABLE pinned_servers (
    identity TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    server TEXT NOT NULL,
    first_seen_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    -- Rises with every change of the server's rows below.
    revision INTEGER NOT NULL,
    -- The digest of the last list, so that an equal one costs nothing. A decision removes it.
    listing BLOB
) STRICT;

CREATE TABLE accepted_pins (
    identity TEXT COLLATE BINARY NOT NULL,
    key BLOB NOT NULL,
    kind TEXT NOT NULL,
    name BLOB NOT NULL,
    formula INTEGER NOT NULL,
    pin BLOB NOT NULL,
    json BLOB NOT NULL,
    first_seen_ms INTEGER NOT NULL,
    accepted_ms INTEGER NOT NULL,
    -- The user who accepted it, or the rule that did.
    accepted_by TEXT,
    rule TEXT,
    -- The last time it was listed, if the last list did not have it.
    gone_ms INTEGER,
    -- How many other versions have waited since it was accepted.
    times INTEGER NOT NULL,
    PRIMARY KEY (identity, key),
    CHECK ((accepted_by IS NULL) = (rule IS NOT NULL))
) STRICT;

CREATE TABLE waiting_pins (
    identity TEXT COLLATE BINARY NOT NULL,
    key BLOB NOT NULL,
    kind TEXT NOT NULL,
    name BLOB NOT NULL,
    formula INTEGER NOT NULL,
    pin BLOB NOT NULL,
    json BLOB NOT NULL,
    reason TEXT NOT NULL,
    details TEXT NOT NULL,
    first_seen_ms INTEGER NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (identity, key)
) STRICT;

-- Versions that were accepted once, and versions that a user rejected.
CREATE TABLE past_pins (
    identity TEXT COLLATE BINARY NOT NULL,
    key BLOB NOT NULL,
    state TEXT COLLATE BINARY NOT NULL,
    pin BLOB NOT NULL,
    kind TEXT NOT NULL,
    name BLOB NOT NULL,
    formula INTEGER NOT NULL,
    -- Removed before the hash, if a server has too much of it.
    json BLOB,
    first_seen_ms INTEGER NOT NULL,
    decided_ms INTEGER NOT NULL,
    decided_by TEXT,
    rule TEXT,
    ended_ms INTEGER NOT NULL,
    -- The server's revision that made it: the order of age.
    revision INTEGER NOT NULL,
    PRIMARY KEY (identity, key, state, pin),
    CHECK (state IN ('former', 'rejected')),
    CHECK ((decided_by IS NULL) = (rule IS NOT NULL))
) STRICT;

-- Rises with every decision of a user, so that other gateways can poll one small row.
CREATE TABLE pins_version (version INTEGER NOT NULL) STRICT;
INSERT INTO pins_version (version) VALUES (0);

UPDATE schema_version SET version = 7;
