//! Takes over a changed settings file while the gateway runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mcpproxy_core::settings::{self, Settings};
use mcpproxy_gateway::Gateway;
use mcpproxy_web::Guard;

use crate::settings_file;

/// How often we look. A watch on the folder would wake us for every line the database beside the settings writes,
/// which is every call; one `stat` in a while costs nothing, and sees through links and network disks alike.
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(crate) struct Reload {
    path: PathBuf,
    seen: Stamp,
    current: Settings,
    gateway: Gateway,
    guard: Guard,
}

/// What changes when a file does; `None` when there is no file.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Reload {
    /// `stamp` was taken before `current` was read, so that no change between the two is missed.
    pub(crate) fn new(path: PathBuf, stamp: Stamp, current: Settings, gateway: Gateway, guard: Guard) -> Self {
        Self { path, seen: stamp, current, gateway, guard }
    }

    /// Looks for as long as it is polled.
    pub(crate) async fn run(mut self) {
        let mut last = self.seen;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = stamp(&self.path);
            // Two looks that agree: whoever writes in pieces is done.
            if now == last && now != self.seen {
                self.seen = now;
                self.take_over();
            }
            last = now;
        }
    }

    fn take_over(&mut self) {
        match settings_file::read(&self.path) {
            Ok(Some(new)) => {
                let changes = settings::diff(&self.current, &new);
                for key in &changes.restart_needed {
                    tracing::warn!("the new value of `{key}` counts from the next start");
                }
                tracing::info!(path = %self.path.display(), "settings taken over");
                self.guard.allow(&new.allowed_hosts, &new.allowed_origins);
                self.current = new.clone();
                self.gateway.reload(new);
            }
            // Perhaps an editor is about to write it anew, perhaps it is gone for good; neither is a reason to stop.
            Ok(None) => {
                tracing::warn!(path = %self.path.display(), "the settings file is gone; its last content stays in force")
            }
            Err(failure) => {
                let message = failure.to_string();
                tracing::warn!(
                    "settings not taken over, the ones before stay in force: {}",
                    message.replace('\n', "; ")
                );
                self.gateway.reload_failed(message);
            }
        }
    }
}

pub(crate) fn stamp(path: &std::path::Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    // The change time moves with the mode too, and mending the mode must count as a new attempt.
    Some((metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec()))
}
