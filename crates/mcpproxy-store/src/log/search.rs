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
//! | `update.rs` | one update: which blocks are added, removed and built again |
//! | `block.rs` | one block: reads its lines, and writes what they add |
//! | `find.rs` | the search |
//!
//! Lines of a chain never change. New ones come at its end, and retention removes the oldest. So a *block* of up to
//! 1,024 lines is indexed once. A record belongs to the block of its first line. If its call ends in a later block, that
//! block adds a part to the older one.
//!
//! Invariants:
//!
//! - **The index never changes what is found.** It only names candidates. Every candidate is read and compared with the
//!   whole filter, in the same SQL as without the index. Records that are not indexed yet are read by the search itself.
//!   A block that cannot be read, a gap between two blocks of a page, or a build that changed meanwhile makes the search
//!   go without the index. Postings that somebody deleted cannot be noticed, so exports go without the index, too.
//! - **The writer of the log knows nothing of it.** A task of its own reads what is committed. SQLite has one write
//!   lock, so a commit can wait there for the transaction of one block.
//! - **Records come first.** The index grows only while less than 80 % of `limits.disk` is used.
//! - **It can be built again at any time.** No copy of the database has it, and a chain whose hash differs from the one
//!   that was indexed is indexed from its beginning.
//! - **Work is bounded.** The task works on one block at a time. A page reads up to 10,000 candidates, 4,096 blocks, and
//!   10,000 lines of 64 chains that are not indexed yet. With more such lines, a search goes without the index.
//!
//! Why not the full-text search of the databases? FTS5 of SQLite and `pg_trgm` of PostgreSQL compare texts in different
//! ways, so a search would depend on the database. Both write hundreds of index entries for each record, in the
//! transaction that a call waits for. `pg_trgm` also collects all matches before it sorts them, and is an extension that
//! the database must have.

mod block;
pub(crate) mod find;
pub(crate) mod indexer;
pub(crate) mod postings;
pub(crate) mod trigrams;
mod update;
