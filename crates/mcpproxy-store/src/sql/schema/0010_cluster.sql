-- Calls of tools with a rate limit, counted together for all gateways. Rows expire with the span of their limit.

CREATE TABLE rate_calls (
    tool TEXT COLLATE BINARY NOT NULL,
    -- Counts the calls of the tool, from 1.
    number INTEGER NOT NULL,
    -- Times of the database's clock.
    at_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (tool, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX rate_calls_expires ON rate_calls (expires_ms);

-- The gateways that share this database. One row for each data folder. A gateway renews its row while it runs, and removes
-- it when it stops.

CREATE TABLE gateways (
    -- The chain of its log.
    id TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    -- Digests of what is in force.
    settings TEXT NOT NULL,
    contracts TEXT NOT NULL,
    policies TEXT NOT NULL,
    -- Times of the database's clock.
    started_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL
) STRICT;

UPDATE schema_version SET version = 10;
