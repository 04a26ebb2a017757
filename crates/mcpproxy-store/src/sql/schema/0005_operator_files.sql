-- The contract and policy files that a gateway enforced last. `owner` is the gateway: several may share a database.

CREATE TABLE operator_files (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT;

UPDATE schema_version SET version = 5;
