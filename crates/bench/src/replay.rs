//! Measures a replay of recorded calls: from the rows of SQLite to the report, with decisions on both sides.
//!
//! The log has calls of twenty tools by five agents, with contracts and policies. A tenth of the arguments is masked.
//! The speed is per second of CPU time of the whole process, which is what one core can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::settings::{ServerSettings, Settings, TransportSettings};
use mcpproxy_core::{Offer, Offered, Scope, ServerName};
use mcpproxy_gateway::{Files, Period, WhatIf, replay};
use mcpproxy_store::{Location, SigningKey, Store};

use crate::child::{own_cpu, own_rss_kib};
use crate::log::{self, AGENTS, TOOLS};

const BEGIN_MS: i64 = 1_700_000_000_000;
const PAUSE_MS: i64 = 100;
/// The speed that a replay must have.
const DECISIONS_PER_SECOND_MIN: f64 = 50_000.0;
/// The memory that many calls may take more than few. One page of the log may be there once more.
const GROWTH_MAX_KIB: u64 = 32 * 1024;
/// The calls of the first replay are this part of all.
const FEW: u64 = 10;

const POLICY: &str = "@id(\"reason\") forbid (principal, action == Action::\"destructive\", resource) \
     unless { context.hasReason };";

/// Fills a log with `calls` calls, replays it, and prints the speed. With `is_checked`, a slow replay is an error.
pub(crate) async fn measure(calls: u64, is_checked: bool) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await?;
    for agent in 0..AGENTS {
        let mut random = [7; 32];
        random[0] = agent.to_le_bytes()[0];
        store.create_token(&format!("agent{agent}"), &Scope::everything(), random, BEGIN_MS).await?;
    }
    let key = SigningKey::from_seed(&[1; 32]).context("a key")?;
    log::fill(&store, key, calls, BEGIN_MS, PAUSE_MS).await?;
    let (active, what_if, offers) = files()?;
    let until_ms = Some(BEGIN_MS + (calls / FEW).cast_signed() * PAUSE_MS);
    let few = Period { until_ms, ..Period::default() };
    let (baseline, after) = what_if.sides(&active, &offers);
    replay(&store, baseline, after, few).await?;
    let rss_few = own_rss_kib()?;
    let (baseline, after) = what_if.sides(&active, &offers);
    let (began, cpu) = (Instant::now(), own_cpu()?);
    let report = replay(&store, baseline, after, Period::default()).await?;
    let (wall, cpu) = (began.elapsed(), own_cpu()?.saturating_sub(cpu));
    let rss = own_rss_kib()?;
    store.close().await;
    if report.calls != calls || report.groups.is_empty() {
        bail!("{} of {calls} calls were replayed, in {} groups", report.calls, report.groups.len());
    }
    let speed = per_second(report.decisions, cpu);
    let text = format!(
        "replay of {calls} calls from SQLite: {} decisions in {:.2} s, {:.2} s of CPU time\n\
         {speed:.0} decisions a second on one core\n\
         memory: {} MiB after {} calls, {} MiB after all\n",
        report.decisions,
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        rss_few / 1024,
        calls / FEW,
        rss / 1024
    );
    if is_checked && (speed < DECISIONS_PER_SECOND_MIN || rss > rss_few + GROWTH_MAX_KIB) {
        bail!("{text}expected {DECISIONS_PER_SECOND_MIN:.0} decisions a second, and flat memory");
    }
    Ok(text)
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(0.01)
}

type Offers = std::collections::BTreeMap<ServerName, Arc<Offer>>;

/// Returns the active files, the files to try, and the tools.
fn files() -> Result<(Files, WhatIf, Offers)> {
    let server = ServerName::parse("fx").context("a server's name")?;
    let tool = |n: u64| {
        let json = format!(
            r#"{{"name":"tool{n}","inputSchema":{{"type":"object","properties":{{"id":{{"type":"integer"}},"note":{{"type":"string","maxLength":500}},"to":{{"type":"array","items":{{"type":"string"}}}}}},"required":["id"]}},"annotations":{{"readOnlyHint":{}}}}}"#,
            n.is_multiple_of(2)
        );
        Offered::parse(&server, &json)
    };
    let offer = Offer::new((0..TOOLS).map(tool)).0;
    let settings =
        Settings { servers: vec![ServerSettings::new(server.clone(), TransportSettings::Demo)], ..Settings::default() };
    let contracts = |risk: &str| {
        let text = format!("- tool: fx:tool1\n  riskLevel: low\n- tool: fx:tool3\n  riskLevel: {risk}\n");
        let parsed = Contracts::parse(&[("a.yaml".to_owned(), text)]);
        parsed.map(Arc::new).map_err(|mistakes| anyhow::anyhow!("{mistakes:?}"))
    };
    let policies = Policies::parse(&[("a.cedar".to_owned(), POLICY.to_owned())]);
    let policies = Arc::new(policies.map_err(|mistakes| anyhow::anyhow!("{mistakes:?}"))?);
    let active = Files { settings: Arc::new(settings), contracts: contracts("low")?, policies };
    let what_if = WhatIf { contracts: Some(contracts("critical")?), ..WhatIf::default() };
    Ok((active, what_if, Offers::from([(server, Arc::new(offer))])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_small_log_is_replayed() {
        let text = measure(600, false).await.unwrap();
        assert!(text.starts_with("replay of 600 calls from SQLite: 1200 decisions"), "{text}");
    }
}
