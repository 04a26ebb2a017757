//! The words of OTLP in JSON: spans, log records and the requests that carry them.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mcpproxy_core::json::quote;
use serde_json::{Value, json};

use super::outbox::Signal;
use crate::meter::{CallTrace, Stage};

/// The method in names of spans.
const METHOD: &str = "tools/call";
/// Kinds of spans, as OTLP numbers them.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// The status of a span that failed.
const ERROR: u8 = 2;

/// Returns the spans of a call: one for the whole, and one for each stage.
pub(super) fn spans(trace: &CallTrace, agent: &str, error: Option<&str>) -> Vec<String> {
    let ended = Instant::now();
    let name = |tool: &str| if tool.is_empty() { METHOD.to_owned() } else { format!("{METHOD} {tool}") };
    let tool = trace.tool.as_ref();
    let mut attributes = vec![
        attribute("mcp.method.name", METHOD),
        attribute("gen_ai.operation.name", "execute_tool"),
        attribute("mcpproxy.agent", agent),
    ];
    if let Some((server, tool)) = tool {
        attributes.push(attribute("gen_ai.tool.name", tool));
        attributes.push(attribute("mcpproxy.server", server));
    }
    if let Some(record) = trace.record {
        attributes.push(attribute("mcpproxy.record", &record.to_string()));
    }
    if let Some(error) = error {
        attributes.push(attribute("error.type", error));
    }
    let mut whole = json!({
        "traceId": format!("{:032x}", trace.trace),
        "spanId": format!("{:016x}", trace.span),
        "name": name(tool.map_or("", |(_, tool)| tool)),
        "kind": SERVER,
        "startTimeUnixNano": nanos(trace, trace.began),
        "endTimeUnixNano": nanos(trace, ended),
        "attributes": attributes,
        "status": error.map_or_else(|| json!({}), |_| json!({"code": ERROR})),
    });
    if let (Some(parent), Some(whole)) = (trace.parent, whole.as_object_mut()) {
        whole.insert("parentSpanId".to_owned(), format!("{parent:016x}").into());
    }
    let stage = |(stage, began, ended): &(Stage, Instant, Instant)| {
        let (span, name, kind) = match stage {
            Stage::Forward => (trace.forward, name(tool.map_or("", |(_, tool)| tool)), CLIENT),
            Stage::Decide | Stage::Approve | Stage::Open | Stage::Close => {
                (rand::random::<u64>().max(1), stage.as_str().to_owned(), INTERNAL)
            }
        };
        json!({
            "traceId": format!("{:032x}", trace.trace),
            "spanId": format!("{span:016x}"),
            "parentSpanId": format!("{:016x}", trace.span),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": nanos(trace, *began),
            "endTimeUnixNano": nanos(trace, *ended),
        })
    };
    let stages = trace.stages.iter().map(stage);
    std::iter::once(whole).chain(stages).map(|span| span.to_string()).collect()
}

/// Returns a record of the program's log. `severity` is the number of OTLP and its name.
pub(super) fn log_record(severity: (u8, &str), message: &str, fields: &[(String, String)]) -> String {
    let (number, text) = severity;
    let attributes: Vec<Value> = fields.iter().map(|(key, value)| attribute(key, value)).collect();
    json!({
        "timeUnixNano": unix_nanos(SystemTime::now()).to_string(),
        "severityNumber": number,
        "severityText": text,
        "body": {"stringValue": message},
        "attributes": attributes,
    })
    .to_string()
}

/// Wraps spans or log records into one request.
pub(super) fn request(signal: Signal, resource: &[(String, String)], items: &[String]) -> String {
    let (resources, scopes, name) = match signal {
        Signal::Traces => ("resourceSpans", "scopeSpans", "spans"),
        Signal::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
    };
    let resource: Vec<Value> = resource.iter().map(|(key, value)| attribute(key, value)).collect();
    let resource = json!({"attributes": resource});
    let version = quote(env!("CARGO_PKG_VERSION"));
    format!(
        "{{\"{resources}\":[{{\"resource\":{resource},\"{scopes}\":[{{\"scope\":{{\"name\":\"mcpproxy\",\
         \"version\":{version}}},\"{name}\":[{}]}}]}}]}}",
        items.join(",")
    )
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Returns a time of a call as OTLP writes it. JSON numbers cannot hold nanoseconds, so they are texts.
fn nanos(trace: &CallTrace, at: Instant) -> String {
    (unix_nanos(trace.began_at) + (at - trace.began).as_nanos()).to_string()
}

fn unix_nanos(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ParentSpan;

    #[test]
    fn stages_are_children_of_the_call() {
        let mut trace = CallTrace::new(Some(ParentSpan { trace: 7, span: 8, is_sampled: true }));
        trace.tool = Some(("demo".to_owned(), "list_users".to_owned()));
        let now = Instant::now();
        trace.stages = vec![(Stage::Decide, trace.began, now), (Stage::Forward, now, now)];
        let spans = spans(&trace, "agent \"x\"", Some("timeout"));
        let spans: Vec<Value> = spans.iter().map(|span| serde_json::from_str(span).unwrap()).collect();
        let [whole, decide, forward] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(whole["traceId"], "00000000000000000000000000000007");
        assert_eq!(whole["parentSpanId"], "0000000000000008");
        assert_eq!(whole["name"], "tools/call list_users");
        assert_eq!(whole["status"]["code"], 2);
        assert_eq!(decide["name"], "decide");
        assert_eq!(forward["spanId"], format!("{:016x}", trace.forward));
        assert!([decide, forward].iter().all(|stage| stage["parentSpanId"] == whole["spanId"]));
    }

    #[test]
    fn a_request_is_valid_json() {
        let resource = [("service.name".to_owned(), "a \"b\"".to_owned())];
        for (signal, path) in [
            (Signal::Traces, "/resourceSpans/0/scopeSpans/0/spans"),
            (Signal::Logs, "/resourceLogs/0/scopeLogs/0/logRecords"),
        ] {
            let items =
                [log_record((9, "INFO"), "one", &[]), log_record((17, "ERROR"), "two\n", &[("a".into(), "b".into())])];
            let text = request(signal, &resource, &items);
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.pointer(path).and_then(Value::as_array).map(Vec::len), Some(2), "{text}");
        }
    }
}
