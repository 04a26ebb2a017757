//! The state of the last verification: `verified.json` in the data folder.
//!
//! The file says how far each chain was verified, as a signed checkpoint of the chain itself. It is not in the database,
//! because whoever changes records there could change it, too. It deserves the same trust as `checkpoint.txt`: whoever can
//! write to the data folder can also read `signing.key`.
//!
//! ```text
//! {"format":1,"program":"0.9.0","database":"3f…","time_ms":…,"full_ms":…,"damaged":false,"turns":"9a…",
//!  "chains":[{"key":"mcpproxy/2f…+…","note":"mcpproxy/2f…\n1234\n…","last_key":…,"outside":"e3…"}]}
//! ```
//!
//! A file that cannot be read, or that other users can write, is no state. Then everything is verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::evidence::Notes;
use crate::log::positions::{Anchor, ChainWalk};
use crate::record::id::Key;
use crate::text::hex;
use crate::{Checkpoint, Location, Store, Verifier};

/// The name of the file in the data folder.
pub const VERIFIED_FILE: &str = "verified.json";
const FORMAT: u32 = 1;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// More than the state of 4,096 chains needs.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const OTHERS_WRITE: u32 = 0o022;
const MODE: u32 = 0o600;

/// The result of an intact verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifiedState {
    format: u32,
    /// The version that verified. Another one may check more.
    program: String,
    /// Digest of the address of the database.
    pub(super) database: String,
    pub(super) time_ms: i64,
    /// The time of the last verification that read every line.
    pub(super) full_ms: i64,
    /// True if damage was found since then. The checkpoints stay evidence, but no line may be skipped.
    pub(super) damaged: bool,
    /// Digest of the records that make `verify` trust other keys, or excuse checkpoints.
    pub(super) turns: String,
    pub(super) chains: Vec<VerifiedChain>,
}

/// A chain up to a checkpoint that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifiedChain {
    /// The public key, which also names the chain.
    pub(super) key: String,
    /// The signed checkpoint.
    pub(super) note: String,
    /// The key of the last record before it.
    pub(super) last_key: Option<i64>,
    /// Digest of the checkpoints from outside before this one that matched. Empty if not all of them were compared.
    outside: String,
}

impl VerifiedState {
    pub(super) fn new(database: String, turns: String, chains: Vec<VerifiedChain>, now_ms: i64, full_ms: i64) -> Self {
        let (format, program) = (FORMAT, PROGRAM.to_owned());
        Self { format, program, database, time_ms: now_ms, full_ms, damaged: false, turns, chains }
    }

    /// Reads the file, and returns its text as well. `None` if there is none. The error says why it does not count.
    pub(super) fn read(path: &Path) -> Result<Option<(Self, String)>, String> {
        let Some(text) = read(path)? else { return Ok(None) };
        let state: Self = serde_json::from_str(&text).map_err(|_| "it is not in the expected form".to_owned())?;
        if state.format != FORMAT || state.chains.iter().any(|chain| chain.checkpoint().is_none()) {
            return Err("it is not in the expected form".to_owned());
        }
        Ok(Some((state, text)))
    }

    /// Replaces the file. A reader sees the old content or the new, also after a power failure.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)? + "\n";
        let mut fresh = path.as_os_str().to_owned();
        // The command and the gateway may write at the same time.
        fresh.push(format!(".{}.new", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let write = || {
            let mut file = open(&fresh, OpenOptions::new().create(true).write(true).truncate(true).mode(MODE))?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            fs::rename(&fresh, path)
        };
        write().inspect_err(|_| {
            let _nothing_there = fs::remove_file(&fresh);
        })
    }

    pub(super) fn with_damage(self) -> Self {
        Self { damaged: true, ..self }
    }

    pub(super) fn is_of_this_program(&self) -> bool {
        self.program == PROGRAM
    }
}

impl Store {
    /// Returns when every line of this database was last verified, as far as the file in the data folder tells.
    pub fn last_full_verification_ms(&self, file: &Path) -> Option<i64> {
        let (state, _) = VerifiedState::read(file).ok().flatten()?;
        (state.database == digest_of(self.database().location())).then_some(state.full_ms)
    }
}

/// Returns the checkpoints of the last verification of this database. They tell of a log that is gone now.
pub fn verified_checkpoints(file: &Path, location: &Location) -> Vec<String> {
    let state = VerifiedState::read(file).ok().flatten().map(|(state, _)| state);
    let state = state.filter(|state| state.database == digest_of(location));
    state.into_iter().flat_map(|state| state.chains).map(|chain| chain.note).collect()
}

/// Removes the file. Then the next verification reads every line.
pub fn forget_verification(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl VerifiedChain {
    /// The newest checkpoint of a walk. `from` is the one that the walk continued from.
    pub(super) fn after(walk: &ChainWalk, outside: &Notes, from: Option<Self>) -> Option<Self> {
        let Anchor { seq, note, last_key } = walk.anchor.clone()?;
        let outside = match &from {
            // The checkpoints before it were compared by an earlier run, and are not known now.
            Some(from) if !from.knew_none() && !from.has_before(outside) => String::new(),
            Some(_) | None => digest_before(outside, seq),
        };
        Some(Self { key: walk.verifier.to_string(), note, last_key: last_key.map(|Key(key)| key), outside })
    }

    pub(super) fn verifier(&self) -> Option<Verifier> {
        Verifier::parse(&self.key)
    }

    /// The checkpoint, if the key of this chain signed it.
    pub(super) fn checkpoint(&self) -> Option<Checkpoint> {
        Checkpoint::open(&self.note, &self.verifier()?).ok()
    }

    /// Tells if all of these checkpoints that sign earlier positions were compared then.
    pub(super) fn knows(&self, outside: &Notes) -> bool {
        let seq = self.checkpoint().map_or(0, |checkpoint| checkpoint.seq);
        !self.has_before(outside) || self.outside == digest_before(outside, seq)
    }

    fn has_before(&self, outside: &Notes) -> bool {
        let seq = self.checkpoint().map_or(0, |checkpoint| checkpoint.seq);
        outside.range(..seq).next().is_some()
    }

    fn knew_none(&self) -> bool {
        self.outside == digest_before(&Notes::new(), 0)
    }
}

/// Digest of the checkpoints before a position. Several copies of one count once.
fn digest_before(notes: &Notes, seq: i64) -> String {
    let mut hashed = Sha256::new();
    for (seq, notes) in notes.range(..seq) {
        let mut hashes: Vec<_> = notes.iter().map(|note| note.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        for hash in hashes {
            hashed.update(format!("{seq} {}\n", hex(&hash)));
        }
    }
    hex(&hashed.finalize())
}

/// Digest of the address of a database, without its password.
pub(super) fn digest_of(location: &Location) -> String {
    let address = match location {
        Location::Sqlite(path) => format!("sqlite {}", path.display()),
        Location::Postgres(url) => {
            let parameters = url.split_once('?').map(|(_, parameters)| parameters).unwrap_or_default();
            let parameters: Vec<_> = parameters.split('&').filter(|one| !one.starts_with("password")).collect();
            format!("postgres {location} {}", parameters.join("&"))
        }
    };
    hex(&Sha256::digest(address.as_bytes()))
}

fn read(path: &Path) -> Result<Option<String>, String> {
    let mut file = match open(path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.permissions().mode() & OTHERS_WRITE != 0 {
        return Err("other users can write it".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err("it is too large".to_owned());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(Some(text))
}

/// Opens a file without following a symbolic link.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    options.custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;
    use crate::SigningKey;

    fn state() -> VerifiedState {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let note = Checkpoint::sign(&key, 7, &[2; 32], 0);
        let outside = digest_before(&Notes::new(), 7);
        let chain = VerifiedChain { key: key.verifier().to_string(), note, last_key: Some(3), outside };
        VerifiedState::new("d".to_owned(), "t".to_owned(), vec![chain], 2, 1)
    }

    #[test]
    fn only_a_state_of_ours_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(VERIFIED_FILE);
        assert_eq!(VerifiedState::read(&path), Ok(None));
        state().write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let (read, text) = VerifiedState::read(&path).unwrap().unwrap();
        assert_eq!(read, state());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");

        for bad in [
            String::new(),
            "{}".to_owned(),
            text.replace("\"format\":1", "\"format\":2"),
            text.replace("\"format\"", "\"more\":1,\"format\""),
            text.replace("\\n7\\n", "\\n8\\n"),
        ] {
            fs::write(&path, &bad).unwrap();
            assert!(VerifiedState::read(&path).is_err(), "{bad}");
        }
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(VerifiedState::read(&path).is_err(), "others can write it");
        fs::rename(&path, folder.path().join("other")).unwrap();
        fs::set_permissions(folder.path().join("other"), Permissions::from_mode(MODE)).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        assert!(VerifiedState::read(&path).is_err(), "a link leads elsewhere");
        forget_verification(&path).unwrap();
        forget_verification(&path).unwrap();
        assert_eq!(VerifiedState::read(&path), Ok(None));
    }

    #[test]
    fn checkpoints_that_were_not_compared_are_noticed() {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let note = |seq: i64, hash: u8| {
            let note = Checkpoint::sign(&key, seq, &[hash; 32], 0);
            (seq, vec![Checkpoint::open(&note, key.verifier()).unwrap()])
        };
        let known = Notes::from([note(3, 1), note(5, 1)]);
        let with = |outside: &Notes| {
            let chain = state().chains.remove(0);
            VerifiedChain { outside: digest_before(outside, 7), ..chain }
        };
        let later = Notes::from([note(3, 1), note(5, 1), note(7, 9), note(9, 1)]);
        assert!(with(&known).knows(&known) && with(&known).knows(&later));
        assert!(with(&known).knows(&Notes::new()) && with(&known).knows(&Notes::from([note(9, 1)])));
        for other in [vec![note(3, 1)], vec![note(3, 1), note(5, 2)], vec![note(3, 1), note(5, 1), note(6, 1)]] {
            assert!(!with(&known).knows(&other.into_iter().collect()));
        }
        assert!(!with(&Notes::new()).knows(&known));
        assert!(!VerifiedChain { outside: String::new(), ..with(&known) }.knows(&known));
    }

    #[test]
    fn a_password_is_not_part_of_the_address() {
        let digest = |url: &str| digest_of(&Location::Postgres(url.to_owned()));
        assert_eq!(digest("postgres://me:a@host/log"), digest("postgres://me:b@host/log"));
        assert_eq!(digest("postgres://host/log?password=a"), digest("postgres://host/log?password=b"));
        assert_ne!(digest("postgres:///log?host=/a"), digest("postgres:///log?host=/b"));
        assert_ne!(digest("postgres://host/log"), digest("postgres://host/other"));
    }
}
