-- Sign-ins of the gateway at servers that ask for OAuth. `identity` is the digest of a server's name and address, so that
-- another address under the same name has no sign-in. `sealed` is encrypted with the key of `sealing.key`, and bound to the
-- identity. All gateways share the rows.

CREATE TABLE server_sign_ins (
    identity TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    server TEXT NOT NULL,
    -- Rises with every change of `sealed`.
    version INTEGER NOT NULL,
    -- Names the sealing key.
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    -- The user who signed in. NULL for the gateway itself.
    signed_in_by TEXT,
    signed_in_ms INTEGER NOT NULL,
    -- The gateway that renews the token, until this time.
    lease_holder TEXT,
    lease_until_ms INTEGER NOT NULL
) STRICT;

UPDATE schema_version SET version = 9;
