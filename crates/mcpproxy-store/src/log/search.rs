//! The index of the text search, so that `q` finds a rare text in a large log without reading all records.
//!
//! A search for a text first reads the newest records, as every filter does. Common texts fill a page from there. For
//! what is left, an index says which records can contain the text. It is a *trigram* index: it lists the records that
//! contain three given bytes, for every sequence of three bytes that occurs. A record that contains `nightly` contains
//! `nig`, `igh`, `ght`, `htl` and `tly`, so only the records of all five lists are read.
//!
//! ```text
//! chain   1 ──────────── 1024 ──────────── 2048 ────────────── end
//!         │    block     │      block      │  not indexed yet   │
//!           64 rows of     64 rows of        read by each search
//!           postings       postings
//! ```
//!
//! | file | purpose |
//! |---|---|
//! | `trigrams.rs` | the trigrams of a record, and those that a search looks up |
//! | `postings.rs` | lists of records by trigram, as bytes |
//! | `indexer.rs` | the task that writes the index |
//! | `update.rs` | one update: the next block of a chain, removed blocks, a new start |
//! | `find.rs` | the search |
//!
//! Lines of a chain never change and only grow in number, so a *block* of up to 1,024 lines is indexed once. A record
//! belongs to the block of its first line. If its call ends in a later block, that block adds a part to the older one.
//!
//! Invariants:
//!
//! - **The index never changes what is found.** It only names candidates. Every candidate is read and compared with the
//!   whole filter, in the same SQL as without the index. Records that are not indexed yet are read by the search itself.
//!   Anything odd about the index, such as a block that is gone or cannot be read, makes the search go without it.
//! - **No call waits for it.** The writer of the log knows nothing of the index. A task of its own reads what is
//!   committed.
//! - **It can be built again at any time.** No copy of the database has it, and a chain whose hash differs from the one
//!   that was indexed is indexed from its beginning.
//! - **Work is bounded**: a search by the blocks and candidates of a page, the task by one block at a time.
//!
//! Why not the full-text search of SQLite and `pg_trgm` of PostgreSQL? They are not the same: PostgreSQL needs an
//! extension that only an administrator can install, collects all matches before it sorts them, and would write
//! hundreds of index entries for each record in the transaction that a call waits for.

pub(crate) mod find;
pub(crate) mod indexer;
pub(crate) mod postings;
pub(crate) mod trigrams;
mod update;
