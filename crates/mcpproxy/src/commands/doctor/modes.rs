//! Permissions of the files in the data folder: finds secrets that other users can access, and makes them private.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::home::{DATABASES, Home, keys};
use crate::operator_files::settings_file;

/// Permissions of everybody but the owner.
const OTHERS: u32 = 0o077;
/// The same, without reading.
const OTHERS_WRITE: u32 = 0o022;
/// Folders with imported secrets, and with copies of client settings, which contain tokens.
const FOLDERS: [&str; 3] = ["secrets", "connect", "backups"];
/// Depth of [`FOLDERS`]. `connect/backups/` has files on the second level.
const DEPTH_MAX: usize = 3;

/// Returns the secrets in the data folder that other users can access, and the folder itself if they can write to it.
pub(super) fn open_files(home: &Home) -> Vec<(String, u32)> {
    let folder = home.folder();
    // The folder protects the database, unless others may enter it.
    let is_entered = mode(folder).is_some_and(|mode| mode & 0o011 != 0);
    let databases = if is_entered { DATABASES.as_slice() } else { &[] };
    let mut refused = vec![
        (folder.to_owned(), OTHERS_WRITE),
        // Without secrets in it, others may read the settings, but never write them.
        (home.settings(), if has_secrets(home) { OTHERS } else { OTHERS_WRITE }),
    ];
    refused.extend(keys().chain(databases.iter().copied()).map(|name| (folder.join(name), OTHERS)));
    for name in FOLDERS {
        let mut found = Vec::new();
        collect(&folder.join(name), DEPTH_MAX, &mut found);
        refused.extend(found.into_iter().map(|path| (path, OTHERS)));
    }
    let open = refused.into_iter().filter_map(|(path, refused)| {
        let mode = mode(&path)?;
        (mode & refused != 0).then(|| (path.display().to_string(), mode))
    });
    open.collect()
}

/// Removes the permissions of other users. Returns what was done.
pub(super) fn fix(home: &Home) -> Vec<String> {
    let fix = |(path, mode): (String, u32)| match fs::set_permissions(&path, Permissions::from_mode(mode & 0o700)) {
        Ok(()) => format!("{path}: mode {mode:03o} is now {:03o}", mode & 0o700),
        Err(error) => format!("{path}: could not change the mode: {error}"),
    };
    open_files(home).into_iter().map(fix).collect()
}

fn mode(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o777)
}

/// Lists a path and everything inside. Leaves symbolic links out, because their targets belong to something else.
fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if metadata.is_symlink() {
        return;
    }
    found.push(path.to_owned());
    if metadata.is_dir() && depth > 0 {
        let mut inside: Vec<PathBuf> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        inside.sort();
        inside.iter().for_each(|path| collect(path, depth - 1, found));
    }
}

/// Returns whether the settings file itself contains secrets, instead of references to them.
fn has_secrets(home: &Home) -> bool {
    let path = home.settings();
    let Ok(Some((_, text))) = settings_file::read_text(&path) else { return false };
    settings_file::check_shape(&path, &text).is_ok_and(|settings| !settings.inline_secrets().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home;

    #[test]
    fn folders_with_secrets_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().join("data"))).unwrap();
        home.create().unwrap();
        let make = |name: &str, mode: u32| {
            let path = home.folder().join(name);
            match name.ends_with('/') {
                true => fs::create_dir_all(&path).unwrap(),
                false => fs::write(&path, "secret").unwrap(),
            }
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let outside = folder.path().join("shared");
        fs::write(&outside, "not ours").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        make("secrets/", 0o750);
        make("secrets/github", 0o644);
        make("secrets/docs", 0o600);
        std::os::unix::fs::symlink(&outside, home.folder().join("secrets/link")).unwrap();
        make("connect/", 0o700);
        make("connect/backups/", 0o700);
        make("connect/backups/cursor-1-mcp.json", 0o640);
        make("backups/", 0o711);
        make("contracts/", 0o755);

        let open = || {
            let strip = |(path, mode): (String, u32)| {
                format!("{} {mode:o}", path.strip_prefix(&format!("{}/", home.folder().display())).unwrap())
            };
            open_files(&home).into_iter().map(strip).collect::<Vec<_>>()
        };
        assert_eq!(
            open(),
            ["secrets 750", "secrets/github 644", "connect/backups/cursor-1-mcp.json 640", "backups 711"]
        );
        assert_eq!(fix(&home).len(), 4);
        assert_eq!(open(), [""; 0]);
        assert_eq!(mode(&outside), Some(0o644), "a link is not followed");
        assert_eq!(mode(&home.folder().join("secrets/github")), Some(0o600));

        // The folder protects the database, until others may enter the folder.
        for name in home::own_secrets() {
            make(name, 0o644);
        }
        let expected: Vec<String> = home::keys().map(|name| format!("{name} 644")).collect();
        assert_eq!(open(), expected);
        assert_eq!(
            open()[..6],
            ["admin.key", "agent.token", "signing.key", "signing.key.next", "sealing.key", "signing.key.old"]
                .map(|name| format!("{name} 644"))
        );
        fs::set_permissions(home.folder(), Permissions::from_mode(0o711)).unwrap();
        assert_eq!(open().len(), home::own_secrets().count());
        assert!(open().contains(&"mcpproxy.db-shm 644".to_owned()), "{:?}", open());
    }
}
