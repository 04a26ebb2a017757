//! Reads and writes files that only their owner can read.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use rand::TryRng as _;
use rand::rngs::SysRng;

use crate::exit::{Exit, Failure};

pub(super) const SECRET_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
pub(super) const KEY_BYTES: usize = 32;

/// Returns 32 random bytes from the operating system.
pub(crate) fn random_bytes() -> anyhow::Result<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    SysRng.try_fill_bytes(&mut bytes).context("the operating system gave no random bytes")?;
    Ok(bytes)
}

/// Returns a new random key as 64 hexadecimal digits.
pub(super) fn random_key() -> anyhow::Result<String> {
    Ok(random_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads a key. Creates it if it does not exist.
pub(super) fn key_or_new(path: &Path) -> anyhow::Result<String> {
    if let Some(key) = read_secret(path)? {
        return Ok(key);
    }
    let key = random_key()?;
    write_secret(path, &key)?;
    Ok(key)
}

/// Creates a folder that only its owner can read, and its parents.
pub(crate) fn create_folder(folder: &Path) -> anyhow::Result<()> {
    let built = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    built.with_context(|| format!("could not create the folder `{}`", folder.display()))
}

/// Reads a secret. Refuses a file that other users can read.
pub(crate) fn read_secret(path: &Path) -> anyhow::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("could not read `{}`", path.display())),
    };
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        return Err(Failure::new(Exit::Failed, format!("`{path}`: permissions too open"))
            .hint(format!("run `chmod 600 {path}`"))
            .into());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("could not read `{}`", path.display()))?;
    Ok(Some(text.trim().to_owned()))
}

/// Writes a new file with mode 0600. Fails if the file exists. The file is complete or absent, even after a power
/// failure.
pub(crate) fn write_secret(path: &Path, secret: &str) -> anyhow::Result<()> {
    let doing = || format!("could not create `{}`", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(doing)?;
    writeln!(file, "{secret}").with_context(doing)?;
    file.as_file().set_permissions(Permissions::from_mode(SECRET_MODE)).with_context(doing)?;
    file.as_file().sync_all().with_context(doing)?;
    file.persist_noclobber(path).with_context(doing)?;
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(doing)
}

/// The permissions of a replaced file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Keeps the permissions. A new file gets mode 0600.
    AsBefore,
    /// Removes all permissions of other users.
    OnlyUs,
}

/// Replaces a file atomically, so that no reader sees a partial file.
pub(crate) fn replace_file(path: &Path, text: &str, readers: Readers) -> anyhow::Result<()> {
    // Replace the target of a symbolic link, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path).map_or(SECRET_MODE, |metadata| metadata.permissions().mode() & 0o7777);
    let mode = match readers {
        Readers::AsBefore => before,
        Readers::OnlyUs => before & !0o077,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("could not write into `{}`", folder.display()))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&path).with_context(|| format!("could not replace `{}`", path.display()))?;
    Ok(())
}
