//! Reads the certificate and the key that `tls` in the settings names.
//!
//! The two files count as settings: a pair that cannot be used stops a start, and a reload keeps the previous one. A
//! renewal often replaces the files one after the other. In between they do not fit, and the next change brings the
//! second file.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpproxy_core::settings::{Settings, TlsSettings, Warning};
use mcpproxy_web::CertifiedPair;
use url::Url;

use super::settings_file;
use crate::exit::{Exit, Failure};
use crate::terminal::output::line;
use crate::terminal::shell::plain_word;
use crate::terminal::time::now_ms;

/// A chain of certificates has some kilobytes.
const PEM_MAX_BYTES: u64 = 256 * 1024;
/// Permissions of users who are neither the owner nor in the group of a file.
const OTHERS: u32 = 0o007;
const OTHERS_WRITE: u32 = 0o002;

/// A usable pair, with the warnings about it.
pub(super) struct ReadPair {
    pub(super) pair: Arc<CertifiedPair>,
    pub(super) warnings: Vec<Warning>,
}

/// Returns the paths of certificate and key.
pub(super) fn paths(settings_path: &Path, tls: &TlsSettings) -> [PathBuf; 2] {
    let folder = settings_path.parent().unwrap_or(Path::new("."));
    [folder.join(&tls.certificate), folder.join(&tls.key)]
}

/// Reads both files, and checks that they belong together.
pub(super) fn read(settings_path: &Path, settings: &Settings, tls: &TlsSettings) -> Result<ReadPair, Failure> {
    let [certificate_path, key_path] = paths(settings_path, tls);
    let refused = |setting: &'static str, path: &Path, reason: &str| {
        let position = settings.written.line(setting).map(|line| format!(":{line}:1")).unwrap_or_default();
        let (settings_path, path) = (settings_path.display(), line(&path.display().to_string()));
        Failure::new(Exit::BadSettings, format!("{settings_path}{position}: `{setting}`: `{path}` {reason}"))
    };
    let unreadable = |setting: &'static str, path: &Path, error: &io::Error| {
        refused(setting, path, &format!("cannot be read: {error}; create the file, or correct the path"))
    };
    let read = |setting: &'static str, path: &Path| {
        let (text, mode) = read_file(path).map_err(|error| unreadable(setting, path, &error))?;
        // Whoever can write it chooses the gateway that clients talk to.
        if mode & OTHERS_WRITE != 0 {
            let word = plain_word(&path.display().to_string());
            return Err(refused(setting, path, &format!("can be changed by everyone; run `chmod o-w {word}`")));
        }
        Ok((text, mode))
    };
    let (certificate, _) = read("tls.certificate", &certificate_path)?;
    let (key, mode) = read("tls.key", &key_path)?;
    let pair = CertifiedPair::parse(&certificate, &key).map_err(|error| {
        let path = if error.setting() == "tls.key" { &key_path } else { &certificate_path };
        refused(error.setting(), path, &error.to_string())
    })?;
    let mut warnings = pair.warnings(now_ms(), &link_host(settings));
    if mode & OTHERS != 0 {
        let path = plain_word(&key_path.display().to_string());
        warnings.push(format!("other users can read the key in `tls.key`; run `chmod o= {path}`"));
    }
    let warnings = warnings.into_iter().map(Warning::about_file).collect();
    Ok(ReadPair { pair: Arc::new(pair), warnings })
}

/// Reads a regular file, and returns its mode too.
fn read_file(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let file = settings_file::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(PEM_MAX_BYTES).read_to_end(&mut bytes)?;
    Ok((bytes, metadata.mode()))
}

/// Returns the host in links for users.
fn link_host(settings: &Settings) -> String {
    let public = settings.approvals.public_url.as_deref().and_then(|url| Url::parse(url).ok());
    match public.as_ref().and_then(Url::host_str) {
        Some(host) => host.to_owned(),
        None if settings.listen.ip().is_loopback() || settings.listen.ip().is_unspecified() => "localhost".to_owned(),
        None => settings.listen.ip().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcpproxy-web/tests/data/tls/");

    /// The whole text of an error or warning, for each way in which the files can be wrong.
    #[test]
    fn what_is_wrong_with_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp_config.json");
        let copy = |from: &str, to: &str, mode: u32| {
            let to = folder.path().join(to);
            fs::copy(format!("{DATA}{from}"), &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(mode)).unwrap();
        };
        let shown = folder.path().display().to_string();
        let read = |more: &str| {
            let text = format!("{{\n\"tls\": {{\"certificate\": \"a.pem\",\n\"key\": \"a.key\"}}{more}}}");
            fs::write(&path, text).unwrap();
            match settings_file::read(&path) {
                Ok(read) => {
                    let read = read.unwrap();
                    assert!(read.tls.is_some());
                    assert!(read.referenced.contains(&folder.path().join("a.key")), "its changes are noticed");
                    read.settings.warnings.iter().map(|warning| warning.message.replace(&shown, "FOLDER")).collect()
                }
                Err(failure) => vec![failure.to_string().replace(&shown, "FOLDER")],
            }
        };
        let missing = "cannot be read: No such file or directory (os error 2); create the file, or correct the path";
        assert_eq!(read(""), [format!("FOLDER/mcp_config.json:2:1: `tls.certificate`: `FOLDER/a.pem` {missing}")]);
        copy("first.pem", "a.pem", 0o644);
        assert_eq!(read(""), [format!("FOLDER/mcp_config.json:3:1: `tls.key`: `FOLDER/a.key` {missing}")]);
        copy("second.key", "a.key", 0o600);
        let mismatch = "does not fit the certificate; write the two files that were created together";
        assert_eq!(read(""), [format!("FOLDER/mcp_config.json:3:1: `tls.key`: `FOLDER/a.key` {mismatch}")]);
        copy("first.key", "a.key", 0o640);
        assert_eq!(read(""), Vec::<String>::new());
        copy("first.key", "a.key", 0o644);
        let open = "other users can read the key in `tls.key`; run `chmod o= FOLDER/a.key`";
        assert_eq!(read(""), [open]);
        copy("first.key", "a.key", 0o602);
        let writable = "can be changed by everyone; run `chmod o-w FOLDER/a.key`";
        assert_eq!(read(""), [format!("FOLDER/mcp_config.json:3:1: `tls.key`: `FOLDER/a.key` {writable}")]);
        copy("first.key", "a.key", 0o600);
        assert_eq!(read(", \"approvals\": {\"public_url\": \"https://gateway.example.com\"}"), Vec::<String>::new());
        let other = read(", \"listen\": \"192.0.2.1:8443\"");
        assert!(other[0].contains("is not valid for `192.0.2.1`, the host in links for users"), "{other:?}");
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(read_file(&folder.path().join("folder")).unwrap_err().to_string(), "not a regular file");
    }
}
