//! The life of a tool call: eight stops, one function. There is no other way to a server's tool.

use std::time::Instant;

use mcpproxy_core::json::{members, string_value};
use mcpproxy_core::settings::Durability;
use mcpproxy_core::{
    Arguments, Decision, Declared, Denial, Intent, Permit, ServerName, ToolName, Variant, Warning, decide, declare,
};
use mcpproxy_store::Wait;
use serde_json::{Value, json};

use crate::downstream::Caller;
use crate::gateway::Inner;
use crate::message::{self, INVALID_PARAMS, RpcError, member};
use crate::record::{self, Asked};
use crate::snapshot::Snapshot;
use crate::upstream::{Passage, Reply, UpstreamError, forward};

/// A call as it was received, which is the first stop: through one of the three variants, or directly by a tool's own name.
pub(crate) struct CallRequest<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) passage: Passage<'a>,
}

pub(crate) enum Wanted<'a> {
    /// The parameters of a `call_tool_*`, which have passed the strict reader.
    Variant { variant: Variant, parameters: &'a str },
    /// In direct mode the tool itself says which variant it calls for.
    Direct { name: ToolName, arguments: &'a str },
}

pub(crate) async fn run(gateway: &Inner, caller: &Caller, request: CallRequest<'_>) -> Reply {
    let CallRequest { wanted, passage } = request;
    let snapshot = gateway.snapshot_for(wanted.server().as_ref()).await;
    let mut asking = wanted.asking();

    // 2 declare: the variant and its parameters into an intent.
    let declared = match wanted.declare(&snapshot) {
        Ok(declared) => declared,
        Err(denial) => return refuse(gateway, caller, &denial, &asking).await,
    };
    // 3 resolve: a name into a tool, or into nothing.
    let tool = snapshot.catalog.resolve(&declared.name);
    if asking.direct.is_none() || tool.is_some() {
        asking.intent = Some(declared.intent.clone());
    }
    if tool.is_none()
        && caller.agent.scope.sees(declared.name.server())
        && let Some(server) = snapshot.unreached(declared.name.server())
    {
        let error = server.unavailable();
        let record = record::of_unavailable(&declared, &error, &caller.agent, caller.client.as_deref());
        record::note(&gateway.ledger, record).await;
        return failed(&declared.name, &error);
    }
    // 4 decide: all of that into a permit or a refusal.
    let rules = &snapshot.settings.intent;
    let permit = match decide(rules, &caller.agent, declared, tool, &snapshot.catalog) {
        Decision::Allow(permit) => permit,
        Decision::Deny(denial) => return refuse(gateway, caller, &denial, &asking).await,
    };

    let Some(server) = snapshot.servers.get(permit.tool().name.server()) else {
        return Err(RpcError::new(INVALID_PARAMS, "the server was removed"));
    };
    // 5 open: no record, no call.
    let wait = durability(&snapshot, &permit);
    let open =
        match gateway.ledger.open(record::of_permit(&permit, &caller.agent, caller.client.as_deref()), wait).await {
            Ok(open) => open,
            Err(error) => return unrecorded(&error),
        };
    let name = permit.tool().name.clone();
    let warnings = permit.warnings().to_vec();
    // 6 forward: the permit, spent, into the server's answer.
    let started = Instant::now();
    let answer = forward(server, permit, &passage).await;
    // 7 close: the outcome into a finished record.
    let outcome = record::outcome(&answer, started.elapsed());
    if let Err(error) = gateway.ledger.close(open, outcome, wait).await {
        tracing::error!(%error, tool = %name, "could not record how a call ended");
    }
    // 8 answer: what the server said, with our warnings, or what to do instead.
    match answer {
        Ok(reply) => reply.map(|result| with_own_words(result, &warnings)),
        Err(error) => failed(&name, &error),
    }
}

impl<'a> Wanted<'a> {
    fn declare(self, snapshot: &Snapshot) -> Result<Declared, Denial> {
        match self {
            Self::Variant { variant, parameters } => declare(variant, parameters, snapshot.settings.intent.two_key),
            Self::Direct { name, arguments } => {
                let variant = snapshot.catalog.resolve(&name).map_or(Variant::Write, |tool| tool.call_with());
                let intent = Intent { variant, sensitivity: None, reason: None };
                Ok(Declared { name, intent, arguments: Arguments::exact(arguments)? })
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
                Asking { intent: Some(intent), direct: None, arguments: parameters }
            }
            Self::Direct { name, arguments } => Asking { intent: None, direct: Some(name.clone()), arguments },
        }
    }
}

/// What the agent asked for, for the record of a refusal.
struct Asking<'a> {
    /// As far as it was understood.
    intent: Option<Intent>,
    /// In direct mode the tool is named beside the arguments, not in them.
    direct: Option<ToolName>,
    arguments: &'a str,
}

/// Writes and destructive calls are on disk before they are sent; reads need not be.
fn durability(snapshot: &Snapshot, permit: &Permit) -> Wait {
    match (snapshot.settings.activity.durability, permit.intent().variant) {
        (Durability::Writes, Variant::Read) => Wait::Batched,
        (Durability::Writes, Variant::Write | Variant::Destructive) | (Durability::All, _) => Wait::Durable,
    }
}

async fn refuse(gateway: &Inner, caller: &Caller, denial: &Denial, asking: &Asking<'_>) -> Reply {
    let name = match &asking.direct {
        Some(name) => Some(name.to_string().into()),
        None => member(asking.arguments, "name").and_then(string_value),
    };
    let asked = Asked { name: name.as_deref(), arguments: Some(asking.arguments) };
    let client = caller.client.as_deref();
    record::note(&gateway.ledger, record::of_denial(denial, &caller.agent, client, asking.intent.as_ref(), asked))
        .await;
    if denial.is_malformed() {
        return Err(RpcError::new(INVALID_PARAMS, denial.message()).with_data(&denial.details()));
    }
    Ok(error_result(denial.code(), &denial.message(), &denial.details()))
}

fn failed(name: &ToolName, error: &UpstreamError) -> Reply {
    if matches!(error, UpstreamError::Cancelled) {
        return Err(RpcError::new(message::INTERNAL_ERROR, "the call was cancelled"));
    }
    let unknown = if error.outcome_is_unknown() { "; it may have run the call" } else { "" };
    let message = format!("Tool '{name}' could not be called: {}{unknown}", error.for_agent());
    Ok(error_result(error.code(), &message, &json!({"tool": name.to_string()})))
}

/// No record, no call.
fn unrecorded(error: &mcpproxy_store::StoreError) -> Reply {
    tracing::error!(%error, "the activity log cannot be written; calls are refused");
    Ok(error_result(
        "audit_unavailable",
        "The activity log cannot be written, so nothing was sent. Try again later.",
        &json!({}),
    ))
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
    record::note(&gateway.ledger, record).await;
    Err(error)
}

/// What begins our own keys in a result's `_meta`.
const OWN_PREFIX: &str = "mcpproxy/";

/// A refusal is a result that an agent can read and correct itself by. Its `_meta` tells it from an error of a server.
pub(crate) fn error_result(code: &str, message: &str, details: &Value) -> String {
    json!({
        "content": [{"type": "text", "text": message}],
        "structuredContent": {"error": {"code": code, "message": message, "details": details}},
        "isError": true,
        "_meta": {"mcpproxy/error": code},
    })
    .to_string()
}

/// The server's result with our warnings. What the server put under our own keys is dropped: it does not speak for us.
/// Keys are compared after unescaping, as whoever reads the result will.
fn with_own_words(result: String, warnings: &[Warning]) -> String {
    let meta = member(&result, "_meta").and_then(members).unwrap_or_default();
    let is_theirs = |key: &str| !key.starts_with(OWN_PREFIX);
    if warnings.is_empty() && meta.iter().all(|(key, _)| is_theirs(key)) {
        return result;
    }
    let warned = record::warnings_json(warnings);
    let ours = (!warnings.is_empty()).then_some(("mcpproxy/warnings", warned.as_str()));
    let theirs = meta.iter().filter(|(key, _)| is_theirs(key)).map(|(key, value)| (key.as_ref(), *value));
    let meta = message::object(theirs.chain(ours));
    message::with_members(&result, &[("_meta", &meta)])
}
