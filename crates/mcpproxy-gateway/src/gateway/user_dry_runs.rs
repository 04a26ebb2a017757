//! Dry runs that users make in the console, in the name of an agent.
//!
//! A dry run can be a real `tools/call`: if the contract names a parameter for it, the server simulates the call. So it takes
//! the path of every call (`call.rs`), with the identity of the agent. Its token has the permissions, and policies name it.
//! There is no second way to a server.
//!
//! A page is not a client of MCP. The server gets no capabilities, its notifications are dropped, and its requests for
//! input are declined. The run counts against limits of the user and not of the agent. It also has a name of its own on the
//! connection: otherwise a server's message about this run could reach the agent.

use std::sync::Arc;

use mcpproxy_core::json::{self, member, members, string_value};
use mcpproxy_core::{Agent, ErrorCode, ToolName, Untrusted, Variant};
use mcpproxy_store::{Outcome, PresenceProof, RecordId, Status, StoredDryRun};
use tokio_util::sync::CancellationToken;

use super::{ExplainError, Gateway};
use crate::agents::{AgentChannel, ConnectedAgent, EndpointMode, Lifetime, RunResult, UserRun};
use crate::call::{self, CallRequest, Target};
use crate::message::{RECORD_KEY, Reply};
use crate::protocol::Era;
use crate::record::now_ms;
use crate::said_by::SaidBy;
use crate::state::SharedState;
use crate::upstream::Passage;

/// A dry run of a user, as its page shows it.
#[derive(Clone, Debug)]
pub struct DryRunReport {
    /// The record of the dry run, if it could be written.
    pub record: Option<RecordId>,
    pub result: DryRunResult,
}

/// The result of a dry run, with sensitive values masked as in its record.
#[derive(Clone, Debug)]
pub enum DryRunResult {
    /// The effect of a real call, and the source of this statement.
    Made { dry_run: StoredDryRun, said_by: Option<SaidBy> },
    /// The server answered with an error, or not at all.
    Failed { code: Option<Untrusted>, message: Option<Untrusted>, answer: Option<Untrusted> },
    /// The gateway refused the dry run, and nothing was sent. The message is the one that an agent gets.
    Refused { code: Untrusted, message: Untrusted },
}

impl Gateway {
    /// Makes a dry run in the name of an agent, for a user who has proven to be present.
    ///
    /// `parameters` are those of a `call_tool_*`. The dry run is finished and recorded, even if the user does not wait.
    pub async fn dry_run(
        &self,
        present: &PresenceProof,
        agent: &str,
        variant: Variant,
        parameters: &str,
    ) -> Result<DryRunReport, ExplainError> {
        let parameters = json::read(parameters.as_bytes())?.to_owned();
        let identity = Arc::new(self.agent_named(agent).await?);
        let name = member(&parameters, "name").and_then(string_value).and_then(|name| ToolName::parse(&name).ok());
        let tool = name.and_then(|name| self.contract(&name));
        let said_by = tool.and_then(|tool| SaidBy::of(&tool.contract.side_effects.source));
        let run = Arc::new(UserRun::new(present.user().name()));
        let of_user = format!("user:{}", run.name());
        let usage = self.state.usages.of(&of_user);
        let in_use = match usage.begin_request() {
            Ok(in_use) => in_use,
            Err(limit) => return Ok(refused(ErrorCode::AgentLimit.as_str(), &limit.to_string())),
        };
        let reader = Arc::new(Agent { name: of_user, scope: identity.scope.clone() });
        let (state, working) = (Arc::clone(&self.state), self.state.in_progress.begin());
        let agent = connected(identity, Arc::clone(&run));
        // In a task, because dropping the future of a call would leave its record open.
        let work = tokio::spawn(async move {
            let _counted = (in_use, working);
            let capabilities = Arc::clone(&agent.capabilities);
            // Nobody reads the events, so their receiver is dropped.
            let (channel, _) = AgentChannel::new(None, None, capabilities, (reader, usage), None);
            answer(&state, &agent, variant, &parameters, &channel).await
        });
        Ok(match work.await {
            Ok(reply) => report(&run, &reply, said_by),
            Err(error) => {
                tracing::error!(%error, "a dry run of a user ended unexpectedly");
                let message = Some(Untrusted::new("The gateway failed. Its log has the reason."));
                DryRunReport { record: None, result: DryRunResult::Failed { code: None, message, answer: None } }
            }
        })
    }
}

fn connected(identity: Arc<Agent>, run: Arc<UserRun>) -> ConnectedAgent {
    ConnectedAgent {
        identity,
        lifetime: Lifetime::UntilRevoked,
        client: None,
        era: Era::Modern,
        endpoint_mode: EndpointMode::Four,
        capabilities: "{}".into(),
        log_level: None,
        session: None,
        user: Some(run),
    }
}

async fn answer(
    state: &SharedState,
    agent: &ConnectedAgent,
    variant: Variant,
    parameters: &str,
    channel: &AgentChannel,
) -> Reply {
    let target = Target::Variant { variant, parameters, fields: members(parameters), candidates: Vec::new() };
    let cancel = CancellationToken::new();
    let passage = Passage { era: agent.era, meta: None, others: Vec::new(), channel, cancel: &cancel };
    call::answer(state, agent, CallRequest { target, passage }).await
}

fn report(run: &UserRun, reply: &Reply, said_by: Option<SaidBy>) -> DryRunReport {
    let made = |text: &str, is_native: bool| DryRunResult::Made {
        dry_run: StoredDryRun { preview: Untrusted::new(text), is_native, at_ms: now_ms() },
        said_by,
    };
    let result = match run.result() {
        Some(RunResult::Preview(text)) => made(text.text(), false),
        Some(RunResult::Server(Outcome { status: Status::Success, result, .. })) => {
            made(result.as_ref().map_or("{}", |result| result.text()), true)
        }
        Some(RunResult::Server(outcome)) => DryRunResult::Failed {
            code: outcome.code.as_deref().map(Untrusted::new),
            message: outcome.message.as_deref().map(Untrusted::new),
            answer: outcome.result.as_ref().map(|result| Untrusted::new(result.text())),
        },
        None => refusal(reply),
    };
    DryRunReport { record: record_of(reply), result }
}

/// Reads the refusal from the reply: a result with an error for the agent's model, or a JSON-RPC error.
fn refusal(reply: &Reply) -> DryRunResult {
    let word = |text: Option<&str>| text.and_then(string_value).map(std::borrow::Cow::into_owned);
    let (code, message) = match reply {
        Ok(result) => {
            let error = member(result, "structuredContent").and_then(|structure| member(structure, "error"));
            (
                word(error.and_then(|error| member(error, "code"))),
                word(error.and_then(|error| member(error, "message"))),
            )
        }
        Err(error) => {
            let code = error.data.as_deref().and_then(|data| member(data, "code"));
            (word(code), Some(error.message.clone()))
        }
    };
    let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
    DryRunResult::Refused { code: Untrusted::new(code), message: Untrusted::new(message) }
}

fn refused(code: &str, message: &str) -> DryRunReport {
    let result = DryRunResult::Refused { code: Untrusted::new(code), message: Untrusted::new(message) };
    DryRunReport { record: None, result }
}

fn record_of(reply: &Reply) -> Option<RecordId> {
    let own = match reply {
        Ok(result) => member(result, "_meta"),
        Err(error) => error.data.as_deref(),
    };
    own.and_then(|own| member(own, RECORD_KEY)).and_then(string_value).and_then(|id| RecordId::parse(&id))
}
