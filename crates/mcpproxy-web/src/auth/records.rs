//! Activity records about accounts: signing in, factors, invitations and refused attempts.

use mcpproxy_store::{Kind, NewRecord, Status, WaitFor};
use serde_json::Value;

use crate::auth::identity::AppState;

/// Builds the record of a user's action.
pub(crate) fn done(code: &str, name: &str) -> NewRecord {
    record(Status::Success, code, None, &serde_json::json!({"user": name}))
}

/// Builds the record of an action, with this metadata.
pub(crate) fn done_with(code: &str, metadata: &Value) -> NewRecord {
    record(Status::Success, code, None, metadata)
}

/// Builds the record of a refused attempt.
pub(crate) fn refused(code: &str, agent: Option<String>, metadata: &Value) -> NewRecord {
    record(Status::Refused, code, agent, metadata)
}

/// Writes a record. Signing in works even if the log cannot be written, because no call can be approved or sent then.
pub(crate) async fn write(app: &AppState, record: NewRecord) {
    let record = NewRecord { time_ms: app.now_ms(), random: rand::random(), ..record };
    if let Err(error) = app.web.ledger.append(record, WaitFor::Queue).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not write an account record");
    }
}

fn record(status: Status, code: &str, agent: Option<String>, metadata: &Value) -> NewRecord {
    NewRecord {
        time_ms: 0,
        random: 0,
        kind: Kind::Auth,
        status,
        agent,
        client: None,
        server: None,
        tool: None,
        is_known_tool: false,
        intent_type: None,
        risk: None,
        code: Some(code.to_owned()),
        message: None,
        duration_us: None,
        metadata: metadata.to_string(),
        args: None,
    }
}
