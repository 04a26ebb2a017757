//! Backup archives: one file with the whole data folder and its database.
//!
//! The file is a tar archive, so `tar -tf` lists it. Its content:
//!
//! | entry | content |
//! |---|---|
//! | `data/TABLE.00001.jsonl` | rows of a table, one JSON array for each row |
//! | `files/NAME` | a file of the data folder: settings, contracts, policies, keys, secrets |
//! | `manifest.json` | always last: version, schema, time, ends of the chains, numbers of rows, and the SHA-256 of every entry |
//!
//! The rows have one form for SQLite and PostgreSQL, so a backup of one can be restored to the other.
//!
//! The digests detect damage of the file, such as a broken disk or an interrupted copy. They cannot detect an attacker who
//! has the file, because it contains the signing key. Checkpoints that are kept elsewhere can
//! (`activity.checkpoints_to`).

mod files;
mod read;
mod stage;
mod tar;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use self::read::{Archive, check_kind};
pub(crate) use self::stage::{Staged, stage};
pub(crate) use self::write::{Overwrite, key, write};

const FORMAT: &str = "mcpproxy backup";
const VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
const DATA: &str = "data/";
const FILES: &str = "files/";
pub(crate) const SIGNING_KEY: &str = "signing.key";
pub(crate) const SETTINGS: &str = "mcp_config.json";
pub(crate) const CHECKPOINT: &str = "checkpoint.txt";

/// The last entry of an archive, which describes all others.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Manifest {
    format: String,
    version: u32,
    /// The version of the program that wrote it.
    pub(crate) program: String,
    /// The version of the database schema.
    pub(crate) schema: i64,
    /// The time of the backup, in RFC 3339 and UTC.
    pub(crate) created: String,
    /// `sqlite` or `postgres`.
    pub(crate) database: String,
    /// The chain of this data folder.
    pub(crate) chain: String,
    /// The ends of all chains in the database.
    pub(crate) chains: Vec<ChainEnd>,
    /// The number of rows of each table.
    pub(crate) tables: BTreeMap<String, u64>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ChainEnd {
    pub(crate) chain: String,
    pub(crate) position: i64,
    pub(crate) hash: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Entry {
    name: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    pub(crate) fn rows(&self) -> u64 {
        self.tables.values().sum()
    }

    pub(crate) fn files(&self) -> usize {
        self.entries.iter().filter(|entry| entry.name.starts_with(FILES)).count()
    }

    /// The last position of the chain of this data folder.
    pub(crate) fn position(&self) -> i64 {
        self.chains.iter().find(|end| end.chain == self.chain).map_or(0, |end| end.position)
    }
}

impl Entry {
    fn of(name: &str, bytes: &[u8]) -> Self {
        use sha2::{Digest as _, Sha256};
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { name: name.to_owned(), bytes: bytes.len() as u64, sha256 }
    }
}
