//! The published version of settings, contracts and policies that is in force.

use super::Gateway;
use crate::bus::BusMessage;

impl Gateway {
    /// Tells all gateways that there is a new version.
    pub async fn announce_version(&self) {
        self.state.versions.news.notify_one();
        if let Err(error) = self.state.bus.send(None, &BusMessage::Published).await {
            tracing::debug!(%error, "could not tell other gateways of a new version; they find it within seconds");
        }
    }

    /// Waits until there may be a new version.
    pub async fn version_announced(&self) {
        self.state.versions.news.notified().await;
    }

    /// Sets the version in force. 0 stands for none: nothing was published yet.
    pub fn set_version(&self, number: i64) {
        self.state.versions.set_in_force(number);
    }

    /// Returns the version in force. `None` if settings, contracts and policies come from a folder.
    pub fn version(&self) -> Option<i64> {
        self.state.versions.in_force()
    }
}
