//! `call`: makes one tool call through the running gateway, as an agent would.

mod answer;
mod invocation;
mod progress;
mod refusal;

use std::io::Read as _;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use http::{Method, StatusCode};
use mcpproxy_core::{ApprovalId, ToolName, Variant, json};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::client::events::Events;
use crate::client::jsonrpc::{ENDPOINT, Envelope, REVISION, agent_headers};
use crate::client::{Http, absence, is_event_stream, no_gateway, read_body};
use crate::commands::names;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::lock::Running;
use crate::runtime::EndSignal;
use crate::terminal::output::{self, Format, line};

use self::invocation::Invocation;
use self::progress::Progress;

/// Call a tool through the running gateway
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy call tool-read github:list_repos --args '{\"org\": \"myorg\"}'
  mcpproxy call tool-write github:create_issue --args @issue.json

The subcommand declares the effect of the call. The gateway refuses the call if the tool does more than that.")]
pub(crate) enum CallCommand {
    /// Call a tool that only reads data
    #[command(
        name = "tool-read",
        after_help = "\
Examples:
  mcpproxy call tool-read github:list_repos --args '{\"org\": \"myorg\"}'
  mcpproxy call tool-read github:list_repos --args @arguments.json -o json"
    )]
    Read(Call),
    /// Call a tool that creates or changes data
    #[command(
        name = "tool-write",
        after_help = "\
Examples:
  mcpproxy call tool-write github:create_issue --args '{\"title\": \"Bug\"}' \\
      --reason \"Reported by a user\""
    )]
    Write(Call),
    /// Call a tool that deletes data or cannot be undone
    #[command(
        name = "tool-destructive",
        after_help = "\
Examples:
  mcpproxy call tool-destructive github:delete_repo --args '{\"repo\": \"test\"}' \\
      --sensitivity private --reason \"Requested by its owner\"
  mcpproxy call tool-destructive github:delete_repo --args @repo.json --dry-run

If a user must approve the call first, the exit code is 4 and the output names the next command."
    )]
    Destructive(Call),
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// Tool to call, as `server:tool`
    #[arg(required_unless_present = "tool_name", value_parser = ToolName::parse, add = names::callable_tools())]
    name: Option<ToolName>,
    /// Tool to call, as an option instead of NAME
    #[arg(long, value_name = "NAME", conflicts_with = "name", value_parser = ToolName::parse, add = names::callable_tools())]
    tool_name: Option<ToolName>,
    /// Arguments of the tool: a JSON object, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", alias = "json_args", visible_alias = "json-args", allow_hyphen_values = true)]
    args: Option<String>,
    /// Reason for the call, kept in the activity log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Sensitivity of the data
    #[arg(long, value_enum, value_name = "LEVEL")]
    sensitivity: Option<Sensitivity>,
    /// Check the call and show its effect, without making it
    #[arg(long, conflicts_with_all = ["idempotency_key", "approval_id"])]
    dry_run: bool,
    /// Idempotency key: calls with the same key run once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Id of the approval for exactly this call
    #[arg(long, value_name = "ID", value_parser = approval_id, add = names::approvals())]
    approval_id: Option<ApprovalId>,
}

fn approval_id(text: &str) -> Result<ApprovalId, String> {
    ApprovalId::parse(text).ok_or_else(|| format!("expected a full approval id of {} characters", ApprovalId::CHARS))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sensitivity {
    Public,
    Internal,
    Private,
    Unknown,
}

impl Sensitivity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Private => "private",
            Self::Unknown => "unknown",
        }
    }
}

pub(crate) async fn run(home: &Home, format: Format, command: CallCommand) -> anyhow::Result<Exit> {
    let (variant, call) = match command {
        CallCommand::Read(call) => (Variant::Read, call),
        CallCommand::Write(call) => (Variant::Write, call),
        CallCommand::Destructive(call) => (Variant::Destructive, call),
    };
    let tool = call.name.as_ref().or(call.tool_name.as_ref()).context("the call has no tool name")?;
    let args = call.args.as_deref().map(read_args).transpose()?;
    let request = serde_json::to_string(&Request::new(variant, tool, args.as_deref(), &call))?;
    let Some(envelope) = send(home, tool, request).await? else { return Ok(Exit::Interrupted) };
    match answer::print(format, &envelope, &Invocation::new(home, variant, tool, &call)) {
        Err(error) => Err(explained(home, tool, error, &envelope).await),
        done => done,
    }
}

/// Says to the user why a tool is not there. The answer itself, which an agent gets too, does not say it.
async fn explained(home: &Home, tool: &ToolName, error: anyhow::Error, envelope: &Envelope) -> anyhow::Error {
    let Some(code) = answer::missing(envelope) else { return error };
    match absence::failure(home, tool, Exit::Refused).await {
        Some(failure) => failure.with_code(code.as_str()).into(),
        None => error,
    }
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u32,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'static str,
    arguments: Arguments<'a>,
    #[serde(rename = "_meta")]
    meta: serde_json::Value,
}

#[derive(Serialize)]
struct Arguments<'a> {
    name: String,
    /// The argument text as typed, so that no number is rounded and no key moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
    intent: Intent<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Intent<'a> {
    operation_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_sensitivity: Option<Sensitivity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> Request<'a> {
    const ID: u32 = 1;

    fn new(variant: Variant, tool: &ToolName, args: Option<&'a RawValue>, call: &'a Call) -> Self {
        let intent = Intent {
            operation_type: variant.operation(),
            data_sensitivity: call.sensitivity,
            reason: call.reason.as_deref(),
        };
        let meta = serde_json::json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "mcpproxy-cli", "version": env!("CARGO_PKG_VERSION") },
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": Self::ID,
        });
        let arguments = Arguments {
            name: tool.to_string(),
            args,
            intent,
            dry_run: call.dry_run,
            idempotency_key: call.idempotency_key.as_deref(),
            approval_id: call.approval_id.as_ref().map(ApprovalId::as_str),
        };
        let params = Params { name: variant.tool(), arguments, meta };
        Self { jsonrpc: "2.0", id: Self::ID, method: "tools/call", params }
    }
}

/// Reads `--args` and checks that it is a JSON object. The text stays as typed.
pub(crate) fn read_args(given: &str) -> anyhow::Result<Box<RawValue>> {
    let text = if given == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("could not read the arguments from standard input")?;
        text
    } else if let Some(path) = given.strip_prefix('@') {
        std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Exit::Usage, format!("--args: could not read `{}`: {error}", line(path))))?
    } else {
        given.to_owned()
    };
    json::read(text.as_bytes()).map_err(|error| {
        let line = if error.line > 1 { format!("line {}, ", error.line) } else { String::new() };
        Failure::new(Exit::Usage, format!("--args: invalid JSON at {line}column {}: {}", error.column, error.kind))
            .hint("put single quotes around the JSON: --args '{\"key\": \"value\"}'")
    })?;
    let args: Box<RawValue> = serde_json::from_str(&text).context("--args: invalid JSON")?;
    if !args.get().starts_with('{') {
        return Err(Failure::new(Exit::Usage, "--args: expected a JSON object such as '{\"key\": \"value\"}'").into());
    }
    Ok(args)
}

/// Messages of a server that wait to be shown. If there are more, the next one is read from the connection later.
const MESSAGES_WAITING: usize = 16;

/// Sends the request and waits for the answer. Returns `None` if the user cancels.
async fn send(home: &Home, tool: &ToolName, request: String) -> anyhow::Result<Option<Envelope>> {
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    let mut progress = Progress::new(home, &running, &tool.to_string());
    let mut end = EndSignal::listen()?;
    let (tell, mut told) = mpsc::channel(MESSAGES_WAITING);
    let exchange = exchange(home, &running, request, tell);
    tokio::pin!(exchange);
    loop {
        tokio::select! {
            answer = &mut exchange => return answer.map(Some),
            Some(message) = told.recv() => progress.take(&message),
            () = progress.frame() => progress.show(),
            () = end.next() => {
                output::tell(&progress.interrupted());
                return Ok(None);
            }
        }
    }
}

/// Sends the request and reads the answer, as JSON or as an event stream.
async fn exchange(
    home: &Home,
    running: &Running,
    request: String,
    tell: mpsc::Sender<String>,
) -> anyhow::Result<Envelope> {
    let mut headers = agent_headers(&home.existing_agent_token()?)?;
    headers.extend(Envelope::parse(&request)?.routing_headers(REVISION));
    let response = Http::new(running)?.send(Method::POST, ENDPOINT, headers, Bytes::from(request)).await?;
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        return Err(Failure::new(Exit::Failed, "The gateway does not accept the token in agent.token.")
            .hint("create a token with `mcpproxy token create NAME` and write it into agent.token")
            .into());
    }
    if !is_event_stream(&response) {
        let body = read_body(response).await?;
        let answer = std::str::from_utf8(&body).ok().and_then(|text| Envelope::parse(text).ok());
        return answer
            .filter(Envelope::is_answer)
            .with_context(|| format!("the gateway answered {status} without a result"));
    }
    let mut events = Events::of(response);
    while let Some(data) = events.next().await? {
        // Progress and log messages share the stream with the answer.
        if let Some(answer) = Envelope::parse(&data).ok().filter(Envelope::is_answer) {
            return Ok(answer);
        }
        let _call_was_cancelled = tell.send(data).await;
    }
    anyhow::bail!("the gateway ended the stream before it answered")
}

impl Envelope {
    fn is_answer(&self) -> bool {
        self.method.is_none() && (self.result.is_some() || self.error.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_as_they_were_typed() {
        let check = |given: &str, expected: Result<&str, &str>| {
            let read = read_args(given).map(|args| args.get().to_owned()).map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{given}");
        };
        check(
            "{\"n\": 1.0e2, \"big\": 12345678901234567890123}",
            Ok("{\"n\": 1.0e2, \"big\": 12345678901234567890123}"),
        );
        check(" {\"b\":1,\"a\":2} ", Ok("{\"b\":1,\"a\":2}"));
        check("{bad", Err("--args: invalid JSON at column 2: expected a key in double quotes"));
        check("{\"a\":1,\"a\":2}", Err("--args: invalid JSON at column 11: duplicate key \"a\" at /"));
        check("{} x", Err("--args: invalid JSON at column 4: trailing characters"));
        check("{\n\"a\": }", Err("--args: invalid JSON at line 2, column 6: expected a value"));
        check("[1]", Err("--args: expected a JSON object such as '{\"key\": \"value\"}'"));
        check("", Err("--args: invalid JSON at column 1: the text is empty"));
    }
}
