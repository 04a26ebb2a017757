-- Vectors of tools for the search, by the hash of the model and of the tool's text. They can be computed again, so the
-- oldest are removed when there are too many.

CREATE TABLE tool_vectors (
    key BLOB NOT NULL PRIMARY KEY,
    vector BLOB NOT NULL,
    stored_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tool_vectors_by_age ON tool_vectors (stored_ms);

UPDATE schema_version SET version = 13;
