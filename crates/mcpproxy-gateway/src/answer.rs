//! Answers in the gateway's own words: refusals, failures, and additions to a server's result.

use mcpproxy_core::Warning;
use mcpproxy_core::json::members;
use mcpproxy_store::{RecordId, StoreError};
use serde_json::{Value, json};

use crate::message::{self, INTERNAL_ERROR, OWN_PREFIX, RECORD_KEY, Reply, RpcError, field};
use crate::record::warnings_json;

/// Builds a refusal as a result, so that the agent's model reads it and can correct the call. The `mcpproxy/error` key
/// in `_meta` tells it from an error of the server.
pub(crate) fn error_result(code: &str, message: &str, details: &Value, record: Option<RecordId>) -> String {
    let mut meta = json!({"mcpproxy/error": code});
    if let (Some(record), Some(meta)) = (record, meta.as_object_mut()) {
        meta.insert(RECORD_KEY.to_owned(), record.to_string().into());
    }
    json!({
        "content": [{"type": "text", "text": message}],
        "structuredContent": {"error": {"code": code, "message": message, "details": details}},
        "isError": true,
        "_meta": meta,
    })
    .to_string()
}

/// Adds the record's id, warnings and other keys of the gateway to a server's result. Keys with the gateway's prefix
/// that the server set are dropped: a server does not speak for the gateway. Keys are compared after unescaping, as the
/// client will read them.
pub(crate) fn with_own_meta(result: String, record: RecordId, warnings: &[Warning], own: &[(&str, String)]) -> String {
    let fields = members(&result).unwrap_or_default();
    let old = field(&fields, "_meta");
    let meta = old.and_then(members).unwrap_or_default();
    let theirs = meta.iter().filter(|(key, _)| !key.starts_with(OWN_PREFIX)).map(|(key, value)| (key.as_ref(), *value));
    let record = format!("\"{record}\"");
    let warned = warnings_json(warnings);
    let warned = (!warnings.is_empty()).then_some(("mcpproxy/warnings", warned.as_str()));
    let own = own.iter().map(|(key, value)| (*key, value.as_str()));
    let meta = message::object(theirs.chain([(RECORD_KEY, record.as_str())]).chain(warned).chain(own));
    let is_plain = old.is_none() && !fields.is_empty();
    let open = result.trim_end().strip_suffix('}').map(str::len).filter(|_| is_plain);
    let Some(open) = open else { return message::with_members(&result, &[("_meta", &meta)]) };
    // The common case parses nothing again, and adds the keys in place.
    let mut result = result;
    result.truncate(open);
    result.extend([",\"_meta\":", &meta, "}"]);
    result
}

/// Refuses a call that cannot be recorded: no record, no call.
pub(crate) fn unrecorded(error: &StoreError) -> Reply {
    // The log's writer reports the failure once. An agent that retries in a loop must not flood the process log.
    tracing::debug!(%error, "the activity log cannot be written, so calls are refused");
    Ok(error_result(
        "audit_unavailable",
        "The activity log cannot be written, so nothing was sent. Try again later.",
        &json!({}),
        None,
    ))
}

/// Builds the answer to a call that its agent cancelled.
pub(crate) fn cancelled() -> RpcError {
    RpcError::new(INTERNAL_ERROR, "the call was cancelled")
}
