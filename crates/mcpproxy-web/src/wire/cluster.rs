//! The JSON of the gateways that share a database.

use mcpproxy_gateway as gateway;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::words;
use crate::time;

const MEMBER_STATES: [&str; 2] = ["running", "lost"];

/// The gateways that share a database.
#[derive(Serialize, ToSchema)]
pub(crate) struct Cluster {
    /// True if several gateways can share the database. False with SQLite.
    shared: bool,
    /// By name and address. A gateway that stopped is not listed.
    members: Vec<Member>,
    /// The differences between the gateways that run. Empty if they are the same.
    drift: Vec<Drift>,
}

/// A gateway.
#[derive(Serialize, ToSchema)]
pub(crate) struct Member {
    /// The chain of its activity log, which identifies its data folder.
    id: String,
    /// The name of its machine.
    name: String,
    /// The address that it listens on.
    address: String,
    version: String,
    #[schema(schema_with = member_states)]
    state: &'static str,
    /// True for the gateway that answers this request.
    this: bool,
    #[schema(format = DateTime)]
    started: String,
    /// The time of its last announcement.
    #[schema(format = DateTime)]
    seen: String,
    /// SHA-256 of the settings in force, without secrets and without what belongs to one machine.
    settings: String,
    /// SHA-256 of the contracts in force.
    contracts: String,
    /// SHA-256 of the policies in force.
    policies: String,
}

/// A difference between gateways.
#[derive(Serialize, ToSchema)]
pub(crate) struct Drift {
    #[schema(schema_with = parts)]
    part: &'static str,
    /// The values, the most frequent first.
    values: Vec<DriftValue>,
    /// A sentence for people that names the gateways and their values.
    message: String,
    /// The next step for the operator.
    next: &'static str,
}

/// A value, and the gateways that have it.
#[derive(Serialize, ToSchema)]
pub(crate) struct DriftValue {
    /// A version or a digest.
    value: String,
    /// Names and addresses.
    members: Vec<String>,
}

/// The gateways that share the database, in numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClusterState {
    /// True if several gateways can share the database. False with SQLite.
    shared: bool,
    /// The number of gateways that run.
    running: usize,
    /// The number of gateways that were silent for more than ten seconds without stopping.
    lost: usize,
    /// The differences between the gateways that run.
    drift: Vec<Drift>,
}

fn member_states() -> Object {
    words("`lost`: it was silent for more than ten seconds without stopping. It is listed for one hour.", MEMBER_STATES)
}

fn parts() -> Object {
    words("The part that differs.", gateway::Part::ALL.map(gateway::Part::as_str))
}

impl From<&gateway::Cluster> for Cluster {
    fn from(cluster: &gateway::Cluster) -> Self {
        Self {
            shared: cluster.is_shared,
            members: cluster.members.iter().map(Member::from).collect(),
            drift: cluster.drift.iter().map(Drift::from).collect(),
        }
    }
}

impl From<&gateway::Cluster> for ClusterState {
    fn from(cluster: &gateway::Cluster) -> Self {
        let lost = cluster.members.iter().filter(|member| member.is_lost).count();
        Self {
            shared: cluster.is_shared,
            running: cluster.members.len().saturating_sub(lost),
            lost,
            drift: cluster.drift.iter().map(Drift::from).collect(),
        }
    }
}

impl From<&gateway::Member> for Member {
    fn from(member: &gateway::Member) -> Self {
        let [running, lost] = MEMBER_STATES;
        Self {
            id: member.announced.id.clone(),
            name: member.announced.name.clone(),
            address: member.announced.address.clone(),
            version: member.announced.version.clone(),
            state: if member.is_lost { lost } else { running },
            this: member.is_own,
            started: time::format(member.started_ms),
            seen: time::format(member.seen_ms),
            settings: member.announced.settings.clone(),
            contracts: member.announced.contracts.clone(),
            policies: member.announced.policies.clone(),
        }
    }
}

impl From<&gateway::Drift> for Drift {
    fn from(drift: &gateway::Drift) -> Self {
        let value =
            |(value, members): &(String, Vec<String>)| DriftValue { value: value.clone(), members: members.clone() };
        Self {
            part: drift.part.as_str(),
            values: drift.groups.iter().map(value).collect(),
            message: drift.message(),
            next: drift.next(),
        }
    }
}
