-- The index of the text search: which records of a block of lines contain which three bytes. It is computed from the
-- records, in the background, and can be computed again. `log/search.rs` explains it.

CREATE TABLE search_blocks (
    chain INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    -- The smallest and the largest key of the block's records, or -1 if no record begins in it.
    first_key INTEGER NOT NULL,
    last_key INTEGER NOT NULL,
    -- The hash of the chain at `last_seq`. Empty if no row has it any more.
    hash BLOB NOT NULL,
    -- The same for all blocks of a chain that were built one after the other.
    build INTEGER NOT NULL,
    PRIMARY KEY (chain, first_seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX search_blocks_key ON search_blocks (last_key, chain, first_seq);

CREATE TABLE search_postings (
    chain INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    -- A share of all sequences of three bytes, or -1 for all of them.
    bucket INTEGER NOT NULL,
    -- The first position of the block that added these. Calls that end in a later block have theirs added by it.
    part INTEGER NOT NULL,
    postings BLOB NOT NULL,
    PRIMARY KEY (chain, first_seq, bucket, part)
) STRICT;

UPDATE schema_version SET version = 15;
