//! The gateways that share a database, and the differences between them.
//!
//! Each gateway announces its version and digests of its settings, contracts and policies. They are the ones in force: a
//! change that waits for a user is not. [`Cluster::of`] compares the gateways that run. A difference is called drift. Agents
//! then get other answers from one gateway than from another, so every gateway warns about it.
//!
//! The digests of this gateway are always its current ones, not those that it announced last. The rows of the others are at
//! most a few seconds old.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::settings::Settings;
use mcpproxy_store::{Announcement, Store, StoreError, StoredMember};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::record;
use crate::snapshot::Snapshot;

/// How this gateway introduces itself to the others.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// The name of the machine.
    pub name: String,
    /// The address that it listens on.
    pub address: String,
    pub version: String,
}

/// The gateways of one database at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// False with SQLite, which serves one gateway.
    pub is_shared: bool,
    pub members: Vec<Member>,
    pub drift: Vec<Drift>,
}

/// One gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub announced: Announcement,
    pub started_ms: i64,
    pub seen_ms: i64,
    /// True for the gateway that answers.
    pub is_own: bool,
    /// True if it was silent for too long. It does not count in comparisons.
    pub is_lost: bool,
}

/// A difference between the gateways that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    pub part: Part,
    /// Each value, with the gateways that have it. The most frequent value comes first.
    pub groups: Vec<(String, Vec<String>)>,
}

/// A part in which gateways can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Version,
    Settings,
    Contracts,
    Policies,
}

impl Part {
    pub const ALL: [Self; 4] = [Self::Version, Self::Settings, Self::Contracts, Self::Policies];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Settings => "settings",
            Self::Contracts => "contracts",
            Self::Policies => "policies",
        }
    }

    fn of(self, member: &Member) -> &str {
        match self {
            Self::Version => &member.announced.version,
            Self::Settings => &member.announced.settings,
            Self::Contracts => &member.announced.contracts,
            Self::Policies => &member.announced.policies,
        }
    }
}

impl Member {
    /// Names the gateway for people. Several may run on one machine.
    pub fn label(&self) -> String {
        format!("{} ({})", self.announced.name, self.announced.address)
    }
}

impl Drift {
    /// Says which gateways differ from the most frequent value.
    pub fn message(&self) -> String {
        let shown = |value: &str| match self.part {
            Part::Version => value.to_owned(),
            // A few digits tell two digests apart.
            Part::Settings | Part::Contracts | Part::Policies => value.chars().take(8).collect(),
        };
        let group = |(value, members): &(String, Vec<String>)| {
            let verb = if members.len() == 1 { "has" } else { "have" };
            format!("{} {verb} {}", members.join(", "), shown(value))
        };
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        let title = match self.part {
            Part::Version => "Gateways run different versions",
            Part::Settings => "Gateways have different settings",
            Part::Contracts => "Gateways have different contracts",
            Part::Policies => "Gateways have different policies",
        };
        format!("{title}: {}.", groups.join("; "))
    }

    /// Says what the operator can do.
    pub fn next(&self) -> &'static str {
        match self.part {
            Part::Version => "Install the same version on every gateway.",
            Part::Settings | Part::Contracts | Part::Policies => {
                "Deploy the same files to every data folder. If a change waits at a gateway, apply it there with the command `config apply`. With `operator_files: \"database\"`, see the `status` of the gateway that differs."
            }
        }
    }
}

impl Cluster {
    fn of(is_shared: bool, members: Vec<Member>) -> Self {
        let drift = Part::ALL.into_iter().filter_map(|part| drift(part, &members)).collect();
        Self { is_shared, members, drift }
    }
}

fn drift(part: Part, members: &[Member]) -> Option<Drift> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.is_lost) {
        values.entry(part.of(member)).or_default().push(member.label());
    }
    if values.len() < 2 {
        return None;
    }
    let mut groups: Vec<(String, Vec<String>)> =
        values.into_iter().map(|(value, members)| (value.to_owned(), members)).collect();
    // Stable: of two values that are equally frequent, the same one is first on every gateway.
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    Some(Drift { part, groups })
}

/// This gateway among the others.
pub(crate) struct Members {
    store: Store,
    id: String,
    started: Instant,
    started_ms: i64,
    introduction: OnceLock<Introduction>,
    digests: Mutex<Option<KnownDigests>>,
    /// Asks the background task to announce this gateway now.
    pub(crate) changed: Notify,
    /// Cancelled when this gateway has removed its row.
    pub(crate) has_left: CancellationToken,
}

/// Digests, and what they were computed of.
struct KnownDigests {
    settings: Arc<Settings>,
    contracts: Arc<Contracts>,
    policies: Arc<Policies>,
    digests: [String; 3],
}

impl Members {
    pub(crate) fn new(store: Store, id: String) -> Self {
        Self {
            store,
            id,
            started: Instant::now(),
            started_ms: record::now_ms(),
            introduction: OnceLock::new(),
            digests: Mutex::new(None),
            changed: Notify::new(),
            has_left: CancellationToken::new(),
        }
    }

    /// Lets this gateway take part. Returns false if it does already, or if no other gateway can share the database.
    pub(crate) fn join(&self, introduction: Introduction) -> bool {
        self.introduction.set(introduction).is_ok() && self.store.is_shared()
    }

    pub(crate) fn has_joined(&self) -> bool {
        self.introduction.get().is_some() && self.store.is_shared()
    }

    /// Announces this gateway.
    pub(crate) async fn announce(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let uptime_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX / 4);
        self.store.announce_member(&self.own(snapshot).announced, uptime_ms).await
    }

    pub(crate) async fn leave(&self) {
        if let Err(error) = self.store.remove_member(&self.id).await {
            tracing::debug!(%error, "could not remove this gateway from the list of gateways");
        }
        self.has_left.cancel();
    }

    pub(crate) async fn remove_lost(&self) -> Result<u64, StoreError> {
        self.store.remove_lost_members().await
    }

    /// Lists all gateways. This one is in the list with what is in force now.
    pub(crate) async fn cluster(&self, snapshot: &Snapshot) -> Result<Cluster, StoreError> {
        let others = self.store.list_members().await?.into_iter().filter(|row| row.announced.id != self.id).map(other);
        let mut members: Vec<Member> = others.chain([self.own(snapshot)]).collect();
        members.sort_by(|one, two| place(one).cmp(&place(two)));
        Ok(Cluster::of(self.store.is_shared(), members))
    }

    /// Returns true if another gateway that runs has other contracts than this one.
    pub(crate) async fn contracts_differ(&self, snapshot: &Snapshot) -> Result<bool, StoreError> {
        if !self.has_joined() {
            return Ok(false);
        }
        let [_, own, _] = self.digests(snapshot);
        let others = self.store.list_members().await?;
        let differs = |other: &Announcement| other.id != self.id && other.contracts != own;
        Ok(others.iter().any(|other| !other.is_lost && differs(&other.announced)))
    }

    fn own(&self, snapshot: &Snapshot) -> Member {
        let [settings, contracts, policies] = self.digests(snapshot);
        let text = |read: fn(&Introduction) -> &String| self.introduction.get().map(read).cloned().unwrap_or_default();
        let announced = Announcement {
            id: self.id.clone(),
            name: text(|own| &own.name),
            address: text(|own| &own.address),
            version: text(|own| &own.version),
            settings,
            contracts,
            policies,
        };
        let (started_ms, seen_ms) = (self.started_ms, record::now_ms());
        Member { announced, started_ms, seen_ms, is_own: true, is_lost: false }
    }

    /// Returns the digests of settings, contracts and policies. Computes them once for each reload.
    pub(crate) fn digests(&self, snapshot: &Snapshot) -> [String; 3] {
        let mut known = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.is_of(snapshot)) {
            return known.digests.clone();
        }
        let Snapshot { settings, contracts, policies, .. } = snapshot;
        let digests = [settings.digest(), contracts.digest(), policies.digest()].map(|digest| digest.to_string());
        *known = Some(KnownDigests {
            settings: Arc::clone(settings),
            contracts: Arc::clone(contracts),
            policies: Arc::clone(policies),
            digests: digests.clone(),
        });
        digests
    }
}

impl KnownDigests {
    fn is_of(&self, snapshot: &Snapshot) -> bool {
        Arc::ptr_eq(&self.settings, &snapshot.settings)
            && Arc::ptr_eq(&self.contracts, &snapshot.contracts)
            && Arc::ptr_eq(&self.policies, &snapshot.policies)
    }
}

fn other(row: StoredMember) -> Member {
    let StoredMember { announced, started_ms, seen_ms, is_lost } = row;
    Member { announced, started_ms, seen_ms, is_own: false, is_lost }
}

/// The place of a gateway in lists.
fn place(member: &Member) -> (&str, &str, &str) {
    let Announcement { id, name, address, .. } = &member.announced;
    (name, address, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u8, version: &str, contracts: &str, is_lost: bool) -> Member {
        let announced = Announcement {
            id: number.to_string(),
            name: "host".to_owned(),
            address: format!("10.0.0.{number}:8080"),
            version: version.to_owned(),
            settings: "s".repeat(64),
            contracts: contracts.repeat(64),
            policies: "p".repeat(64),
        };
        Member { announced, started_ms: 0, seen_ms: 0, is_own: number == 1, is_lost }
    }

    #[test]
    fn drift_names_what_differs_and_where() {
        let check = |members: &[Member], expected: &[&str]| {
            let found = Cluster::of(true, members.to_vec()).drift;
            assert_eq!(found.iter().map(Drift::message).collect::<Vec<_>>(), expected);
        };
        let [one, two] = [1, 2].map(|number| member(number, "1.0.0", "a", false));
        check(std::slice::from_ref(&one), &[]);
        check(&[one.clone(), two.clone()], &[]);
        check(&[one.clone(), two.clone(), member(3, "1.0.0", "b", true)], &[]);
        check(
            &[member(3, "1.0.0", "b", false), one.clone(), two.clone()],
            &["Gateways have different contracts: host (10.0.0.1:8080), host (10.0.0.2:8080) have aaaaaaaa; \
               host (10.0.0.3:8080) has bbbbbbbb."],
        );
        check(
            &[one, member(2, "1.1.0", "b", false)],
            &[
                "Gateways run different versions: host (10.0.0.1:8080) has 1.0.0; host (10.0.0.2:8080) has 1.1.0.",
                "Gateways have different contracts: host (10.0.0.1:8080) has aaaaaaaa; host (10.0.0.2:8080) has bbbbbbbb.",
            ],
        );
    }
}
