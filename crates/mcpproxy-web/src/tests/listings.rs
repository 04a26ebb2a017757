//! Lists of a server, stored as if the server had sent them.

use mcpproxy_core::trust::{Admitted, Definition, Held};
use mcpproxy_store::{AdmittedPin, HeldPin, Listing};

use super::{Fixture, NOW_MS};

impl Fixture {
    /// Stores a list of the server `fx`: some definitions are accepted, the others wait. `details` are JSON.
    pub(super) async fn list(&self, identity: &str, admitted: &[Definition], held: &[Definition], details: &str) {
        let listing = Listing {
            identity,
            server: "fx",
            now_ms: NOW_MS,
            has_news: true,
            admitted: admitted
                .iter()
                .map(|definition| AdmittedPin { definition, pin: definition.pin(), reason: Admitted::FirstSight })
                .collect(),
            held: held
                .iter()
                .map(|definition| HeldPin {
                    definition,
                    pin: definition.pin(),
                    reason: Held::Changed,
                    details: details.to_owned(),
                })
                .collect(),
            listed: admitted.iter().chain(held).map(|definition| &definition.key).collect(),
        };
        self.store.save_listing(&listing).await.unwrap();
    }
}
