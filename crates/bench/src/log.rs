//! Fills an activity log with calls of twenty tools by five agents. A tenth of the arguments is masked.

use std::time::Duration;

use anyhow::Result;
use mcpproxy_core::settings::Retention;
use mcpproxy_core::{Variant, mask};
use mcpproxy_store::{Kind, Ledger, LedgerOptions, NewRecord, Payload, SigningKey, Status, Store, WaitFor};

pub(crate) const TOOLS: u64 = 20;
pub(crate) const AGENTS: u64 = 5;

/// Writes `calls` records, the first at `begin_ms` and then one every `pause_ms`.
pub(crate) async fn fill(store: &Store, key: SigningKey, calls: u64, begin_ms: i64, pause_ms: i64) -> Result<()> {
    let options = LedgerOptions {
        key,
        newest_checkpoint: None,
        checkpoints_to: None,
        retention: Retention { payloads: None, payload_bytes: None, records: None },
        patience: Duration::from_secs(20),
        now_ms: || 0,
    };
    let ledger = Ledger::start(store, options).await?;
    for n in 0..calls {
        // Retry if the disk cannot keep up.
        while ledger.append(record(n, begin_ms + n.cast_signed() * pause_ms), WaitFor::Queue).await.is_err() {}
    }
    ledger.finish().await?;
    Ok(())
}

fn record(n: u64, time_ms: i64) -> NewRecord {
    // A hash of `n`, so that neighbouring records differ.
    let chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let tool = chance % TOOLS;
    let variant = if tool.is_multiple_of(2) { Variant::Read } else { Variant::Write };
    let secret = if chance.is_multiple_of(10) { r#","password":"hunter2""# } else { "" };
    let args = format!(r#"{{"id":{n},"note":"Reminder number {n}","to":["kim","alex"]{secret}}}"#);
    NewRecord {
        time_ms,
        random: chance,
        kind: Kind::Call,
        status: Status::Success,
        agent: Some(format!("agent{}", (chance >> 8) % AGENTS)),
        client: Some("bench 1.0".to_owned()),
        server: Some("fx".to_owned()),
        tool: Some(format!("tool{tool}")),
        is_known_tool: true,
        intent_type: Some(variant),
        risk: None,
        code: None,
        message: None,
        duration_us: Some(1_200),
        metadata: format!(
            r#"{{"intent":{{"operation_type":"{variant}","reason":"The user asked"}},"tool_variant":"call_tool_{variant}","intent_verified":true}}"#
        ),
        args: Some(Payload::of(mask(&args, &[]), args.len())),
    }
}
