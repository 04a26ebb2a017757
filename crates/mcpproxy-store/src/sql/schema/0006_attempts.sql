-- Failed attempts to sign in, by name and by address, counted together for all gateways. A subject is a digest, so that a
-- password that was typed as a name is not stored in plain text.

CREATE TABLE attempts (
    subject BLOB NOT NULL PRIMARY KEY,
    -- The first failure of the current window.
    since_ms INTEGER NOT NULL,
    failures INTEGER NOT NULL
) STRICT;

CREATE INDEX attempts_since ON attempts (since_ms);

UPDATE schema_version SET version = 6;
