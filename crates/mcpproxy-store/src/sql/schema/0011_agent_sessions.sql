-- MCP sessions of agents, for gateways that share this database and for a gateway that restarts. A session's id is sealed and
-- carries what its handshake agreed on, so a session has no row until something changes after the handshake.

-- Keys that seal session ids. The newest one seals, and all of them open.
CREATE TABLE session_keys (
    number INTEGER NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

-- What changed in a session after its handshake.
CREATE TABLE session_changes (
    session TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    agent TEXT COLLATE BINARY NOT NULL,
    -- 1 if the agent has ended the session.
    is_ended INTEGER NOT NULL,
    -- The level of log messages that the agent asked for.
    level TEXT,
    -- The gateway that has the session's stream for notifications.
    stream_at TEXT,
    changed_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX session_changes_by_agent ON session_changes (agent, changed_ms);
CREATE INDEX session_changes_by_time ON session_changes (changed_ms);

-- Resources that a session is subscribed to, by the URI that the agent knows.
CREATE TABLE session_subscriptions (
    session TEXT COLLATE BINARY NOT NULL,
    uri TEXT COLLATE BINARY NOT NULL,
    agent TEXT COLLATE BINARY NOT NULL,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (session, uri)
) STRICT;
CREATE INDEX session_subscriptions_by_agent ON session_subscriptions (agent);
CREATE INDEX session_subscriptions_by_time ON session_subscriptions (changed_ms);

-- Messages between gateways that are too long for NOTIFY. The receiver takes them. Rows that nobody took expire.
CREATE TABLE replica_messages (
    id TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    content BLOB NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;

UPDATE schema_version SET version = 11;
