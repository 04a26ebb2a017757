//! Reads the settings file, and checks its owner and permissions.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpproxy_core::Mistake;
use mcpproxy_core::settings::{
    self, FILE_MAX_BYTES, Outside, ServerSettings, Settings, StorageSettings, StorageUrl, Warning,
};
use mcpproxy_web::CertifiedPair;
use rustix::fs::OFlags;

use super::tls_files;
use crate::exit::{Exit, Failure};
use crate::home::own_secrets;

/// Permissions of everybody but the owner.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;

/// The settings, and the files that they refer to.
pub(crate) struct ReadSettings {
    pub(crate) settings: Settings,
    pub(crate) referenced: Vec<PathBuf>,
    /// The gateway's own certificate.
    pub(crate) tls: Option<Arc<CertifiedPair>>,
}

/// Reads the settings. Returns `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<ReadSettings>, Failure> {
    let Some((file, text)) = read_text(path)? else { return Ok(None) };
    let here = Here::beside(path, References::Resolved);
    let mut settings = settings::parse(&text, &here).map_err(|errors| bad(path, &errors))?;
    settings.warnings.extend(check_access(path, &file, &settings)?);
    let mut referenced = here.referenced.into_inner();
    let mut tls = None;
    if let Some(wanted) = settings.tls.clone() {
        let read = tls_files::read(path, &settings, &wanted)?;
        referenced.extend(tls_files::paths(path, &wanted));
        settings.warnings.extend(read.warnings);
        tls = Some(read.pair);
    }
    Ok(Some(ReadSettings { settings, referenced: referenced.into_iter().collect(), tls }))
}

/// Parses published settings for this machine, and returns the files that they refer to. Mistakes name the file `shown`.
pub(super) fn parse_shared(shown: &Path, path: &Path, text: &str) -> Result<(Settings, Vec<PathBuf>), Failure> {
    let here = Here::beside(path, References::Resolved);
    let settings = settings::parse(text, &here).map_err(|errors| bad(shown, &errors))?;
    Ok((settings, here.referenced.into_inner().into_iter().collect()))
}

/// Returns the files that `tls` names, also if they or the settings cannot be used.
pub(crate) fn tls_paths(path: &Path) -> Vec<PathBuf> {
    let text = read_text(path).ok().flatten().map(|(_, text)| text);
    // References that do not resolve here leave a path that does not exist, which is as good as none.
    let settings = text.and_then(|text| parse(path, &text, References::Left).ok());
    settings.and_then(|settings| settings.tls).map(|tls| tls_files::paths(path, &tls).to_vec()).unwrap_or_default()
}

/// Reads a database that an option of a command names. Its references are resolved as in the settings file at `path`.
pub(crate) fn storage_named(path: &Path, option: &str, url: &str) -> Result<StorageSettings, Failure> {
    let text = serde_json::json!({ "storage": { "url": url } }).to_string();
    let parsed = settings::parse(&text, &Here::beside(path, References::Resolved));
    parsed.map(|settings| settings.storage).map_err(|errors| {
        let words: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        Failure::new(Exit::Usage, format!("{option} names no usable database: {}.", words.join("; ")))
    })
}

/// Reads only the storage settings. References that resolve only in the gateway's environment are not needed.
pub(crate) fn read_storage(path: &Path) -> Result<StorageSettings, Failure> {
    let Some((_, text)) = read_text(path)? else { return Ok(StorageSettings::default()) };
    let storage = parse(path, &text, References::Left)?.storage;
    let is_left = storage.url.as_ref().is_some_and(|url| match url {
        StorageUrl::Sqlite(path) => path.contains(LEFT),
        StorageUrl::Postgres(url) => url.expose().contains(LEFT),
    });
    if is_left {
        // The storage URL itself contains a reference, so it must resolve.
        return Ok(parse(path, &text, References::Resolved)?.storage);
    }
    Ok(storage)
}

/// Parses a text as the settings file at `path`, without resolving references.
pub(crate) fn check_shape(path: &Path, text: &str) -> Result<Settings, Failure> {
    parse(path, text, References::Left)
}

/// Handling of `${env:NAME}` and `${file:PATH}` that do not resolve here.
#[derive(Clone, Copy, PartialEq)]
enum References {
    /// An error.
    Resolved,
    /// Left as they are, because the gateway may have another environment.
    Left,
}

/// Placeholder for an unresolved reference. It is valid wherever a reference can be used.
const LEFT: &str = "http://reference.invalid/";

fn parse(path: &Path, text: &str, references: References) -> Result<Settings, Failure> {
    settings::parse(text, &Here::beside(path, references)).map_err(|errors| bad(path, &errors))
}

/// Reads the text of the file. Returns `None` if the file does not exist.
pub(crate) fn read_text(path: &Path) -> Result<Option<(File, String)>, Failure> {
    let unreadable = |error: &io::Error| Failure::new(Exit::BadSettings, format!("{}: {error}", path.display()));
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return no_dangling_link(path).map(|()| None),
        // A socket cannot be opened.
        Err(error) => return Err(other_than_file(path).unwrap_or_else(|| unreadable(&error))),
    };
    if !file.metadata().map_err(|error| unreadable(&error))?.is_file() {
        return Err(other_than_file(path).unwrap_or_else(|| unreadable(&io::Error::from(io::ErrorKind::InvalidInput))));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to refuse the file, even if it is endless.
    let limit = u64::try_from(FILE_MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    (&file).take(limit).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::new(Exit::BadSettings, format!("{}:{line}:1: not UTF-8 text", path.display()))
    })?;
    Ok(Some((file, text)))
}

/// Opens a file without blocking, even if it is a pipe without a writer.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Refuses a broken symbolic link, because its target was meant to exist.
pub(crate) fn no_dangling_link(path: &Path) -> Result<(), Failure> {
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        return Ok(());
    }
    let message = format!("{}: broken symbolic link", path.display());
    Err(Failure::new(Exit::BadSettings, message).hint("remove the link, or restore its target"))
}

fn other_than_file(path: &Path) -> Option<Failure> {
    let metadata = path.metadata().ok().filter(|metadata| !metadata.is_file())?;
    let kind = if metadata.is_dir() { "a folder" } else { "a pipe or device" };
    let message = format!("{}: not a regular file but {kind}", path.display());
    Some(Failure::new(Exit::BadSettings, message).hint("move it elsewhere, because only regular files are read"))
}

/// Checks the permissions of the settings. A writer can start any program as this user, so that is an error. A reader
/// learns the secrets in them: a warning, because a pasted file usually has mode 0644, and refusing it helps nobody.
fn check_access(path: &Path, file: &File, settings: &Settings) -> Result<Option<Warning>, Failure> {
    let mode = check_owner(path, file)?;
    let secrets = settings.inline_secrets();
    if secrets.is_empty() || mode & OTHERS == 0 {
        return Ok(None);
    }
    Ok(Some(Warning::about_file(format!(
        "other users can read the secrets in this file ({}); run `mcpproxy config check --fix`, or move them out with \
         `${{env:NAME}}` or `${{file:PATH}}`",
        secrets.join(", ")
    ))))
}

/// Removes permissions of other users on the settings: to write, and every one if the file has secrets. Never adds a
/// permission. Returns the new mode, or `None` if nothing had to change.
pub(crate) fn fix_access(path: &Path) -> Result<Option<u32>, Failure> {
    let Some((file, text)) = read_text(path)? else { return Ok(None) };
    // Settings that cannot be read may have secrets.
    let has_secrets = check_shape(path, &text).map_or(true, |settings| !settings.inline_secrets().is_empty());
    let failed = |error: io::Error| {
        Failure::new(Exit::Failed, format!("could not change the mode of `{}`: {error}", path.display()))
    };
    let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
    let fixed = mode & !if has_secrets { OTHERS } else { OTHERS_WRITE };
    if fixed == mode {
        return Ok(None);
    }
    file.set_permissions(Permissions::from_mode(fixed)).map_err(failed)?;
    Ok(Some(fixed))
}

/// Formats the warnings about the settings as `file:line:column: warning: message`, which editors understand.
pub(crate) fn warning_lines(path: &Path, warnings: &[Warning]) -> Vec<String> {
    let shown = path.display();
    let placed = warnings.iter().map(|warning| match warning.at {
        Some((line, column)) => format!("{shown}:{line}:{column}: warning: {}", warning.message),
        None => format!("{shown}: warning: {}", warning.message),
    });
    placed.collect()
}

/// Checks that only this user and root can change the file or folder. Returns its mode.
pub(crate) fn check_owner(path: &Path, file: &File) -> Result<u32, Failure> {
    let shown = path.display();
    let unknown = |error: io::Error| Failure::new(Exit::BadSettings, format!("{shown}: {error}"));
    let metadata = file.metadata().map_err(unknown)?;
    let us = rustix::process::geteuid().as_raw();
    // The owner of a symbolic link chooses its target, so check both owners.
    for owner in [metadata.uid(), path.symlink_metadata().map_err(unknown)?.uid()] {
        if owner != us && owner != 0 {
            let message = format!("{shown}: not owned by you (uid {us}), but by uid {owner}");
            return Err(Failure::new(Exit::BadSettings, message).hint(format!("run `chown -h {us} {shown}`")));
        }
    }
    if metadata.mode() & 0o002 != 0 {
        let message = format!("{shown}: permissions too open: everyone can change it");
        let mode = if metadata.is_dir() { "700" } else { "600" };
        return Err(Failure::new(Exit::BadSettings, message).hint(format!("run `chmod {mode} {shown}`")));
    }
    Ok(metadata.mode())
}

/// Refuses settings in which no enabled server can run. A gateway with a misconfigured server beside a good one starts,
/// but one that could only refuse calls would hide the mistake.
pub(crate) fn check_any_runs(path: &Path, settings: &Settings) -> Result<(), Failure> {
    let runs = |server: &ServerSettings| server.transport.mistakes().is_none();
    let mut enabled = settings.servers.iter().filter(|server| server.enabled).peekable();
    if enabled.peek().is_none() || enabled.any(runs) {
        return Ok(());
    }
    let mistakes = settings.misconfigured().filter(|(server, _)| server.enabled).flat_map(|(_, mistakes)| mistakes);
    Err(bad(path, mistakes).hint("every enabled server has a mistake; fix one of them, or set \"enabled\": false"))
}

/// Formats mistakes of the settings as `file:line:column: message`, which editors understand.
pub(crate) fn bad<'m>(path: &Path, errors: impl IntoIterator<Item = &'m Mistake>) -> Failure {
    let lines: Vec<String> = errors
        .into_iter()
        .map(|error| format!("{}:{}:{}: {}", path.display(), error.line, error.column, error.message))
        .collect();
    Failure::new(Exit::BadSettings, lines.join("\n"))
}

/// Resolves references: the environment of this process, and files relative to the settings.
struct Here {
    folder: PathBuf,
    references: References,
    /// Files that were read, or that are missing.
    referenced: RefCell<BTreeSet<PathBuf>>,
}

impl Here {
    fn beside(path: &Path, references: References) -> Self {
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        Self { folder, references, referenced: RefCell::default() }
    }

    fn left(&self) -> Option<String> {
        self.stand_in().map(str::to_owned)
    }
}

impl Outside for Here {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().or_else(|| self.left())
    }

    fn file(&self, path: &str) -> Result<String, String> {
        self.text(path).or_else(|error| self.left().ok_or(error))
    }

    fn stand_in(&self) -> Option<&str> {
        (self.references == References::Left).then_some(LEFT)
    }
}

impl Here {
    fn text(&self, path: &str) -> Result<String, String> {
        let path = match path.strip_prefix("~/") {
            Some(rest) => std::env::home_dir().ok_or("the home folder is unknown")?.join(rest),
            None => self.folder.join(path),
        };
        self.referenced.borrow_mut().insert(path.clone());
        let file = open(&path).map_err(|error| error.to_string())?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("not a regular file".to_owned());
        }
        if self.is_own_secret(&metadata) {
            return Err("it holds a secret of the gateway, which no server may get".to_owned());
        }
        let mut text = String::new();
        file.take(FILE_MAX_BYTES as u64).read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    /// Compares the file itself, not its path, because a link may lead to it.
    fn is_own_secret(&self, file: &Metadata) -> bool {
        let mut own = own_secrets().filter_map(|name| fs::metadata(self.folder.join(name)).ok());
        own.any(|own| (own.dev(), own.ino()) == (file.dev(), file.ino()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn secrets_of_the_gateway_are_no_references() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("mcp_config.json");
        for (name, text) in [("admin.key", "admin-secret"), ("mcpproxy.db", "log"), ("own.key", "fine")] {
            fs::write(home.path().join(name), text).unwrap();
        }
        symlink("admin.key", home.path().join("link")).unwrap();
        fs::hard_link(home.path().join("admin.key"), home.path().join("hard")).unwrap();
        let read_one = |server: &str| {
            fs::write(&path, format!("{{\"mcpServers\": {{\"a\": {server}}}}}")).unwrap();
            let settings = read(&path).unwrap().unwrap().settings;
            settings.misconfigured().map(|(_, mistakes)| mistakes[0].message.clone()).next()
        };
        let refused = |file: &str| {
            format!("could not read file `{file}`: it holds a secret of the gateway, which no server may get")
        };
        let whole = home.path().join("signing.key/../admin.key").display().to_string();
        fs::create_dir(home.path().join("signing.key")).unwrap();
        for file in ["admin.key", "./admin.key", "link", "hard", "mcpproxy.db", &whole] {
            let server = format!("{{\"url\": \"http://h\", \"headers\": {{\"X\": \"${{file:{file}}}\"}}}}");
            assert_eq!(read_one(&server), Some(refused(file)));
        }
        assert_eq!(read_one("{\"command\": \"x\", \"env_file\": \"admin.key\"}"), Some(refused("admin.key")));
        assert_eq!(read_one("{\"command\": \"x\", \"env\": {\"A\": \"${file:own.key}\"}}"), None);
    }
}
