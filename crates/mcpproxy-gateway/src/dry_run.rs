//! Dry runs: what would happen, and the memory that one was made.

use mcpproxy_core::decision::Preview;
use mcpproxy_core::json::quote;
use mcpproxy_core::{Declared, Tool};
use mcpproxy_store::{NewDryRun, NewRecord, Step};

use crate::call::error_result;
use crate::downstream::Caller;
use crate::gateway::Inner;
use crate::message::{self, RECORD_KEY};
use crate::record::{self, now_ms};
use crate::sensitive::Sensitive;
use crate::upstream::Reply;

/// Under this key an answer says what was tried, and what a real call will need.
pub(crate) const DRY_RUN_KEY: &str = "mcpproxy/dry_run";

/// The answer to a dry run that the gateway makes from the contract. Nothing is sent.
pub(crate) async fn preview(gateway: &Inner, caller: &Caller, preview: &Preview) -> Reply {
    let (tool, intent) = (preview.tool(), preview.intent());
    let json = preview.to_json();
    let text = json.to_string();
    // Whoever lacks a permission has seen what it lacks, and nothing that a real call could rest on.
    let keeps = match preview.missing_permissions() {
        [] => {
            let declared = Declared::plain(tool.name.clone(), intent.clone(), preview.arguments().clone());
            let declared = Declared { attached: preview.attached().clone(), ..declared };
            vec![keep(caller, tool, &declared, Made::Contract(&text))]
        }
        _ => Vec::new(),
    };
    let record = record::of_tool(tool, intent, &caller.agent, caller.client.as_deref());
    let sensitive = Sensitive::of(tool, preview.arguments().as_str());
    let record = NewRecord {
        code: Some("dry_run".to_owned()),
        metadata: message::with_members(&record.metadata, &[("dry_run", "\"preview\"")]),
        args: Some(sensitive.arguments(preview.arguments().as_str())),
        ..record
    };
    let noted = gateway.ledger.note_if(record, keeps).await;
    let id = match noted {
        Ok(Ok(id)) => id,
        // Nothing of this can lose; and a dry run that is not remembered was not made.
        Ok(Err(_)) | Err(_) => {
            return Ok(error_result(
                "audit_unavailable",
                "The activity log cannot be written, so the dry run was not made. Try again later.",
                &serde_json::json!({}),
                None,
            ));
        }
    };
    Ok(format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{text},\"isError\":false,\
         \"_meta\":{{{}:\"{id}\",{}:{{\"by\":\"contract\"}}}}}}",
        quote(&text),
        quote(RECORD_KEY),
        quote(DRY_RUN_KEY)
    ))
}

/// Who made a dry run, and what came of it.
pub(crate) enum Made<'a> {
    Server(&'a str),
    Contract(&'a str),
}

/// The step that remembers a dry run of a call: of the call itself, without the argument that makes it a dry run.
pub(crate) fn keep(caller: &Caller, tool: &Tool, declared: &Declared, made: Made<'_>) -> Step {
    let sensitive = Sensitive::of(tool, declared.arguments.as_str());
    let (shown, is_native) = match made {
        Made::Server(result) => (sensitive.result(result), true),
        Made::Contract(preview) => (sensitive.preview(preview), false),
    };
    Step::KeepDryRun(Box::new(NewDryRun {
        binding: declared.dry_run_binding(&caller.agent, tool).digest(),
        agent: caller.agent.name.clone(),
        tool: tool.name.to_string(),
        preview: shown.text().to_owned(),
        is_native,
        at_ms: now_ms(),
    }))
}

/// What is said beside the server's own dry run: what a real call will need.
pub(crate) fn mark(tool: &Tool) -> (&'static str, String) {
    (DRY_RUN_KEY, format!("{{\"by\":\"server\",\"needs\":{}}}", crate::contracts_for_agents::needs(tool)))
}
