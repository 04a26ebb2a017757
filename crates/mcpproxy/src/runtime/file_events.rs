//! Wakes the reload when a file in the operator's folders was written, renamed or removed.
//!
//! On Linux this is inotify. The watch asks for finished writes (`CLOSE_WRITE`) and for changes of names, and not for
//! `MODIFY`. So a half-written file wakes nobody, and neither does the database in the same folder, which is written on
//! every call and stays open.
//!
//! Events are hints, never the truth: the reload compares fingerprints afterwards. A missed event, for example on a
//! network disk, costs at most one polling interval. On other systems there are no events, and polling is faster.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::fs::inotify;
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;

/// Time between two comparisons of fingerprints.
pub(super) const POLL_INTERVAL: Duration =
    if cfg!(target_os = "linux") { Duration::from_millis(250) } else { Duration::from_millis(50) };

/// A watch on folders. It does nothing if the system has none left.
pub(super) struct FileEvents {
    #[cfg(target_os = "linux")]
    watch: Option<AsyncFd<std::os::fd::OwnedFd>>,
}

#[cfg(target_os = "linux")]
impl FileEvents {
    pub(super) fn new() -> Self {
        let opened = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC);
        let watch = opened.map_err(std::io::Error::from).and_then(AsyncFd::new);
        if let Err(error) = &watch {
            tracing::debug!(%error, "no file events, so changes are found by polling");
        }
        Self { watch: watch.ok() }
    }

    /// Watches folders. A folder that is watched already stays watched, and a missing one is skipped.
    pub(super) fn watch(&self, folders: &BTreeSet<PathBuf>) {
        use inotify::WatchFlags as On;
        let Some(watch) = &self.watch else { return };
        let finished = On::CLOSE_WRITE | On::CREATE | On::MOVED_TO | On::MOVED_FROM | On::DELETE | On::ATTRIB;
        for folder in folders {
            if let Err(error) = inotify::add_watch(watch.get_ref(), folder, finished | On::ONLYDIR) {
                tracing::debug!(%error, folder = %folder.display(), "could not watch a folder");
            }
        }
    }

    /// Waits until something happened in a watched folder.
    pub(super) async fn next(&self) {
        let Some(watch) = &self.watch else { return std::future::pending().await };
        let Ok(mut ready) = watch.readable().await else { return std::future::pending().await };
        // The content does not matter, because fingerprints say what changed.
        let mut events = [0; 4096];
        while rustix::io::read(watch.get_ref(), &mut events).is_ok_and(|bytes| bytes > 0) {}
        ready.clear_ready();
    }
}

#[cfg(not(target_os = "linux"))]
impl FileEvents {
    pub(super) fn new() -> Self {
        Self {}
    }

    pub(super) fn watch(&self, _folders: &BTreeSet<PathBuf>) {}

    pub(super) async fn next(&self) {
        std::future::pending().await
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn finished_writes_wake_and_open_files_do_not() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, "").unwrap();
        let events = FileEvents::new();
        events.watch(&BTreeSet::from([folder.path().to_owned(), folder.path().join("missing")]));
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"half").unwrap();
        file.sync_all().unwrap();
        let woken = futures::poll!(std::pin::pin!(events.next()));
        assert!(woken.is_pending(), "a file that is still open woke the reload");
        drop(file);
        tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap();
        std::fs::rename(&path, folder.path().join("b.yaml")).unwrap();
        tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap();
    }
}
