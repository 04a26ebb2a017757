//! Records of what people do here besides deciding: signing in, factors, invitations, and who was refused.

use mcpproxy_store::{Kind, NewRecord, Status, WaitFor};
use serde_json::Value;

use crate::auth::identity::Site;

/// What a person did.
pub(crate) fn done(code: &str, name: &str) -> NewRecord {
    record(Status::Success, code, None, &serde_json::json!({"user": name}))
}

/// The same, with more to tell than who it was.
pub(crate) fn done_with(code: &str, metadata: &Value) -> NewRecord {
    record(Status::Success, code, None, metadata)
}

/// What somebody tried.
pub(crate) fn refused(code: &str, agent: Option<String>, metadata: &Value) -> NewRecord {
    record(Status::Refused, code, agent, metadata)
}

/// A log that cannot be written keeps nobody from signing in: nothing can be decided or sent without it anyway.
pub(crate) async fn write(site: &Site, record: NewRecord) {
    let record = NewRecord { time_ms: site.now_ms(), random: rand::random(), ..record };
    if let Err(error) = site.web.ledger.append(record, WaitFor::Queue).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not write down what somebody did");
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
