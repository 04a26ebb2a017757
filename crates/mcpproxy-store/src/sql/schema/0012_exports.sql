-- The position up to which each chain was exported, by destination. `destination` is a digest, because a URL may hold a key.
-- Each gateway exports its own chain, so a row has one writer.

CREATE TABLE exports (
    chain INTEGER NOT NULL,
    destination TEXT COLLATE BINARY NOT NULL,
    seq INTEGER NOT NULL,
    moved_ms INTEGER NOT NULL,
    PRIMARY KEY (chain, destination)
) STRICT, WITHOUT ROWID;

UPDATE schema_version SET version = 12;
