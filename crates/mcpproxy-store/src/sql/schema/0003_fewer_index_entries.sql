-- Every index entry costs time with every call. Reads and calls of low risk are the most frequent ones, so they are found
-- at once by looking from the newest on, and the others by their index.

DROP INDEX records_intent_type;
DROP INDEX records_risk;
CREATE INDEX records_intent_type ON records (intent_type, key) WHERE intent_type <> 'read';
CREATE INDEX records_risk ON records (risk, key) WHERE risk <> 'low';

UPDATE schema_version SET version = 3;
