//! Wakes the reload when a file in the operator's folders was written, renamed or removed.
//!
//! On Linux this is inotify. The watch asks for finished writes (`CLOSE_WRITE`) and for changes of names, and not for
//! `MODIFY`. So a half-written file wakes nobody, and neither does the database in the same folder, which is written on
//! every call and stays open.
//!
//! Events are hints, never the truth: the reload compares fingerprints afterwards. A missed event, for example on a
//! network disk, costs at most one polling interval. On other systems there are no events, and polling is faster.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::fs::inotify;
#[cfg(target_os = "linux")]
use tokio::net::unix::pipe::Receiver;

/// Time between two comparisons of fingerprints.
pub(super) const POLL_INTERVAL: Duration =
    if cfg!(target_os = "linux") { Duration::from_millis(250) } else { Duration::from_millis(50) };

/// A watch on folders. It does nothing if the system has none left.
pub(super) struct FileEvents {
    #[cfg(target_os = "linux")]
    watch: Option<Receiver>,
    /// Folders that are watched, with the number that the system gave the watch. Only [`Self::watch`] uses it.
    #[cfg(target_os = "linux")]
    watched: Mutex<BTreeMap<PathBuf, i32>>,
}

#[cfg(target_os = "linux")]
impl FileEvents {
    pub(super) fn new() -> Self {
        let opened = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC);
        // Not a pipe, but read in the same way.
        let watch = opened.map_err(std::io::Error::from).and_then(Receiver::from_owned_fd_unchecked);
        if let Err(error) = &watch {
            tracing::debug!(%error, "no file events, so changes are found by polling");
        }
        Self { watch: watch.ok(), watched: Mutex::default() }
    }

    /// Watches these folders and no others. A folder that is watched already stays watched, and a missing one is
    /// skipped. Blocks while the system looks the folders up.
    pub(super) fn watch(&self, folders: &BTreeSet<PathBuf>) {
        use inotify::WatchFlags as On;
        let Some(watch) = &self.watch else { return };
        let finished = On::CLOSE_WRITE | On::CREATE | On::MOVED_TO | On::MOVED_FROM | On::DELETE | On::ATTRIB;
        let mut wanted = BTreeMap::new();
        for folder in folders {
            match inotify::add_watch(watch, folder, finished | On::ONLYDIR) {
                Ok(number) => drop(wanted.insert(folder.clone(), number)),
                Err(error) => tracing::debug!(%error, folder = %folder.display(), "could not watch a folder"),
            }
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *watched, wanted);
        // Two paths of one folder share a number, and another folder of the same name has a new one.
        let kept: BTreeSet<i32> = watched.values().copied().collect();
        let dropped: BTreeSet<i32> = before.into_values().filter(|number| !kept.contains(number)).collect();
        for number in dropped {
            // A folder that was deleted took its watch with it.
            let _gone = inotify::remove_watch(watch, number);
        }
    }

    /// Waits until something happened in a watched folder.
    pub(super) async fn next(&self) {
        let Some(watch) = &self.watch else { return std::future::pending().await };
        if watch.readable().await.is_err() {
            return std::future::pending().await;
        }
        // The content does not matter, because fingerprints say what changed.
        let mut events = [0; 4096];
        while watch.try_read(&mut events).is_ok_and(|bytes| bytes > 0) {}
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
    async fn finished_writes_renames_and_removals_wake() {
        let folder = tempfile::tempdir().unwrap();
        let events = FileEvents::new();
        events.watch(&BTreeSet::from([folder.path().to_owned(), folder.path().join("missing")]));
        let woken = || async { tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap() };
        let (a, b) = (folder.path().join("a.yaml"), folder.path().join("b.yaml"));
        std::fs::write(&a, "text").unwrap();
        woken().await;
        std::fs::rename(&a, &b).unwrap();
        woken().await;
        std::fs::remove_file(&b).unwrap();
        woken().await;
    }

    #[tokio::test]
    async fn folders_that_are_no_longer_wanted_are_not_watched() {
        use std::os::fd::{AsFd as _, AsRawFd as _};
        let folder = tempfile::tempdir().unwrap();
        let [a, b, link] = ["a", "b", "link"].map(|name| folder.path().join(name));
        std::fs::create_dir(&a).unwrap();
        std::fs::create_dir(&b).unwrap();
        std::os::unix::fs::symlink(&a, &link).unwrap();
        let events = FileEvents::new();
        let info = format!("/proc/self/fdinfo/{}", events.watch.as_ref().unwrap().as_fd().as_raw_fd());
        let watches = || std::fs::read_to_string(&info).unwrap().lines().filter(|l| l.starts_with("inotify")).count();
        let watch = |folders: &[&PathBuf]| events.watch(&folders.iter().map(|folder| (*folder).clone()).collect());
        watch(&[&a, &b, &link]);
        assert_eq!(watches(), 2);
        watch(&[&a]);
        assert_eq!(watches(), 1, "`a` is still wanted, though not under its other name");
        // Another folder of the same name replaces the first, which lives on elsewhere.
        std::fs::rename(&a, folder.path().join("c")).unwrap();
        std::fs::create_dir(&a).unwrap();
        watch(&[&a]);
        assert_eq!(watches(), 1);
        std::fs::write(a.join("file"), "text").unwrap();
        tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap();
        std::fs::remove_dir_all(&a).unwrap();
        watch(&[&a]);
        assert_eq!(watches(), 0);
    }
}
