//! Standard error of a server: the last lines in memory, and more in a log file of limited size.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mcpproxy_core::{ServerName, Untrusted};

use crate::own_file;

/// Prefix of the gateway's own lines.
const REMARK: &str = "[mcpproxy] ";
const LINES_KEPT: usize = 500;
const LINE_MAX_BYTES: usize = 4096;
const FILE_MAX_BYTES: u64 = 1024 * 1024;

pub(crate) struct ServerLog {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    lines: VecDeque<Untrusted>,
    file: Option<File>,
    file_bytes: u64,
    /// Number of lines since the process was last started.
    run: usize,
}

impl ServerLog {
    pub(crate) fn new(folder: &Path, server: &ServerName) -> Self {
        Self { path: folder.join(format!("{server}.log")), inner: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line of the gateway between the lines of the server.
    pub(crate) fn remark(&self, text: &str) {
        self.line(format!("{REMARK}{text}").as_bytes());
    }

    /// Marks the start of a process, so that no line of an earlier one explains why this one exits.
    pub(crate) fn begin_run(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).run = 0;
    }

    /// Returns the last lines that the server itself wrote since its process was started.
    pub(crate) fn run(&self) -> Vec<Untrusted> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = inner.lines.len().saturating_sub(inner.run);
        inner.lines.iter().skip(before).filter(|line| !line.for_json().starts_with(REMARK)).cloned().collect()
    }

    /// Adds a line. If the file cannot be written, the line is missing on disk, but the server keeps running.
    pub(crate) fn line(&self, bytes: &[u8]) {
        let bytes = bytes.get(..LINE_MAX_BYTES).unwrap_or(bytes);
        let line = Untrusted::new(String::from_utf8_lossy(bytes).trim_end());
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = inner.write(&self.path, &line) {
            tracing::debug!(path = %self.path.display(), %error, "could not write a server's log");
            inner.file = None;
        }
        if inner.lines.len() == LINES_KEPT {
            inner.lines.pop_front();
        }
        inner.lines.push_back(line);
        inner.run += 1;
    }

    pub(crate) fn last(&self, count: usize) -> Vec<Untrusted> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.lines.iter().skip(inner.lines.len().saturating_sub(count)).cloned().collect()
    }
}

impl Inner {
    fn write(&mut self, path: &Path, line: &Untrusted) -> std::io::Result<()> {
        if self.file.is_none() {
            let file = open(path)?;
            self.file_bytes = file.metadata()?.len();
            self.file = Some(file);
        }
        if self.file_bytes > FILE_MAX_BYTES {
            // One old file is kept, so a log takes at most twice the limit.
            std::fs::rename(path, path.with_extension("log.1"))?;
            self.file = Some(open(path)?);
            self.file_bytes = 0;
        }
        let text = format!("{}\n", line.for_terminal());
        self.file_bytes += text.len() as u64;
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(text.as_bytes()))
    }
}

/// Creates the folder of the logs. A server may write a secret to its standard error, so only the owner may look. An
/// existing folder keeps its mode, and each file in it is the owner's.
pub(super) fn create_folder(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    own_file::open(path, OpenOptions::new().create(true).append(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noisy_server_fills_no_disk_and_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let log = ServerLog::new(&folder.path().join("logs"), &ServerName::parse("noisy").unwrap());
        for number in 0..3000 {
            log.line(format!("{number} {}", "x".repeat(2 * LINE_MAX_BYTES)).as_bytes());
        }
        let size = |name: &str| std::fs::metadata(folder.path().join("logs").join(name)).unwrap().len();
        let line = LINE_MAX_BYTES as u64 + 1;
        assert!(size("noisy.log") <= FILE_MAX_BYTES + line && size("noisy.log.1") <= FILE_MAX_BYTES + line);
        assert_eq!(std::fs::read_dir(folder.path().join("logs")).unwrap().count(), 2);
        let mode = |path: &str| {
            let metadata = std::fs::metadata(folder.path().join(path)).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
        };
        assert_eq!((mode("logs"), mode("logs/noisy.log")), (0o700, 0o600));
        assert_eq!(log.last(usize::MAX).len(), LINES_KEPT);
        assert!(log.last(1).first().unwrap().for_json().starts_with("2999 "));
    }

    #[test]
    fn a_log_does_not_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "mine").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("fx.log")).unwrap();
        let log = ServerLog::new(folder.path(), &ServerName::parse("fx").unwrap());
        log.line(b"overwritten");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");
        assert_eq!(log.last(1).len(), 1, "the line is still in memory");
    }

    #[test]
    fn a_run_has_the_servers_own_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = ServerLog::new(folder.path(), &ServerName::parse("fx").unwrap());
        let run = || log.run().iter().map(|line| line.for_terminal().into_owned()).collect::<Vec<_>>();
        assert!(run().is_empty());
        log.line(b"no credentials \x1b[2J");
        log.remark("the process exited");
        assert_eq!(run(), ["no credentials \\u{1b}[2J"]);
        log.begin_run();
        assert!(run().is_empty());
        for number in 0..2 * LINES_KEPT {
            log.line(number.to_string().as_bytes());
        }
        assert_eq!(run().len(), LINES_KEPT);
    }
}
