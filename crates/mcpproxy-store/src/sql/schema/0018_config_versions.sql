-- Versions of settings, contracts and policies that users published for all gateways of the database. The newest one is in
-- force at gateways with `operator_files: "database"`.

CREATE TABLE config_versions (
    -- Counts from 1.
    number INTEGER NOT NULL PRIMARY KEY,
    published_ms INTEGER NOT NULL,
    -- The name of the user.
    published_by TEXT NOT NULL,
    -- What changed, in a few words.
    summary TEXT NOT NULL,
    -- Identifies names and texts of the files.
    digest TEXT NOT NULL,
    -- Names and texts of the files, as JSON.
    files TEXT NOT NULL
) STRICT;

UPDATE schema_version SET version = 18;
