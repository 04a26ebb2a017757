//! Takes over what the operator changed while the gateway runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::settings;
use mcpproxy_gateway::{Files, Gateway};
use mcpproxy_web::Guard;
use tokio::task::JoinError;

use crate::operator_files::{self, Look};

/// How often we look. A watch on the folder would wake us for every line the database beside the settings writes,
/// which is every call; one `stat` in a while costs nothing, and sees through links and network disks alike.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Whatever takes longer than this, such as a disk that does not answer, is worth a word.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Reload {
    path: PathBuf,
    seen: Look,
    current: Files,
    gateway: Gateway,
    guard: Guard,
}

impl Reload {
    /// `seen` was taken before `current` was read, so that no change between the two is missed.
    pub(crate) fn new(path: PathBuf, seen: Look, current: Files, gateway: Gateway, guard: Guard) -> Self {
        Self { path, seen, current, gateway, guard }
    }

    /// Looks for as long as it is polled.
    pub(crate) async fn run(mut self) {
        let mut last = self.seen.clone();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Disks can be slow and a large catalog takes a while to make anew; calls go on meanwhile.
            let looked = aside(move || {
                let now = operator_files::look(&self.path);
                // Two looks that agree: whoever writes in pieces is done.
                if now == last && now != self.seen {
                    self.changed(&now);
                }
                (self, now)
            });
            match looked.await {
                Ok(looked) => (self, last) = looked,
                Err(error) => return tracing::error!(%error, "changes of the settings are no longer looked for"),
            }
        }
    }

    fn changed(&mut self, now: &Look) {
        let before = std::mem::replace(&mut self.seen, now.clone());
        if before.has_settings() && !now.has_settings() {
            // Perhaps an editor is about to write it anew, perhaps it is gone for good; neither ends anything.
            let path = self.path.display();
            tracing::warn!(%path, "the settings file is gone; its last content stays in force");
        }
        now.warn_of_left_out();
        if now.stamps != before.stamps {
            self.take_over();
        }
    }

    fn take_over(&mut self) {
        let read = operator_files::read(&self.path, Some(&self.current.settings));
        match read.and_then(|read| read.keeps(&self.current).map(|()| read.files)) {
            Ok(files) => {
                let new = self.with_old(files);
                let changes = settings::diff(&self.current.settings, &new.settings);
                for key in &changes.restart_needed {
                    tracing::warn!("the new value of `{key}` counts from the next start");
                }
                tracing::info!(path = %self.path.display(), "settings, contracts and policies taken over");
                self.guard.allow(&new.settings.allowed_hosts, &new.settings.allowed_origins);
                self.current = new.clone();
                self.gateway.reload(new);
            }
            Err(failure) => {
                let message = failure.to_string();
                tracing::warn!(
                    "nothing was taken over, what was before stays in force: {}",
                    message.replace('\n', "; ")
                );
                self.gateway.reload_failed(message);
            }
        }
    }

    /// What did not change stays the very same, so that nothing is made again because of it.
    fn with_old(&self, new: Files) -> Files {
        let Files { settings, contracts, policies } = new;
        let old = &self.current;
        Files {
            settings: if settings == old.settings { Arc::clone(&old.settings) } else { settings },
            contracts: if contracts == old.contracts { Arc::clone(&old.contracts) } else { contracts },
            policies: if policies == old.policies { Arc::clone(&old.policies) } else { policies },
        }
    }
}

/// Does it on a thread of its own, and says so when it takes too long.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let mut work = tokio::task::spawn_blocking(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
        return done;
    }
    tracing::warn!(
        "reading settings, contracts and policies takes longer than {PATIENCE:?}; until it is done, no change is taken over"
    );
    work.await
}
