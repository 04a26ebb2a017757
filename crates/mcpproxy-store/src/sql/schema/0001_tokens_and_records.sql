-- One text for both databases. For PostgreSQL, INTEGER becomes BIGINT, BLOB becomes BYTEA, and what follows a table's
-- last parenthesis is dropped.

CREATE TABLE tokens (
    name TEXT NOT NULL,
    hash BLOB NOT NULL PRIMARY KEY,
    scope TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) STRICT;

-- A name may be used again once its token is revoked.
CREATE UNIQUE INDEX tokens_live_name ON tokens (name) WHERE revoked_ms IS NULL;

-- Moves with every change of a token, so that other processes can poll one small row.
CREATE TABLE tokens_version (version INTEGER NOT NULL) STRICT;
INSERT INTO tokens_version (version) VALUES (0);

-- One chain for every data folder that ever wrote here.
CREATE TABLE chains (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    verifier TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    -- Lines up to this position were removed when their time was over, and this was the hash then.
    removed_seq INTEGER NOT NULL,
    removed_hash BLOB NOT NULL,
    -- The signed statement of that, and of what stands in `stubs`.
    removed_note TEXT,
    -- Written when there is nothing to write, to see whether the log works again.
    probed_ms INTEGER
) STRICT;

CREATE TABLE records (
    key INTEGER PRIMARY KEY,
    tail INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    agent TEXT,
    client TEXT,
    server TEXT,
    tool TEXT,
    intent_type TEXT,
    risk TEXT,
    code TEXT,
    message TEXT,
    duration_us INTEGER,
    metadata TEXT NOT NULL,
    args_bytes INTEGER,
    args_digest BLOB,
    result_bytes INTEGER,
    result_digest BLOB,
    -- Set when the end of a call is written after its beginning. Then status, code, message, duration_us, result and
    -- end_metadata belong to the line at that position.
    end_seq INTEGER,
    end_hash BLOB,
    end_metadata TEXT
) STRICT;

-- Two writers with the same key cannot both go on.
CREATE UNIQUE INDEX records_seq ON records (chain, seq);
CREATE UNIQUE INDEX records_end_seq ON records (chain, end_seq) WHERE end_seq IS NOT NULL;
CREATE INDEX records_intent_type ON records (intent_type, key) WHERE intent_type IS NOT NULL;
CREATE INDEX records_server ON records (server, key) WHERE server IS NOT NULL;
CREATE INDEX records_tool ON records (tool, key) WHERE tool IS NOT NULL;
CREATE INDEX records_agent ON records (agent, key) WHERE agent IS NOT NULL;
CREATE INDEX records_risk ON records (risk, key) WHERE risk IS NOT NULL;
-- What is not in these two is found at once by looking from the newest on.
CREATE INDEX records_kind ON records (kind, key) WHERE kind <> 'call';
CREATE INDEX records_status ON records (status, key) WHERE status <> 'success';

-- Apart from the records, so that they can be erased.
CREATE TABLE payloads (
    key INTEGER PRIMARY KEY,
    args TEXT,
    result TEXT
) STRICT;

-- How many of what there were in each hour. A step is a range of durations, and -1 is none.
CREATE TABLE tallies (
    hour INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    intent_type TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    risk TEXT NOT NULL,
    step INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, chain, kind, status, intent_type, server, tool, risk, step)
) STRICT, WITHOUT ROWID;

-- What the payloads of each hour take.
CREATE TABLE payload_hours (
    hour INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (hour, chain)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    chain INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT, WITHOUT ROWID;

-- The ends of calls whose rows were removed before the chain came to these positions: enough to go on from there.
CREATE TABLE stubs (
    chain INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE schema_version (version INTEGER NOT NULL) STRICT;
INSERT INTO schema_version (version) VALUES (1);
