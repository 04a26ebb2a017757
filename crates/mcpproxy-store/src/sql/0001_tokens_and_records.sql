CREATE TABLE tokens (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) STRICT;

-- A name may be used again once its token is revoked.
CREATE UNIQUE INDEX tokens_live_name ON tokens (name) WHERE revoked_ms IS NULL;

-- Moves with every change of a token, so that other processes can poll one small row.
CREATE TABLE tokens_version (version INTEGER NOT NULL) STRICT;
INSERT INTO tokens_version (version) VALUES (0);

CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('call', 'refusal', 'server', 'settings', 'auth')),
    status TEXT NOT NULL CHECK (status IN ('started', 'success', 'error', 'refused', 'cancelled', 'interrupted')),
    agent TEXT,
    client TEXT,
    server TEXT,
    tool TEXT,
    intent_type TEXT CHECK (intent_type IN ('read', 'write', 'destructive')),
    code TEXT,
    message TEXT,
    duration_ms REAL,
    metadata TEXT NOT NULL,
    args TEXT,
    args_bytes INTEGER,
    result TEXT,
    result_bytes INTEGER
) STRICT;

CREATE INDEX records_intent_type ON records (intent_type, seq);
CREATE INDEX records_kind ON records (kind, seq);
CREATE INDEX records_status ON records (status, seq);
CREATE INDEX records_server ON records (server, seq);
CREATE INDEX records_tool ON records (tool, seq);
CREATE INDEX records_agent ON records (agent, seq);

PRAGMA user_version = 1;
