-- Counts as cumulative series, so that a summary of any range of time costs the same. The writer still counts into
-- `tallies`, and moves its rows here every few minutes. A record is counted in one of both, never in two.

-- A series counts the records of a chain that have these values in common. Texts are empty for none.
CREATE TABLE tally_series (
    chain INTEGER NOT NULL,
    -- From 1, in each chain.
    number INTEGER NOT NULL,
    kind TEXT COLLATE BINARY NOT NULL,
    status TEXT COLLATE BINARY NOT NULL,
    intent_type TEXT COLLATE BINARY NOT NULL,
    server TEXT COLLATE BINARY NOT NULL,
    tool TEXT COLLATE BINARY NOT NULL,
    risk TEXT COLLATE BINARY NOT NULL,
    mark TEXT COLLATE BINARY NOT NULL,
    -- The newest hour with a record.
    last_hour INTEGER NOT NULL,
    -- The number of records in each step of durations, from the beginning of the series to its last hour.
    counts BLOB NOT NULL,
    -- The same for the hours that retention removed. NULL is none.
    base BLOB,
    PRIMARY KEY (chain, number),
    UNIQUE (chain, kind, status, intent_type, server, tool, risk, mark)
) STRICT, WITHOUT ROWID;

-- The counts of a series from its beginning to the end of this hour, for each hour with a record.
CREATE TABLE tally_points (
    chain INTEGER NOT NULL,
    series INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    counts BLOB NOT NULL,
    PRIMARY KEY (chain, series, hour)
) STRICT, WITHOUT ROWID;

-- For retention, which removes the oldest hours of a chain.
CREATE INDEX tally_points_hour ON tally_points (chain, hour, series);

-- The calls of each hour by intent, for charts. The row without an intent tells that the hour has other records.
CREATE TABLE tally_hours (
    hour INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    intent_type TEXT COLLATE BINARY NOT NULL,
    calls INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (hour, chain, intent_type)
) STRICT, WITHOUT ROWID;

UPDATE schema_version SET version = 14;
