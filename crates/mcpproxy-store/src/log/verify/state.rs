//! The state of the last verification: `verified.json` in the data folder.
//!
//! The file says how far each chain was verified, as a signed checkpoint of the chain itself. It is not in the database,
//! because whoever changes records there could change it, too. It deserves the same trust as `checkpoint.txt`: whoever can
//! replace it can make a verification skip lines. So only the owner of the data folder may be able to write it.
//!
//! ```text
//! {"format":1,"program":"0.9.0","database":"3f…","time_ms":…,"full_ms":…,"damaged":false,"turns":"9a…",
//!  "chains":[{"key":"mcpproxy/2f…+…","note":"mcpproxy/2f…\n1234\n…","newest":null,"last_key":…,"outside":"e3…"}]}
//! ```
//!
//! `note` is where the next verification continues. `newest` is a later checkpoint that matched, if there is one. It is
//! evidence only, so that a run with older checkpoints from outside does not move the evidence back.
//!
//! A file that cannot be read, or that other users can write or replace, is no state. Then everything is verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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
/// The name of a file that could not be read when a new chain began.
const OLD_FILE: &str = "verified.old.json";
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
    /// A later checkpoint that matched. It is evidence, and no place to continue from.
    newest: Option<String>,
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
        if state.format != FORMAT || !state.chains.iter().all(VerifiedChain::is_signed) {
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

/// The last verification of a database, as the file in the data folder tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedVerification {
    /// The last time that every line was read, and found intact.
    pub full_ms: i64,
    /// True if damage was found since then.
    pub found_damage: bool,
}

impl Store {
    /// Returns what the file tells about the last verification of this database.
    pub fn noted_verification(&self, file: &Path) -> Option<NotedVerification> {
        let (state, _) = VerifiedState::read(file).ok().flatten()?;
        let is_ours = state.database == digest_of(self.database().location());
        is_ours.then_some(NotedVerification { full_ms: state.full_ms, found_damage: state.damaged })
    }
}

/// Returns the checkpoints of the last verification of this database. They tell of a log that is gone now.
pub fn verified_checkpoints(file: &Path, location: &Location) -> Vec<String> {
    let state = VerifiedState::read(file).ok().flatten().map(|(state, _)| state);
    let state = state.filter(|state| state.database == digest_of(location));
    state.into_iter().flat_map(|state| state.chains).map(|chain| chain.newest_note().to_owned()).collect()
}

/// Keeps the file as evidence only, without the chain of this name: the next verification reads every line. The other
/// chains may have no other witness on this machine.
pub fn distrust_verification(file: &Path, without: Option<&str>) -> io::Result<()> {
    let state = match VerifiedState::read(file) {
        Ok(None) => return Ok(()),
        Ok(Some((state, _))) => Some(state.with_damage()),
        Err(_) => None,
    };
    if let Some(mut state) = state {
        state.chains.retain(|chain| chain.verifier().is_none_or(|key| Some(key.chain()) != without));
        if state.write(file).is_ok() {
            return Ok(());
        }
    }
    match fs::rename(file, file.with_file_name(OLD_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the file. Then the next verification reads every line.
pub fn forget_verification(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl VerifiedChain {
    /// The newest checkpoint of a walk. `from` is the one that the walk continued from, and `kept` the newest one of the
    /// last verification.
    pub(super) fn after(
        walk: &ChainWalk,
        outside: &Notes,
        from: Option<Self>,
        kept: Option<(i64, String)>,
    ) -> Option<Self> {
        // Without a checkpoint up to the given ones, the newest is better than none. One that the database lost is still
        // evidence. It is no place to continue from, because no record is known to be before it.
        let lost = || kept.clone().map(|(seq, note)| Anchor { seq, note, last_key: None });
        let anchor = walk.anchor.clone().or_else(|| walk.newest.clone()).or_else(lost);
        let Anchor { seq, note, last_key } = anchor?;
        let newest = walk.newest.clone().map(|newest| (newest.seq, newest.note));
        let newest = newest.into_iter().chain(kept).filter(|(newest, _)| *newest > seq).max_by_key(|(seq, _)| *seq);
        let newest = newest.map(|(_, note)| note);
        let outside = match &from {
            // The checkpoints before it were compared by an earlier run, and are not known now.
            Some(from) if !from.knew_none() && !from.has_before(outside) => String::new(),
            Some(_) | None => digest_before(outside, seq),
        };
        Some(Self { key: walk.verifier.to_string(), note, newest, last_key: last_key.map(|Key(key)| key), outside })
    }

    pub(super) fn verifier(&self) -> Option<Verifier> {
        Verifier::parse(&self.key)
    }

    /// The checkpoint, if the key of this chain signed it.
    pub(super) fn checkpoint(&self) -> Option<Checkpoint> {
        Checkpoint::open(&self.note, &self.verifier()?).ok()
    }

    /// Tells if the key of this chain signed all of its checkpoints.
    fn is_signed(&self) -> bool {
        let Some(key) = self.verifier() else { return false };
        self.notes().all(|note| Checkpoint::open(note, &key).is_ok())
    }

    /// The texts of its checkpoints.
    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.note.as_str()).chain(self.newest.as_deref())
    }

    pub(super) fn newest_note(&self) -> &str {
        self.newest.as_deref().unwrap_or(&self.note)
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
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::metadata(folder).map_err(|error| error.to_string())?;
    let access = |of: &fs::Metadata| Access { owner: of.uid(), mode: of.mode() };
    let us = rustix::process::geteuid().as_raw();
    if !metadata.is_file() || !is_only_ours(access(&metadata), access(&folder), us) {
        return Err("other users can write it".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err("it is too large".to_owned());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(Some(text))
}

/// The owner and the mode of a file or a folder.
#[derive(Clone, Copy)]
struct Access {
    owner: u32,
    mode: u32,
}

/// Tells if no other user can write or replace the file. Users who can write to the folder can put their own file there.
fn is_only_ours(file: Access, folder: Access, us: u32) -> bool {
    let is_closed = |of: Access| of.mode & OTHERS_WRITE == 0;
    is_closed(file) && is_closed(folder) && [us, 0, folder.owner].contains(&file.owner)
}

/// Opens a file without following a symbolic link.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    options.custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::SigningKey;

    fn state() -> VerifiedState {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let note = Checkpoint::sign(&key, 7, &[2; 32], 0);
        let outside = digest_before(&Notes::new(), 7);
        let chain = VerifiedChain { key: key.verifier().to_string(), note, newest: None, last_key: Some(3), outside };
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
        fs::set_permissions(&path, Permissions::from_mode(MODE)).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o770)).unwrap();
        assert!(VerifiedState::read(&path).is_err(), "others can replace it");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(VerifiedState::read(&path).is_ok());
        fs::rename(&path, folder.path().join("other")).unwrap();
        fs::set_permissions(folder.path().join("other"), Permissions::from_mode(MODE)).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        assert!(VerifiedState::read(&path).is_err(), "a link leads elsewhere");
        forget_verification(&path).unwrap();
        forget_verification(&path).unwrap();
        assert_eq!(VerifiedState::read(&path), Ok(None));
    }

    #[test]
    fn a_file_of_another_owner_is_not_believed() {
        let at = |owner: u32, mode: u32| Access { owner, mode };
        let check = |file: Access, folder: Access, expected: bool| {
            assert_eq!(is_only_ours(file, folder, 7), expected, "{} in {}", file.owner, folder.owner);
        };
        check(at(7, 0o600), at(7, 0o700), true);
        check(at(0, 0o644), at(7, 0o700), true);
        check(at(8, 0o600), at(8, 0o755), true);
        check(at(8, 0o644), at(7, 0o755), false);
        check(at(7, 0o600), at(7, 0o770), false);
        check(at(7, 0o620), at(7, 0o700), false);
    }

    /// The file may be the only witness of other chains.
    #[test]
    fn a_new_chain_leaves_the_evidence_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(VERIFIED_FILE);
        distrust_verification(&path, None).unwrap();
        let [own, other] = [1, 2].map(|seed| SigningKey::from_seed(&[seed; 32]).unwrap());
        let mut both = state();
        let note = Checkpoint::sign(&other, 9, &[2; 32], 0);
        let chain = VerifiedChain { key: other.verifier().to_string(), note, ..both.chains[0].clone() };
        both.chains.push(chain);
        both.write(&path).unwrap();
        distrust_verification(&path, Some(own.verifier().chain())).unwrap();
        let (left, _) = VerifiedState::read(&path).unwrap().unwrap();
        assert_eq!((left.damaged, left.chains.len()), (true, 1));
        assert_eq!(left.chains[0].key, other.verifier().to_string());

        // One that cannot be read is set aside.
        fs::write(&path, "{}").unwrap();
        distrust_verification(&path, None).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(folder.path().join(OLD_FILE)).unwrap(), "{}");
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
