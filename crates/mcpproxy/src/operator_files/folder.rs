//! Reads `contracts/` and `policies/`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Stamp;
use crate::exit::{Exit, Failure};
use crate::operator_files::settings_file;
use crate::terminal::output::line;

pub(crate) const CONTRACTS: Folder =
    Folder { name: "contracts", word: "contracts", endings: &["yaml", "yml", "json"], all_max_bytes: 8 * MIB };
pub(crate) const POLICIES: Folder =
    Folder { name: "policies", word: "policies", endings: &["cedar"], all_max_bytes: 8 * MIB };
const MIB: usize = 1024 * 1024;
/// Maximum number of files in a folder.
const FILES_MAX: usize = 500;
/// Maximum number of ignored files in a message.
const TOLD_MAX: usize = 10;

/// A folder next to the settings file.
pub(crate) struct Folder {
    name: &'static str,
    /// Plural noun for the content of its files.
    pub(super) word: &'static str,
    endings: &'static [&'static str],
    all_max_bytes: usize,
}

/// Names and texts of all files, sorted by name.
pub(crate) type Texts = Vec<(String, String)>;

/// The entries of a folder, sorted by name.
#[derive(Default)]
struct Listed {
    read: Vec<PathBuf>,
    ignored: Vec<String>,
}

impl Folder {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn beside(&self, settings_path: &Path) -> PathBuf {
        settings_path.parent().unwrap_or(Path::new(".")).join(self.name)
    }

    /// Reads all files. Returns an empty list if there is no folder.
    pub(crate) fn read(&self, settings_path: &Path) -> Result<Texts, Failure> {
        Ok(self.read_if_there(settings_path)?.unwrap_or_default())
    }

    /// Reads the files of any folder, or one file, to try them out. Nothing becomes active, so the owner does not matter.
    pub(crate) fn read_given(&self, path: &Path) -> Result<Texts, Failure> {
        if !path.is_dir() {
            return super::read_given(&[path.to_owned()]);
        }
        let listed = self.list(path).map_err(|error| unreadable(path, &error))?;
        if listed.read.len() > FILES_MAX {
            let message = format!("{}: more than {FILES_MAX} files", path.display());
            return Err(Failure::new(Exit::BadSettings, message).hint("give a folder that has only the files to try"));
        }
        super::read_given(&listed.read)
    }

    /// Reads all files. Returns `None` if there is no folder.
    pub(super) fn read_if_there(&self, settings_path: &Path) -> Result<Option<Texts>, Failure> {
        let folder = self.beside(settings_path);
        let stamp = folder_stamp(&folder);
        if !self.check(&folder)? {
            return Ok(None);
        }
        let listed = self.list(&folder).map_err(|error| unreadable(&folder, &error))?;
        let count = listed.read.len();
        if count > FILES_MAX {
            let message = format!("{}: {count} files, but at most {FILES_MAX} are allowed", folder.display());
            return Err(
                Failure::new(Exit::BadSettings, message).hint("put several contracts or policies into one file")
            );
        }
        let mut texts = Texts::new();
        let mut bytes = 0;
        for path in listed.read {
            let Some((file, text)) = settings_file::read_text(&path)? else {
                // The file was deleted after the folder was listed.
                continue;
            };
            settings_file::check_owner(&path, &file)?;
            bytes += text.len();
            if bytes > self.all_max_bytes {
                let max = self.all_max_bytes / MIB;
                let message = format!("{}: the files have more than {max} MiB in total", folder.display());
                return Err(Failure::new(Exit::BadSettings, message).hint("remove files that do not belong there"));
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            texts.push((format!("{}/{name}", self.name), text));
        }
        // If the folder itself disappears while it is read, its files look as if they were deleted one by one.
        if folder_stamp(&folder) != stamp {
            let message = format!("{}: the folder was removed or replaced while it was read", folder.display());
            return Err(Failure::new(Exit::BadSettings, message));
        }
        Ok(Some(texts))
    }

    /// Returns fingerprints of the folder and its files.
    pub(super) fn stamps(&self, settings_path: &Path) -> Vec<(PathBuf, Stamp)> {
        let folder = self.beside(settings_path);
        let files = self.list(&folder).unwrap_or_default().read;
        let files: Vec<_> = files.into_iter().map(|path| (path.clone(), super::stamp(&path))).collect();
        [(folder.clone(), folder_stamp(&folder))].into_iter().chain(files).collect()
    }

    /// Returns a message about ignored files, so that a wrong file name does not go unnoticed.
    pub(super) fn ignored(&self, settings_path: &Path) -> Option<String> {
        let names = self.list(&self.beside(settings_path)).unwrap_or_default().ignored;
        let (first, more) = (names.first()?, names.len().saturating_sub(TOLD_MAX));
        let mut told = line(first);
        for name in names.iter().take(TOLD_MAX).skip(1) {
            told.push_str(", ");
            told.push_str(&line(name));
        }
        if more > 0 {
            told.push_str(&format!(" and {more} more"));
        }
        let endings: Vec<String> = self.endings.iter().map(|ending| format!(".{ending}")).collect();
        let endings = match endings.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => endings.concat(),
        };
        Some(format!("{}/: ignored: {told}. Only files that end in {endings} are read.", self.name))
    }

    /// Returns true if the folder exists. Checks its owner too, because every user who can add files to it can write
    /// contracts.
    fn check(&self, folder: &Path) -> Result<bool, Failure> {
        let file = match settings_file::open(folder) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return settings_file::no_dangling_link(folder).map(|()| false);
            }
            Err(error) => return Err(unreadable(folder, &error)),
        };
        if !file.metadata().map_err(|error| unreadable(folder, &error))?.is_dir() {
            let message = format!("{}: not a folder", folder.display());
            let hint = format!("replace it with a folder that contains the {}", self.word);
            return Err(Failure::new(Exit::BadSettings, message).hint(hint));
        }
        settings_file::check_owner(folder, &file)?;
        Ok(true)
    }

    fn list(&self, folder: &Path) -> io::Result<Listed> {
        let mut listed = Listed::default();
        for file in fs::read_dir(folder)? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if self.is_read(&name) {
                listed.read.push(file.path());
            } else if !is_known_to_be_other(&name) {
                let is_folder = file.file_type().is_ok_and(|kind| kind.is_dir());
                listed.ignored.push(if is_folder { name + "/" } else { name });
            }
        }
        listed.read.sort();
        listed.ignored.sort();
        Ok(listed)
    }

    /// Returns whether a file is read. Hidden files and backup copies of editors are not.
    fn is_read(&self, name: &str) -> bool {
        let ending = Path::new(name).extension().map(|ending| ending.to_string_lossy()).unwrap_or_default();
        !name.starts_with('.') && self.endings.contains(&ending.as_ref())
    }
}

/// Returns whether a file is obviously not a contract or policy, and needs no message.
fn is_known_to_be_other(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with('.')
        || name.ends_with('~')
        || name.ends_with(".md")
        || name.starts_with("readme")
        || name.starts_with("license")
}

fn unreadable(folder: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::BadSettings, format!("{}: {error}", folder.display()))
}

/// Takes a fingerprint of a folder: inode, mode and owner. Times are left out, because backup copies of editors change
/// them.
fn folder_stamp(folder: &Path) -> Stamp {
    // A broken symbolic link differs from a missing folder.
    let metadata = fs::metadata(folder).or_else(|_| folder.symlink_metadata()).ok()?;
    Some((metadata.dev(), metadata.ino(), i64::from(metadata.mode()), i64::from(metadata.uid())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// Prepares a `contracts` folder with `make`, reads it, and returns the file names or the error.
    fn read(make: impl FnOnce(&Path)) -> Result<Option<Vec<String>>, String> {
        let home = tempfile::tempdir().unwrap();
        make(home.path());
        let texts = CONTRACTS.read_if_there(&home.path().join("mcp_config.json"));
        let names = texts.map(|texts| texts.map(|texts| texts.into_iter().map(|(name, _)| name).collect()));
        names.map_err(|failure| failure.to_string().replace(&home.path().display().to_string(), "HOME"))
    }

    fn in_folder(make: impl FnOnce(&Path)) -> Result<Option<Vec<String>>, String> {
        read(|home| {
            let folder = home.join("contracts");
            fs::create_dir(&folder).unwrap();
            make(&folder);
        })
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }

    #[test]
    fn what_is_there() {
        let names = |names: &[&str]| Ok(Some(names.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!(read(|_| {}), Ok(None));
        assert_eq!(in_folder(|_| {}), names(&[]));
        let several = in_folder(|folder| {
            for name in ["b.yml", "a.yaml", "c.json", "d.YAML", "e.yaml.txt", ".f.yaml"] {
                fs::write(folder.join(name), "").unwrap();
            }
        });
        assert_eq!(several, names(&["contracts/a.yaml", "contracts/b.yml", "contracts/c.json"]));
        let linked = read(|home| {
            fs::create_dir(home.join("real")).unwrap();
            fs::write(home.join("text"), "").unwrap();
            symlink(home.join("text"), home.join("real/a.yaml")).unwrap();
            symlink(home.join("real"), home.join("contracts")).unwrap();
        });
        assert_eq!(linked, names(&["contracts/a.yaml"]));
    }

    #[test]
    fn what_is_refused() {
        let check = |read: Result<Option<Vec<String>>, String>, expected: &str| {
            assert_eq!(read, Err(expected.to_owned()));
        };
        check(
            read(|home| symlink("/nonexistent", home.join("contracts")).unwrap()),
            "HOME/contracts: broken symbolic link",
        );
        check(
            in_folder(|folder| symlink("/nonexistent", folder.join("a.yaml")).unwrap()),
            "HOME/contracts/a.yaml: broken symbolic link",
        );
        check(read(|home| fs::write(home.join("contracts"), "").unwrap()), "HOME/contracts: not a folder");
        check(read(|home| fifo(&home.join("contracts"))), "HOME/contracts: not a folder");
        check(
            in_folder(|folder| fifo(&folder.join("a.yaml"))),
            "HOME/contracts/a.yaml: not a regular file but a pipe or device",
        );
        check(
            in_folder(|folder| symlink("/dev/zero", folder.join("a.yaml")).unwrap()),
            "HOME/contracts/a.yaml: not a regular file but a pipe or device",
        );
        check(
            in_folder(|folder| drop(std::os::unix::net::UnixListener::bind(folder.join("a.yaml")).unwrap())),
            "HOME/contracts/a.yaml: not a regular file but a pipe or device",
        );
        check(
            in_folder(|folder| fs::create_dir(folder.join("a.yaml")).unwrap()),
            "HOME/contracts/a.yaml: not a regular file but a folder",
        );
        check(in_folder(|folder| mode(folder, 0o777)), "HOME/contracts: permissions too open: everyone can change it");
        check(in_folder(|folder| mode(folder, 0o1777)), "HOME/contracts: permissions too open: everyone can change it");
        // Only root can change the owner.
        if rustix::process::geteuid().is_root() {
            check(
                in_folder(|folder| chown(folder, Some(4711), None).unwrap()),
                "HOME/contracts: not owned by you (uid 0), but by uid 4711",
            );
        }
    }

    #[test]
    fn bounds() {
        let files = |count: usize, bytes: usize| {
            in_folder(|folder| {
                for number in 0..count {
                    fs::write(folder.join(format!("{number}.yaml")), "#".repeat(bytes)).unwrap();
                }
            })
            .map(|names| names.unwrap().len())
        };
        assert_eq!(files(500, 1), Ok(500));
        assert_eq!(files(501, 1), Err("HOME/contracts: 501 files, but at most 500 are allowed".to_owned()));
        assert_eq!(files(32, MIB / 4), Ok(32));
        assert_eq!(files(33, MIB / 4), Err("HOME/contracts: the files have more than 8 MiB in total".to_owned()));
    }

    #[test]
    fn what_does_not_count_is_told() {
        let told = |folder: &Folder, names: &[&str]| {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(folder.name);
            fs::create_dir(&path).unwrap();
            for name in names {
                match name.strip_suffix('/') {
                    Some(name) => fs::create_dir(path.join(name)).unwrap(),
                    None => fs::write(path.join(name), "").unwrap(),
                }
            }
            folder.ignored(&home.path().join("mcp_config.json"))
        };
        let fine =
            ["a.yaml", "b.yml", "c.json", ".git/", ".a.yaml.swp", "a.yaml~", "README", "LICENSE.txt", "notes.md"];
        assert_eq!(told(&CONTRACTS, &fine), None);
        assert_eq!(
            told(&CONTRACTS, &["a.yaml", "team/", "B.YAML", "c.yaml.txt"]).as_deref(),
            Some(
                "contracts/: ignored: B.YAML, c.yaml.txt, team/. Only files that end in .yaml, .yml or .json are read."
            )
        );
        assert_eq!(
            told(&POLICIES, &["a.cedar", "b\u{1b}[2J"]).as_deref(),
            Some("policies/: ignored: b\\u{1b}[2J. Only files that end in .cedar are read.")
        );
        let many: Vec<String> = (10..22).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            told(&POLICIES, &many).as_deref(),
            Some(
                "policies/: ignored: 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 and 2 more. Only files that end in .cedar are read."
            )
        );
    }

    #[test]
    fn stamps_change_with_what_counts() {
        let home = tempfile::tempdir().unwrap();
        let settings = home.path().join("mcp_config.json");
        let folder = home.path().join("contracts");
        let mut last = CONTRACTS.stamps(&settings);
        let mut changes = |what: &str, expected: bool| {
            let now = CONTRACTS.stamps(&settings);
            assert_eq!(now != last, expected, "{what}");
            last = now;
        };
        fs::create_dir(&folder).unwrap();
        changes("a new folder", true);
        fs::write(folder.join("a.yaml"), "").unwrap();
        changes("a new file", true);
        fs::write(folder.join(".a.yaml.swp"), "").unwrap();
        changes("what an editor leaves", false);
        mode(&folder, 0o777);
        changes("the mode of the folder", true);
        fs::remove_dir_all(&folder).unwrap();
        changes("no folder", true);
        symlink("/nonexistent", &folder).unwrap();
        changes("broken symbolic link", true);
    }
}
