//! The gateways that share the database, on the settings page.

use mcpproxy_gateway::{Cluster, Drift, Member, Part};

use crate::ui::pages::labels::Time;
use crate::visible::Visible;

/// Digits of a digest on the page. They tell two digests apart.
const DIGITS: usize = 8;

#[derive(Debug)]
pub(crate) struct Gateways {
    /// False with SQLite. Then the page shows no list, because this gateway is the only one.
    pub(crate) is_shared: bool,
    pub(crate) rows: Vec<GatewayRow>,
    pub(crate) drift: Vec<DriftRow>,
}

#[derive(Debug)]
pub(crate) struct GatewayRow {
    pub(crate) name: Visible,
    pub(crate) address: Visible,
    pub(crate) is_own: bool,
    pub(crate) is_lost: bool,
    pub(crate) version: Visible,
    /// Names and short digests of settings, contracts and policies.
    pub(crate) digests: Vec<(&'static str, Visible)>,
    pub(crate) since: Time,
    pub(crate) seen: Time,
}

#[derive(Debug)]
pub(crate) struct DriftRow {
    pub(crate) message: Visible,
    pub(crate) next: &'static str,
}

impl Gateways {
    pub(crate) fn new(cluster: &Cluster, now_ms: i64) -> Self {
        let drift = |drift: &Drift| DriftRow { message: Visible::of(&drift.message()), next: drift.next() };
        Self {
            is_shared: cluster.is_shared,
            rows: cluster.members.iter().map(|member| GatewayRow::new(member, now_ms)).collect(),
            drift: cluster.drift.iter().map(drift).collect(),
        }
    }
}

impl GatewayRow {
    fn new(member: &Member, now_ms: i64) -> Self {
        let short = |digest: &str| Visible::of(&digest.chars().take(DIGITS).collect::<String>());
        Self {
            name: Visible::of(&member.announced.name),
            address: Visible::of(&member.announced.address),
            is_own: member.is_own,
            is_lost: member.is_lost,
            version: Visible::of(&member.announced.version),
            digests: vec![
                (Part::Settings.as_str(), short(&member.announced.settings)),
                (Part::Contracts.as_str(), short(&member.announced.contracts)),
                (Part::Policies.as_str(), short(&member.announced.policies)),
            ],
            since: Time::new(member.started_ms, now_ms),
            seen: Time::new(member.seen_ms, now_ms),
        }
    }
}
