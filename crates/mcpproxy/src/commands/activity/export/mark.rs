//! The file of a continued export, and `FILE.position` beside it: where the last export ended, and of which log.
//!
//! ```text
//! {"position":"f0-1234","bytes":56789,"what":{"format":"jsonl","type":"call"},"at":{"0":["5039d96ca1b5","9f86…"]}}
//! ```
//!
//! A restored log has other lines at the same positions, and another database has other chains with the same numbers. So
//! the mark also has the name of each chain, and the hash of the line where the export ended.
//!
//! The folder may be shared, such as an archive. So both files count only if they are regular files that belong to the
//! user who exports and that no other user can write. A link could lead to any file of the user, and the owner of a
//! file reads everything that is written to it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcpproxy_store::{FeedCursor, Filter, LineMark, Store};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{FileFormat, Payloads, Shape};
use crate::exit::{Exit, Failure};
use crate::home::secret::{Readers, replace_file};

const MODE: u32 = 0o600;
const OTHERS_WRITE: u32 = 0o022;
const AGAIN: &str = "choose another file, or move this one and its `.position` away to export everything";

/// The end of an export, beside its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    position: String,
    /// The size of the file.
    bytes: u64,
    /// The format and the filters. All of a file has the same.
    what: Map<String, Value>,
    /// For each chain of the position: its name, and the hash of the line there.
    at: BTreeMap<u16, (String, Option<String>)>,
}

impl Mark {
    /// The mark of a file with nothing in it.
    pub(super) fn new(what: Map<String, Value>) -> Self {
        Self { position: FeedCursor::default().to_string(), bytes: 0, what, at: BTreeMap::new() }
    }

    /// The mark after an export that ended at a position.
    pub(super) async fn after(
        store: &Store,
        position: &FeedCursor,
        (bytes, what): (u64, Map<String, Value>),
    ) -> anyhow::Result<Self> {
        let at = store.lines_at(position).await?.into_iter();
        let at = at.map(|(number, LineMark { chain, hash, .. })| (number, (chain, hash))).collect();
        Ok(Self { position: position.to_string(), bytes, what, at })
    }

    pub(super) fn path(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".position");
        name.into()
    }

    /// Reads the mark of an export. `None` if there is none.
    pub(super) fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let mut file = match open_own(path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.of(path)),
        };
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("could not read `{}`", path.display()))?;
        let unreadable = |_| {
            Failure::new(Exit::Failed, format!("`{}` is not a position of an export.", path.display()))
                .hint("move it and its file away to export everything")
        };
        Ok(Some(serde_json::from_str(&text).map_err(unreadable)?))
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        replace_file(path, &(serde_json::to_string(self)? + "\n"), Readers::OnlyUs)
    }

    /// Compares the mark with the file and the options. Returns the position to go on from, and the size to cut the file
    /// to: an interrupted export may have left a part.
    pub(super) fn check(
        &self,
        file: &File,
        path: &Path,
        what: &Map<String, Value>,
    ) -> anyhow::Result<(FeedCursor, u64)> {
        let shown = path.display();
        if self.what != *what {
            let message = format!("`{shown}` was exported with another format or other filters.");
            return Err(Failure::new(Exit::Usage, message).hint(AGAIN).into());
        }
        if file.metadata()?.len() < self.bytes {
            let message = format!("`{shown}` is shorter than after the last export.");
            return Err(Failure::new(Exit::Failed, message).hint(AGAIN).into());
        }
        if let Some(last) = self.bytes.checked_sub(1) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, last).with_context(|| format!("could not read `{shown}`"))?;
            if byte != *b"\n" {
                let message =
                    format!("`{shown}` was changed since the last export: no line ends where that one ended.");
                return Err(Failure::new(Exit::Failed, message).hint(AGAIN).into());
            }
        }
        Ok((FeedCursor::parse(&self.position)?, self.bytes))
    }

    /// Refuses a log that is another one than at the last export.
    pub(super) async fn check_log(&self, store: &Store, position: &FeedCursor) -> anyhow::Result<()> {
        let now = store.lines_at(position).await?;
        let goes_on = |(number, (chain, hash)): (&u16, &(String, Option<String>))| {
            now.get(number).is_some_and(|line| line.continues(chain, hash.as_deref()))
        };
        if self.at.iter().all(goes_on) {
            return Ok(());
        }
        let message = "The log is not the one of the last export, so it was restored or replaced.";
        Err(Failure::new(Exit::Failed, message).hint(AGAIN).into())
    }
}

/// Opens the file to append to, or creates it. Only the user can read a new file.
pub(super) fn open_file(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).read(true).write(true).mode(MODE);
    let file = open_own(path, options).map_err(|error| error.of(path))?;
    let doing = || format!("could not write to `{}`", path.display());
    if file.metadata().with_context(doing)?.len() == 0 {
        // An empty file may have been there before, with another mode.
        file.set_permissions(Permissions::from_mode(MODE)).with_context(doing)?;
    }
    Ok(file)
}

#[derive(Debug)]
enum OpenError {
    Io(io::Error),
    NotOurs,
}

impl OpenError {
    fn of(self, path: &Path) -> anyhow::Error {
        let shown = path.display();
        match self {
            Self::Io(error) => anyhow::Error::new(error).context(format!("could not open `{shown}`")),
            Self::NotOurs => {
                let message = format!("`{shown}` is not a regular file of yours that only you can write.");
                Failure::new(Exit::Failed, message).hint("move it away, and export into a folder of your own").into()
            }
        }
    }
}

/// Opens a file of this user. A link is not followed, and a pipe does not block.
fn open_own(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = options.custom_flags(flags).open(path).map_err(OpenError::Io)?;
    let metadata = file.metadata().map_err(OpenError::Io)?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_file() && is_ours && metadata.mode() & OTHERS_WRITE == 0 {
        Ok(file)
    } else {
        Err(OpenError::NotOurs)
    }
}

/// Names the format and the filters that are set. A filter that a later version adds does not change it.
pub(super) fn what_of(shape: Shape, filter: &Filter) -> Map<String, Value> {
    let Filter {
        intent_type,
        kind,
        status,
        server,
        tool,
        agent,
        risk,
        sensitivity,
        category,
        code,
        dry_run,
        replayed,
        since_ms,
        until_ms,
        text,
    } = filter;
    let format = match shape.format {
        FileFormat::Jsonl => "jsonl",
        FileFormat::Csv => "csv",
    };
    let payloads = match shape.payloads {
        Payloads::With => Some(true),
        Payloads::Without => None,
    };
    let set = [
        ("format", Some(json!(format))),
        ("payloads", payloads.map(Value::from)),
        ("intent_type", intent_type.map(|variant| json!(variant.operation()))),
        ("type", kind.map(|kind| json!(kind.as_str()))),
        ("status", status.map(|status| json!(status.as_str()))),
        ("server", server.clone().map(Value::from)),
        ("tool", tool.clone().map(Value::from)),
        ("agent", agent.clone().map(Value::from)),
        ("risk", risk.map(|risk| json!(risk.as_str()))),
        ("sensitivity", sensitivity.map(|sensitivity| json!(sensitivity.as_str()))),
        ("category", category.clone().map(Value::from)),
        ("code", code.clone().map(Value::from)),
        ("dry_run", dry_run.map(Value::from)),
        ("replayed", replayed.map(Value::from)),
        ("since_ms", since_ms.map(Value::from)),
        ("until_ms", until_ms.map(Value::from)),
        ("query", text.clone().map(Value::from)),
    ];
    set.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use mcpproxy_store::Kind;

    use super::*;

    #[test]
    fn only_a_file_of_ours_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        let precious = folder.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        symlink(&precious, &path).unwrap();
        assert!(open_file(&path).is_err(), "a link leads elsewhere");
        assert!(Mark::read(&path).is_err());
        fs::remove_file(&path).unwrap();
        assert_eq!(Mark::read(&path).unwrap(), None);

        fs::create_dir(&path).unwrap();
        assert!(open_file(&path).is_err(), "not a file");
        fs::remove_dir(&path).unwrap();

        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let refused = open_file(&path).unwrap_err().to_string();
        assert!(refused.ends_with("is not a regular file of yours that only you can write."), "{refused}");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        open_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE, "an empty file is closed to others");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    }

    #[test]
    fn a_changed_file_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        let what = what_of(Shape { format: FileFormat::Jsonl, payloads: Payloads::Without }, &Filter::default());
        let check = |text: &str, bytes: u64, is_fine: bool| {
            fs::write(&path, text).unwrap();
            let mark = Mark { bytes, position: "f0-2".to_owned(), ..Mark::new(what.clone()) };
            let checked = mark.check(&File::open(&path).unwrap(), &path, &what);
            assert_eq!(checked.is_ok(), is_fine, "{text:?} at {bytes}");
        };
        check("{}\n{}\n", 6, true);
        check("{}\n{}\n{\"ha", 6, true);
        check("", 0, true);
        check("{\"more\":1}\n{}\n", 6, false);
        check("{}\n", 6, false);
    }

    #[test]
    fn the_options_are_named_by_what_is_set() {
        let shape = Shape { format: FileFormat::Csv, payloads: Payloads::With };
        let filter = Filter { kind: Some(Kind::Call), server: Some("git".to_owned()), ..Filter::default() };
        let expected = json!({"format": "csv", "payloads": true, "type": "call", "server": "git"});
        assert_eq!(Value::Object(what_of(shape, &filter)), expected);
        let plain = Shape { format: FileFormat::Jsonl, payloads: Payloads::Without };
        assert_eq!(Value::Object(what_of(plain, &Filter::default())), json!({"format": "jsonl"}));
    }
}
