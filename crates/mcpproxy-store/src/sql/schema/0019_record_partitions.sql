-- With PostgreSQL, the records are partitioned by time: `schema_postgres/0019_record_partitions.sql`. SQLite has no
-- partitions, so it never has rows in these tables.

-- The last position of a chain. PostgreSQL cannot enforce unique positions across partitions, so every batch moves this
-- from the position that its writer knows. `log/sql/take.rs` explains it. A negative number is a writer that fell behind.
CREATE TABLE chain_heads (
    chain INTEGER NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL,
    CONSTRAINT one_writer_per_chain CHECK (seq >= 0)
) STRICT;

-- The removal that each chain has signed for its lines in the oldest expired partition. It takes effect when the
-- partition is dropped. The columns are those of the removal in `chains`. `stubs` has a line with position and digest for each
-- row of the table `stubs`.
CREATE TABLE planned_removals (
    chain INTEGER NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    note TEXT NOT NULL,
    stubs TEXT NOT NULL
) STRICT;

UPDATE schema_version SET version = 19;
