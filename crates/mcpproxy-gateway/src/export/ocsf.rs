//! Records as events of the Open Cybersecurity Schema Framework (OCSF), version 1.3.
//!
//! | record | class | activity |
//! |---|---|---|
//! | call, refusal | API Activity, 6003 | read 2, write 3 (Update), destructive 4 (Delete), else 99 |
//! | account: sign-in, sign-out, refused credentials | Authentication, 3002 | 1 Logon, 2 Logoff, else 99 |
//! | approval, server, settings | API Activity, 6003, of the service `mcpproxy` | 99 |
//!
//! `metadata.uid` is the id of the record, so a receiver drops duplicates by it. Everything without a place in the schema
//! is in `unmapped`. All texts are those of the store: masked, and bounded in length.

use mcpproxy_core::{RiskLevel, Untrusted, Variant};
use mcpproxy_store::{Kind, PayloadFacts, Record, Status};
use serde_json::{Value, json};

const VERSION: &str = "1.3.0";
const API_ACTIVITY: u32 = 6003;
const AUTHENTICATION: u32 = 3002;
const OTHER: u32 = 99;

/// The name of the gateway as a service, for records that are not about a server's tool.
const GATEWAY: &str = "mcpproxy";

/// Converts a record that has ended.
pub(super) fn event(record: &Record) -> Value {
    let (class, activity) = class_of(record);
    let details = details(&record.metadata);
    let (status_id, status) = status_of(record.status);
    let mut event = base(class, activity, record.time_ms(), &record.id.to_string());
    add(&mut event, "status_id", json!(status_id));
    add(&mut event, "status", json!(status));
    add(&mut event, "severity_id", json!(severity_of(record)));
    add_some(&mut event, "status_code", text(&record.code));
    add_some(&mut event, "message", text(&record.message));
    add_some(&mut event, "duration", record.duration_us.map(|duration_us| json!(duration_us / 1000)));
    // `metadata.sequence` is the position in the hash chain, with which the record is found in a proof.
    if let Some(metadata) = event.get_mut("metadata") {
        add(metadata, "sequence", json!(record.end_seq.unwrap_or(record.seq)));
    }
    let user = user_of(record, &details);
    match class {
        AUTHENTICATION => {
            add(&mut event, "user", user);
            add(&mut event, "service", json!({"name": GATEWAY}));
        }
        _ => {
            let app = text(&record.client).unwrap_or(Value::Null);
            add(&mut event, "actor", json!({"user": user, "app_name": app}));
            add(&mut event, "api", api_of(record));
            // The class requires an endpoint. The gateway knows its agents by their tokens, not by their addresses.
            add(&mut event, "src_endpoint", json!({"name": record.agent.as_deref().unwrap_or(GATEWAY)}));
            let is_allowed = !matches!(record.status, Status::Refused);
            add(&mut event, "action_id", json!(if is_allowed { 1 } else { 2 }));
            add(&mut event, "action", json!(if is_allowed { "Allowed" } else { "Denied" }));
        }
    }
    let end_details = record.end_metadata.as_ref().map(self::details);
    add(
        &mut event,
        "unmapped",
        json!({
            "record_type": record.kind.as_str(),
            "record_status": record.status.as_str(),
            "chain": record.chain,
            "risk_level": record.risk.map(RiskLevel::as_str),
            "intent_type": record.intent_type.map(Variant::operation),
            "details": details,
            "end_details": end_details,
            "arguments": record.args.as_ref().map(payload),
            "result": record.result.as_ref().map(payload),
        }),
    );
    event
}

/// Says that retention removed lines of the log before they were exported.
pub(super) fn gap(chain: u16, after: i64, lines: u64, now_ms: i64) -> Value {
    // The same gap has the same id, also if it is sent again.
    let mut event = base(API_ACTIVITY, OTHER, now_ms, &format!("gap-{chain}-{after}-{lines}"));
    let message = format!("retention removed {lines} lines of the activity log before they were exported");
    add(&mut event, "status_id", json!(2));
    add(&mut event, "status", json!("Failure"));
    add(&mut event, "severity_id", json!(4));
    add(&mut event, "message", json!(message));
    add(&mut event, "actor", json!({"app_name": GATEWAY}));
    add(&mut event, "api", json!({"operation": "export_gap", "service": {"name": GATEWAY}}));
    add(&mut event, "src_endpoint", json!({"name": GATEWAY}));
    add(&mut event, "unmapped", json!({"record_type": "gap", "chain": chain, "after_sequence": after, "lines": lines}));
    event
}

fn base(class: u32, activity: u32, time_ms: i64, uid: &str) -> Value {
    let (class_name, category, category_name) = match class {
        AUTHENTICATION => ("Authentication", 3, "Identity & Access Management"),
        _ => ("API Activity", 6, "Application Activity"),
    };
    let product = json!({"name": GATEWAY, "vendor_name": GATEWAY, "version": env!("CARGO_PKG_VERSION")});
    json!({
        "class_uid": class,
        "class_name": class_name,
        "category_uid": category,
        "category_name": category_name,
        "activity_id": activity,
        "type_uid": class * 100 + activity,
        "time": time_ms,
        "metadata": {
            "version": VERSION,
            "product": product,
            "uid": uid,
            "log_name": "activity",
            "profiles": ["security_control"],
        },
    })
}

fn class_of(record: &Record) -> (u32, u32) {
    match record.kind {
        Kind::Call | Kind::Refusal => {
            let activity = match record.intent_type {
                Some(Variant::Read) => 2,
                Some(Variant::Write) => 3,
                Some(Variant::Destructive) => 4,
                None => OTHER,
            };
            (API_ACTIVITY, activity)
        }
        Kind::Auth => {
            let activity = match record.code.as_ref().map(Untrusted::for_json) {
                Some("login" | "login_failed" | "unauthorized" | "step_up" | "step_up_failed") => 1,
                Some("logout" | "session_ended" | "session_closed") => 2,
                Some(_) | None => OTHER,
            };
            (AUTHENTICATION, activity)
        }
        Kind::Approval | Kind::Server | Kind::Settings => (API_ACTIVITY, OTHER),
    }
}

fn status_of(status: Status) -> (u32, &'static str) {
    match status {
        Status::Success => (1, "Success"),
        Status::Error | Status::Refused => (2, "Failure"),
        // Neither tells what the server did.
        Status::Cancelled | Status::Interrupted => (OTHER, "Other"),
        Status::Started => (0, "Unknown"),
    }
}

/// Uses the risk level for calls that ran or were refused. Other failures are worth a look, but no alarm.
fn severity_of(record: &Record) -> u32 {
    let of_risk = match record.risk {
        Some(RiskLevel::Forbidden | RiskLevel::Critical) => 4,
        Some(RiskLevel::High) => 3,
        Some(RiskLevel::Medium) => 2,
        Some(RiskLevel::Low) | None => 1,
    };
    match record.status {
        Status::Success | Status::Started => of_risk,
        Status::Error | Status::Refused | Status::Cancelled | Status::Interrupted => of_risk.max(2),
    }
}

/// Names the agent, or the user of a record about an account.
fn user_of(record: &Record, details: &Value) -> Value {
    let user = ["user", "decided_by", "approved_by"].iter().find_map(|key| details.get(key)?.as_str());
    match (record.kind, &record.agent, user) {
        (Kind::Call | Kind::Refusal, Some(agent), _) | (_, Some(agent), None) => {
            json!({"name": agent, "type": "agent"})
        }
        (_, _, Some(user)) => json!({"name": user, "type": "user"}),
        (_, None, None) => json!({"name": GATEWAY, "type": "System", "type_id": 3}),
    }
}

fn api_of(record: &Record) -> Value {
    let named = record.server.as_ref().zip(record.tool.as_ref());
    match (record.kind, named) {
        (Kind::Call | Kind::Refusal, Some((server, tool))) => {
            let operation = format!("{}:{}", server.for_json(), tool.for_json());
            json!({"operation": operation, "service": {"name": server.for_json()}})
        }
        (Kind::Call | Kind::Refusal, None) => {
            json!({"operation": text(&record.tool).unwrap_or_else(|| json!("unknown")), "service": {"name": GATEWAY}})
        }
        (Kind::Approval | Kind::Server | Kind::Settings | Kind::Auth, _) => {
            let operation = text(&record.code).unwrap_or_else(|| json!(record.kind.as_str()));
            let server = text(&record.server).unwrap_or(Value::Null);
            json!({"operation": operation, "service": {"name": GATEWAY}, "group": {"name": server}})
        }
    }
}

fn payload(facts: &PayloadFacts) -> Value {
    let sha256: String = facts.digests.whole.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"bytes": facts.bytes, "sha256": sha256})
}

/// Reads the details of a record. The store has written them as JSON.
fn details(text: &Untrusted) -> Value {
    serde_json::from_str(text.for_json()).unwrap_or_else(|_| json!({"text": text.for_json()}))
}

fn text(text: &Option<Untrusted>) -> Option<Value> {
    text.as_ref().map(|text| json!(text.for_json()))
}

fn add_some(event: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        add(event, key, value);
    }
}

fn add(event: &mut Value, key: &str, value: Value) {
    if let Some(members) = event.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}
