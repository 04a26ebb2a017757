//! The life of a tool call: eight stops, one function. There is no other way to a server's tool.

mod open;

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::policy::Clock;
use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{
    Arguments, Decision, Declared, Denial, Intent, Moment, ServerName, Tool, ToolName, Variant, Warning, decide,
    declare,
};
use mcpproxy_store::RecordId;
use serde_json::{Value, json};

use crate::ask::{Answered, Said, Unanswered, ask};
use crate::crash::crash_point;

use crate::downstream::Caller;
use crate::dry_run;
use crate::gateway::Inner;
use crate::heavy::heavy;
use crate::judge::{Answer, FAILURE_KEY, Judged};
use crate::message::{self, INVALID_PARAMS, RpcError, field, member};
use crate::record::{self, Asking};
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;
use crate::upstream::{Passage, Reply, UpstreamError, forward};
use open::{Call, Taken, look_up, repeated};

/// A call as it was received, which is the first stop: through one of the three variants, or directly by a tool's own name.
pub(crate) struct CallRequest<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) passage: Passage<'a>,
}

pub(crate) enum Wanted<'a> {
    /// The parameters of a `call_tool_*`, which have passed the strict reader.
    Variant { variant: Variant, parameters: &'a str },
    /// In direct mode the tool itself says which variant it calls for. What the four tools take beside a tool's arguments
    /// stands in `_meta` there.
    Direct { name: ToolName, arguments: &'a str, meta: Option<&'a str> },
}

pub(crate) async fn run(gateway: &Inner, caller: &Caller, request: CallRequest<'_>) -> Reply {
    let CallRequest { wanted, mut passage } = request;
    let snapshot = gateway.snapshot_for(wanted.server().as_ref()).await;
    let mut asking = wanted.asking();

    // 2 declare: the variant and its parameters into an intent.
    let mut declared = match wanted.declare(&snapshot) {
        Ok(declared) => declared,
        Err(denial) => return refuse(gateway, caller, &snapshot, &denial, &asking).await,
    };
    // 3 resolve: a name into a tool, or into nothing.
    let tool = snapshot.catalog.resolve(&declared.name);
    asking.resolved(tool, &declared, &snapshot.catalog, &caller.agent);
    if let Some(unreached) = unreached(gateway, caller, &snapshot, &declared, tool).await {
        return unreached;
    }
    // 4 decide: all of that into a permit, a question or a refusal.
    let looked_up = async {
        let said = Said::of(gateway, caller, &mut declared, &mut passage).await?;
        let seen = look_up(gateway, caller, &declared, &said, tool).await?;
        Ok((said, seen))
    };
    let (said, seen) = match looked_up.await {
        Ok(found) => found,
        Err(error) => return unrecorded(&error),
    };
    let moment = Moment { clock: clock(&snapshot), limits: &gateway.limits, seen };
    let size = declared.arguments.as_str().len();
    let decision = heavy(size, || decide(snapshot.ground(), &caller.agent, declared, tool, moment));
    // 5 ask: a question and a user's answer into a permit, on the newest snapshot. What few calls need is boxed, so that
    // the others do not carry room for it.
    let (permit, snapshot) = match decision {
        Decision::Allow(permit) => (permit, snapshot),
        Decision::Ask(question) => match Box::pin(ask(gateway, caller, &snapshot, question, said, &passage)).await {
            Ok(Answered { permit, snapshot }) => (permit, snapshot),
            Err(Unanswered::Returns(reply)) => return reply,
            Err(Unanswered::Repeats(repeat)) => {
                return Box::pin(repeated(gateway, caller, &snapshot, &repeat, &passage, &asking)).await;
            }
            Err(Unanswered::Store(error)) => return unrecorded(&error),
            Err(Unanswered::Refused(denial)) => return refuse(gateway, caller, &snapshot, &denial, &asking).await,
        },
        Decision::Preview(preview) => return Box::pin(dry_run::preview(gateway, caller, &preview)).await,
        Decision::Repeat(repeat) => {
            return Box::pin(repeated(gateway, caller, &snapshot, &repeat, &passage, &asking)).await;
        }
        Decision::Deny(denial) => return refuse(gateway, caller, &snapshot, &denial, &asking).await,
    };
    let Some(server) = snapshot.servers.get(permit.tool().name.server()) else {
        return Err(RpcError::new(INVALID_PARAMS, "the server was removed"));
    };
    // 6 open: no record, no call. A user's word and the name of a call are spent with the record or not at all.
    let call = Call::of(&snapshot, caller, &permit);
    crash_point("before_open");
    let open = match call.open(gateway, &permit, &passage).await {
        Ok(Ok(open)) => open,
        Ok(Err(Taken::Reply(reply))) => return reply,
        Ok(Err(Taken::Refused(denial))) => return refuse(gateway, caller, &snapshot, &denial, &asking).await,
        Err(error) => return unrecorded(&error),
    };
    crash_point("after_open");
    let record = open.id();
    let mut warnings = permit.warnings().to_vec();
    // 7 forward: the permit, spent, into the server's answer, which is held against the contract.
    let started = Instant::now();
    let judged = Judged::new(&call.tool, forward(server, permit, &passage).await);
    crash_point("after_forward");
    // 8 close: the outcome into a finished record.
    if let Err(error) = call.close(gateway, open, &judged, started.elapsed()).await {
        tracing::error!(%error, tool = %call.tool.name, "could not record how a call ended");
        warnings.push(unfinished());
    }
    crash_point("after_close");
    warnings.extend(judged.warnings(&call.tool));
    answer(&call, judged, record, &warnings)
}

/// What the server said, with our own words, or what to do instead.
fn answer(call: &Call<'_>, judged: Judged, record: RecordId, warnings: &[Warning]) -> Reply {
    match judged.answer(&call.tool) {
        Ok(Ok(Answer::Result { result, failure })) => {
            let failure = failure.map(|failure| (FAILURE_KEY, failure));
            let own: Vec<(&str, String)> = failure.into_iter().chain(call.rehearsal_mark()).collect();
            Ok(with_own_words(&result, record, warnings, &own))
        }
        Ok(Ok(Answer::Withheld { code, message, details })) => Ok(error_result(code, &message, &details, Some(record))),
        Ok(Err(error)) => Err(error.with_record(record)),
        Err(error) => failed(&call.tool.name, &error, Some(record)),
    }
}

/// A tool nobody knows because its server was never reached is not one that does not exist.
async fn unreached(
    gateway: &Inner,
    caller: &Caller,
    snapshot: &Snapshot,
    declared: &Declared,
    tool: Option<&Arc<Tool>>,
) -> Option<Reply> {
    if tool.is_some() || !caller.agent.scope.sees(declared.name.server()) {
        return None;
    }
    let error = snapshot.unreached(declared.name.server())?.unavailable();
    let sensitive = Sensitive::new(snapshot.sensitive(&declared.name), "{}");
    let record = record::of_unavailable(declared, &error, &caller.agent, caller.client.as_deref(), &sensitive);
    let record = record::note(&gateway.ledger, record).await;
    Some(failed(&declared.name, &error, record))
}

impl<'a> Wanted<'a> {
    fn declare(self, snapshot: &Snapshot) -> Result<Declared, Denial> {
        match self {
            Self::Variant { variant, parameters } => declare(variant, parameters, snapshot.settings.intent.two_key),
            Self::Direct { name, arguments, meta } => {
                let variant = snapshot.catalog.resolve(&name).map_or(Variant::Write, |tool| tool.call_with());
                if let Some(extras) = meta.and_then(extras) {
                    let parameters = [("name", quote(&name.to_string())), ("args", arguments.to_owned())];
                    let parameters = parameters.iter().chain(&extras).map(|(key, value)| (*key, value.as_str()));
                    return declare(variant, &message::object(parameters), TwoKey::Optional);
                }
                let intent = Intent { variant, sensitivity: None, reason: None };
                Ok(Declared::plain(name, intent, Arguments::exact(arguments)?))
            }
        }
    }

    /// The server the call is for, as far as its name can be read.
    fn server(&self) -> Option<ServerName> {
        match self {
            Self::Variant { parameters, .. } => {
                let name = member(parameters, "name").and_then(string_value)?;
                ServerName::parse(name.split_once(':')?.0).ok()
            }
            Self::Direct { name, .. } => Some(name.server().clone()),
        }
    }

    fn asking(&self) -> Asking<'a> {
        match self {
            Self::Variant { variant, parameters } => {
                let intent = Intent { variant: *variant, sensitivity: None, reason: None };
                Asking { intent: Some(intent), ..Asking::of(parameters) }
            }
            Self::Direct { name, arguments, .. } => Asking { direct: Some(name.clone()), ..Asking::of(arguments) },
        }
    }
}

/// What the four tools take as parameters, from the `_meta` of a direct call.
fn extras(meta: &str) -> Option<Vec<(&'static str, String)>> {
    let fields = members(meta)?;
    let found = fields.iter().filter_map(|(key, value)| {
        let own = key.strip_prefix(OWN_PREFIX)?;
        let known = ["dry_run", "idempotency_key", "approval_id"].into_iter().find(|known| *known == own)?;
        Some((known, (*value).to_owned()))
    });
    Some(found.collect()).filter(|found: &Vec<_>| !found.is_empty())
}

/// The time, and what policies may ask about it.
pub(crate) fn clock(snapshot: &Snapshot) -> Clock {
    let now = Timestamp::now();
    let now_ms = now.as_millisecond();
    if snapshot.policies.is_empty() {
        return Clock { now_ms, utc_offset_s: 0 };
    }
    static HERE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);
    Clock { now_ms, utc_offset_s: HERE.to_offset(now).seconds() }
}

async fn refuse(gateway: &Inner, caller: &Caller, snapshot: &Snapshot, denial: &Denial, asking: &Asking<'_>) -> Reply {
    let record = record::of_denial(denial, &caller.agent, caller.client.as_deref(), asking, snapshot);
    let record = record::note(&gateway.ledger, record).await;
    if denial.is_malformed() {
        let error = RpcError::new(INVALID_PARAMS, denial.message()).with_data(&denial.details());
        return Err(match record {
            Some(record) => error.with_record(record),
            None => error,
        });
    }
    Ok(error_result(denial.code(), &denial.message(), &denial.details(), record))
}

fn failed(name: &ToolName, error: &UpstreamError, record: Option<RecordId>) -> Reply {
    if matches!(error, UpstreamError::Cancelled) {
        return Err(RpcError::new(message::INTERNAL_ERROR, "the call was cancelled"));
    }
    let unknown = if error.outcome_is_unknown() { "; it may have run the call" } else { "" };
    let message = format!("Tool '{name}' could not be called: {}{unknown}", error.for_agent());
    Ok(error_result(error.code(), &message, &json!({"tool": name.to_string()}), record))
}

/// No record, no call.
fn unrecorded(error: &mcpproxy_store::StoreError) -> Reply {
    // The writer has said so once; an agent that tries again and again must not fill the machine's own log.
    tracing::debug!(%error, "the activity log cannot be written; calls are refused");
    Ok(error_result(
        "audit_unavailable",
        "The activity log cannot be written, so nothing was sent. Try again later.",
        &json!({}),
        None,
    ))
}

/// The call is done and its outcome waits in memory until the log works again.
fn unfinished() -> Warning {
    let message = "The call was made, but its outcome could not be written to the activity log yet.".to_owned();
    Warning { code: "audit_incomplete", message }
}

/// A name that is none of ours: refused before it is a call, and recorded all the same.
pub(crate) async fn refuse_unknown(
    gateway: &Inner,
    caller: &Caller,
    name: &str,
    arguments: &str,
    error: RpcError,
) -> Reply {
    let record = record::of_unknown(name, arguments, &error.message, &caller.agent, caller.client.as_deref());
    let record = record::note(&gateway.ledger, record).await;
    Err(match record {
        Some(record) => error.with_record(record),
        None => error,
    })
}

/// What begins our own keys in a result's `_meta`.
const OWN_PREFIX: &str = "mcpproxy/";

/// A refusal is a result that an agent can read and correct itself by. Its `_meta` tells it from an error of a server.
pub(crate) fn error_result(code: &str, message: &str, details: &Value, record: Option<RecordId>) -> String {
    let mut meta = json!({"mcpproxy/error": code});
    if let (Some(record), Some(meta)) = (record, meta.as_object_mut()) {
        meta.insert(message::RECORD_KEY.to_owned(), record.to_string().into());
    }
    json!({
        "content": [{"type": "text", "text": message}],
        "structuredContent": {"error": {"code": code, "message": message, "details": details}},
        "isError": true,
        "_meta": meta,
    })
    .to_string()
}

/// The server's result with the id of the record, our warnings and other words of ours. What the server put under our own
/// keys is dropped: it does not speak for us. Keys are compared after unescaping, as whoever reads the result will.
pub(crate) fn with_own_words(result: &str, record: RecordId, warnings: &[Warning], own: &[(&str, String)]) -> String {
    let fields = members(result).unwrap_or_default();
    let old = field(&fields, "_meta");
    let meta = old.and_then(members).unwrap_or_default();
    let theirs = meta.iter().filter(|(key, _)| !key.starts_with(OWN_PREFIX)).map(|(key, value)| (key.as_ref(), *value));
    let record = format!("\"{record}\"");
    let warned = record::warnings_json(warnings);
    let warned = (!warnings.is_empty()).then_some(("mcpproxy/warnings", warned.as_str()));
    let own = own.iter().map(|(key, value)| (*key, value.as_str()));
    let meta = message::object(theirs.chain([(message::RECORD_KEY, record.as_str())]).chain(warned).chain(own));
    match result.trim_end().strip_suffix('}') {
        // Nothing else is touched, and nothing is read twice.
        Some(open) if old.is_none() && !fields.is_empty() => format!("{open},\"_meta\":{meta}}}"),
        _ => message::with_members(result, &[("_meta", &meta)]),
    }
}
