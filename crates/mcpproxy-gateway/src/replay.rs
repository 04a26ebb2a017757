//! Replays recorded calls with other contracts, policies or settings. Nothing is sent.
//!
//! The decisions are made in `mcpproxy_core::replay`. This file reads the log page by page and knows the agents. Memory
//! holds one page, so a year takes as much of it as a day.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use mcpproxy_core::policy::Clock;
use mcpproxy_core::replay::{Baseline, LoggedArguments, LoggedCall, Replay, Report, Rules};
use mcpproxy_core::{Agent, Catalog, Offer, Scope, ServerName, Untrusted};
use mcpproxy_store::{CallsFrom, Kind, RecordedCall, Status, Store, StoreError};

use crate::agents::ANONYMOUS;
use crate::offload::aside;
use crate::snapshot::{Files, utc_offset_s};

/// The period of a replay. Both times are inclusive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Period {
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    /// Ends the replay after about as many records, and marks the report as incomplete. `None` reads all.
    pub records_max: Option<usize>,
}

/// Builds the rules from files and from the tools of servers. The settings decide which servers and tools there are.
pub fn rules(files: &Files, offers: &BTreeMap<ServerName, Arc<Offer>>) -> Rules {
    let offered = files.settings.servers.iter().filter(|server| server.enabled).filter_map(|server| {
        let offer = offers.get(&server.name)?;
        let is_offered = |tool: &str| server.tools.left_out(tool).is_none();
        Some((server.name.clone(), Arc::new(offer.only(is_offered))))
    });
    let catalog = Catalog::default().next(offered, &files.contracts, &files.policies);
    Rules { settings: Arc::clone(&files.settings), catalog }
}

/// Decides every call of the period again, oldest first, and reports the differences.
pub async fn replay(store: &Store, baseline: Baseline, after: Rules, period: Period) -> Result<Report, StoreError> {
    let agents = Arc::new(agents(store).await?);
    let mut replay = Replay::new(baseline, after);
    let mut from = CallsFrom::period(period.since_ms, period.until_ms);
    let mut records = 0;
    loop {
        let (calls, next) = store.calls(from).await?;
        if calls.is_empty() {
            return Ok(replay.finish());
        }
        if period.records_max.is_some_and(|max| records >= max) {
            replay.cut();
            return Ok(replay.finish());
        }
        records += calls.len();
        from = next;
        let agents = Arc::clone(&agents);
        // A page takes milliseconds of pure computing, and agents must not wait for it.
        replay = aside(move || {
            for call in &calls {
                take(&mut replay, call, &agents);
            }
            replay
        })
        .await;
    }
}

fn take(replay: &mut Replay, call: &RecordedCall, agents: &HashMap<String, Agent>) {
    let name = call.agent.as_deref().unwrap_or_default();
    // A token that was never in this database, such as one of an imported log, is assumed to allow everything.
    let unknown = || Agent { name: name.to_owned(), scope: Scope::everything() };
    let fallback;
    let agent = match agents.get(name) {
        Some(agent) => agent,
        None => {
            fallback = unknown();
            &fallback
        }
    };
    replay.take(&LoggedCall {
        id: &call.id.to_string(),
        clock: clock(call.id.time_ms()),
        agent,
        is_anonymous: name == ANONYMOUS,
        server: call.server.as_ref().map(Untrusted::for_json),
        tool: call.tool.as_ref().map(Untrusted::for_json),
        variant: call.intent_type,
        is_refusal: call.kind == Kind::Refusal,
        has_failed: has_failed(call.status),
        code: call.code.as_ref().map(Untrusted::for_json),
        metadata: call.metadata.for_json(),
        arguments: call.args.as_ref().map_or(LoggedArguments::Lost, |args| LoggedArguments::Stored(args.for_json())),
    });
}

/// Returns true if a call was made and no success is known.
fn has_failed(status: Status) -> bool {
    match status {
        Status::Success | Status::Refused => false,
        Status::Started | Status::Error | Status::Cancelled | Status::Interrupted => true,
    }
}

/// Returns every agent with the scope of its token now. Of a revoked token, the scope it had.
async fn agents(store: &Store) -> Result<HashMap<String, Agent>, StoreError> {
    let mut agents = HashMap::new();
    agents.insert(ANONYMOUS.to_owned(), Agent { name: ANONYMOUS.to_owned(), scope: Scope::read_only() });
    // The tokens of one name are in the order of their creation, and at most the last one is live.
    for token in store.list_tokens().await? {
        agents.insert(token.name.clone(), Agent { name: token.name, scope: token.scope });
    }
    Ok(agents)
}

/// Returns the time of a record on the clock of this machine, for policies that ask about hours.
fn clock(now_ms: i64) -> Clock {
    Clock { now_ms, utc_offset_s: Timestamp::from_millisecond(now_ms).map_or(0, utc_offset_s) }
}
