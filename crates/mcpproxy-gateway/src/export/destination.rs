//! The destination of the export: a file, or an HTTP endpoint.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcpproxy_core::settings::{ExportSettings, ExportTo, Secret};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::own_file;
use crate::upstream::Client;

/// Time for an endpoint to take a batch.
const TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_MAX_BYTES: usize = 64 * 1024;

pub(super) struct Destination {
    kind: Kind,
    key: String,
    shown: String,
}

enum Kind {
    File(PathBuf),
    Http { url: Secret, token: Option<Secret> },
}

/// A batch that did not arrive.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// A smaller batch may be accepted.
    pub(super) is_too_large: bool,
}

impl Destination {
    pub(super) fn new(settings: &ExportSettings) -> Self {
        let (kind, text) = match &settings.to {
            ExportTo::File(path) => (Kind::File(path.into()), format!("file:{path}")),
            ExportTo::Http(url) => {
                (Kind::Http { url: url.clone(), token: settings.token.clone() }, url.expose().to_owned())
            }
        };
        let shown = match &kind {
            Kind::File(_) => text.clone(),
            Kind::Http { url, .. } => Url::parse(url.expose())
                .map_or_else(|_| "an invalid URL".to_owned(), |url| url.origin().ascii_serialization()),
        };
        let key = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { kind, key, shown }
    }

    /// Names the destination in the store, without its secrets.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Names the destination for people.
    pub(super) fn shown(&self) -> String {
        self.shown.clone()
    }

    /// Returns when the destination has the lines: on disk, or acknowledged.
    pub(super) async fn deliver(&self, lines: &str) -> Result<(), Failure> {
        match &self.kind {
            Kind::File(path) => {
                let (path, lines) = (path.clone(), lines.to_owned());
                let written = tokio::task::spawn_blocking(move || append(&path, lines.as_bytes())).await;
                let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
                written.map_err(|error| Failure::of(format!("could not write the file: {error}")))
            }
            Kind::Http { url, token } => {
                let posted = tokio::time::timeout(TIMEOUT, post(url, token.as_ref(), lines));
                posted.await.unwrap_or_else(|_| Err(Failure::of(format!("no answer within {} s", TIMEOUT.as_secs()))))
            }
        }
    }
}

impl Failure {
    fn of(reason: String) -> Self {
        Self { reason, is_too_large: false }
    }
}

/// Appends lines, and waits for the disk. The file is opened each time, so that a rotated log gets a new one.
fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut file = own_file::open(path, OpenOptions::new().read(true).append(true).create(true))?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    // A crash can leave half a line. Its record was not acknowledged, so it is written again, on a line of its own.
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    file.write_all(lines)?;
    file.sync_data()
}

async fn post(url: &Secret, token: Option<&Secret>, lines: &str) -> Result<(), Failure> {
    let url = Url::parse(url.expose()).map_err(|error| Failure::of(error.to_string()))?;
    let client = Client::new(&url).map_err(|error| Failure::of(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("mcpproxy/", env!("CARGO_PKG_VERSION"))));
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
        let value =
            value.map_err(|_| Failure::of("`export.token` has characters that no header can have".to_owned()))?;
        headers.insert(header::AUTHORIZATION, value);
    }
    let sent = client.send(Method::POST, &url, headers, Bytes::copy_from_slice(lines.as_bytes())).await;
    let answer = sent.map_err(|error| Failure::of(error.to_string()))?;
    let status = answer.status;
    let _rest = answer.body(ANSWER_MAX_BYTES).await;
    if status.is_success() {
        return Ok(());
    }
    Err(Failure { reason: format!("it answered {status}"), is_too_large: status == StatusCode::PAYLOAD_TOO_LARGE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        append(&path, b"{\"a\":1}\n").unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"b\"").unwrap();
        append(&path, b"{\"b\":2}\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\"\n{\"b\":2}\n");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn only_regular_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "kept\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(append(&link, b"x\n").is_err() && append(folder.path(), b"x\n").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept\n");
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        let to = ExportTo::Http(Secret::new("https://siem.example.com/in?key=hidden"));
        let destination = Destination::new(&ExportSettings { to, token: None });
        assert_eq!(destination.shown(), "https://siem.example.com");
        assert_eq!((destination.key().len(), destination.key().contains("hidden")), (64, false));
    }
}
