//! This gateway among those that share its database: announces it, and warns about drift.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_store::StoreError;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Gateway;
use crate::events::GatewayEvent;
use crate::members::{Cluster, Drift, Introduction};
use crate::state::SharedState;

/// Delay until drift at another gateway is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A gateway counts as lost after ten seconds, so two announcements may fail.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(3);
const FORGET_EVERY: Duration = Duration::from_secs(600);
/// Time to remove the row of a gateway that stops. A row that stays counts as lost soon.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

impl Gateway {
    /// Lets this gateway take part in the list of gateways that share its database, until it stops.
    pub fn join(&self, introduction: Introduction) {
        if self.state.members.join(introduction) {
            tokio::spawn(keep_presence(Arc::clone(&self.state)));
        }
    }

    /// Lists the gateways that share the database, and the differences between them.
    pub async fn cluster(&self) -> Result<Cluster, StoreError> {
        self.state.members.cluster(&self.state.snapshot.load_full()).await
    }

    /// Waits until this gateway has left the list of gateways. Call it after `stopping` is cancelled.
    pub(super) async fn leave(&self) {
        if self.state.members.has_joined() {
            let _late = tokio::time::timeout(LEAVE_TIMEOUT, self.state.members.has_left.cancelled()).await;
        }
    }
}

/// Announces this gateway and compares it with the others, until it stops.
async fn keep_presence(state: Arc<SharedState>) {
    let members = &state.members;
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut announced, mut forgot) = (None::<([String; 3], Instant)>, Instant::now());
    let mut known = Vec::new();
    loop {
        tokio::select! {
            () = state.stopping.cancelled() => break,
            _ = looks.tick() => {}
            () = members.changed.notified() => {}
        }
        let snapshot = state.snapshot.load_full();
        let digests = members.digests(&snapshot);
        let is_known = |(last, at): &([String; 3], Instant)| *last == digests && at.elapsed() < ANNOUNCE_EVERY;
        if !announced.as_ref().is_some_and(is_known) {
            match members.announce(&snapshot).await {
                Ok(()) => announced = Some((digests, Instant::now())),
                // Code that needs the store meanwhile reports the error.
                Err(error) => tracing::debug!(%error, "could not announce this gateway to the others"),
            }
        }
        if let Ok(cluster) = members.cluster(&snapshot).await
            && cluster.drift != known
        {
            known = cluster.drift;
            state.events.send(GatewayEvent::Drift(known.iter().map(Drift::message).collect()));
        }
        if forgot.elapsed() >= FORGET_EVERY {
            forgot = Instant::now();
            if let Err(error) = members.remove_lost().await {
                tracing::debug!(%error, "could not remove lost gateways");
            }
        }
    }
    members.leave().await;
}
