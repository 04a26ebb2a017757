//! Dry runs: previews made from the contract, and proof that one was made.

use mcpproxy_core::decision::Preview;
use mcpproxy_core::json::quote;
use mcpproxy_core::{Declared, Tool};
use mcpproxy_store::{Conditional, NewDryRun, NewRecord, Step};

use crate::agents::{ConnectedAgent, RunResult};
use crate::answer::error_result;
use crate::message::{self, RECORD_KEY, Reply};
use crate::record::{self, now_ms};
use crate::sensitive::Sensitive;
use crate::state::SharedState;
use crate::views::contract::needs;

/// Key in `_meta` for the maker of the dry run, and the requirements of a real call.
const DRY_RUN_KEY: &str = "mcpproxy/dry_run";

/// Answers a dry run from the contract. Nothing is sent.
pub(super) async fn preview(state: &SharedState, agent: &ConnectedAgent, preview: &Preview) -> Reply {
    let (tool, intent) = (preview.tool(), preview.intent());
    let text = preview.to_json(agent.endpoint_mode.parameters());
    // An agent without the permissions learns what it lacks. That preview does not count as a dry run.
    let keeps = match preview.missing_permissions() {
        [] => {
            let declared = Declared::plain(tool.name.clone(), intent.clone(), preview.arguments().clone());
            let declared = Declared { attached: preview.attached().clone(), ..declared };
            keep_step(agent, tool, &declared, MadeBy::Contract(&text)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let record = record::of_tool(tool, intent, agent);
    let sensitive = Sensitive::of(tool, preview.arguments().as_str());
    let record = NewRecord {
        code: Some("dry_run".to_owned()),
        metadata: message::with_members(&record.metadata, &[(record::DRY_RUN, "\"preview\"")]),
        args: Some(sensitive.arguments(preview.arguments().as_str())),
        ..record
    };
    let noted = state.ledger.append_if(record, keeps).await;
    let id = match noted {
        Ok(Conditional::Written(id)) => id,
        // The step cannot lose. A dry run that is not stored does not count, so it fails.
        Ok(Conditional::Conflict { .. }) | Err(_) => {
            return Ok(error_result(
                "audit_unavailable",
                "The activity log cannot be written, so the dry run was not made. Try again later.",
                &serde_json::json!({}),
                None,
            ));
        }
    };
    if let Some(user) = &agent.user {
        user.ended(RunResult::Preview(sensitive.preview(&text)));
    }
    Ok(format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{text},\"isError\":false,\
         \"_meta\":{{{}:\"{id}\",{}:{{\"by\":\"contract\"}}}}}}",
        quote(&text),
        quote(RECORD_KEY),
        quote(DRY_RUN_KEY)
    ))
}

/// The maker of a dry run, with its result.
pub(super) enum MadeBy<'a> {
    Server(&'a str),
    Contract(&'a str),
}

/// Builds the step that stores a dry run, under the binding of the real call. A dry run of a user is not stored: the agent
/// has not seen it, so it proves nothing for the agent's call.
pub(super) fn keep_step(agent: &ConnectedAgent, tool: &Tool, declared: &Declared, made_by: MadeBy<'_>) -> Option<Step> {
    if agent.user.is_some() {
        return None;
    }
    let sensitive = Sensitive::of(tool, declared.arguments.as_str());
    let (shown, is_native) = match made_by {
        MadeBy::Server(result) => (sensitive.result(result), true),
        MadeBy::Contract(preview) => (sensitive.preview(preview), false),
    };
    Some(Step::SaveDryRun(Box::new(NewDryRun {
        binding: declared.dry_run_binding(&agent.identity, tool).digest(),
        agent: agent.identity.name.clone(),
        tool: tool.name.to_string(),
        preview: shown.text().to_owned(),
        is_native,
        at_ms: now_ms(),
    })))
}

/// Builds the `_meta` entry for a dry run that the server made.
pub(super) fn mark(tool: &Tool) -> (&'static str, String) {
    (DRY_RUN_KEY, format!("{{\"by\":\"server\",\"needs\":{}}}", needs(tool)))
}
