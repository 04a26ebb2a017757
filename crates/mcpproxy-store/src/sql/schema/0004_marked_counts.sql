-- Dry runs and replayed answers are counted apart from calls that ran. An empty mark is a real call. What was counted before
-- counts as real.

CREATE TABLE marked_tallies (
    hour INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    intent_type TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    risk TEXT NOT NULL,
    mark TEXT NOT NULL,
    step INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, chain, kind, status, intent_type, server, tool, risk, mark, step)
) STRICT, WITHOUT ROWID;

INSERT INTO marked_tallies
SELECT hour, chain, kind, status, intent_type, server, tool, risk, '', step, count FROM tallies;
DROP TABLE tallies;
ALTER TABLE marked_tallies RENAME TO tallies;

-- The intent of the call that a standing approval was given for, as JSON. Those that exist have none.
ALTER TABLE grants ADD COLUMN intent TEXT;

UPDATE schema_version SET version = 4;
