//! The demo tools. Each file has the arguments, the code and the contracts of the tools for one subject.

pub(crate) mod data;
mod export;
mod files;
mod legal;
mod mail;
mod newsletter;
mod payments;
mod people;
mod planning;
mod preview;
mod segment;
mod vault;
mod workspace;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use rmcp::model::{JsonObject, Tool};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::{Contract, DRY_RUN_PARAMETER, DryRun};
use crate::failure::{Code, Failure};
use crate::tools::data::Data;

pub(crate) use files::{File, Link, Share};
pub(crate) use legal::{Document, Role};
pub(crate) use mail::{Draft, Email};
pub(crate) use newsletter::Campaign;
pub(crate) use payments::{Account, Payee};
pub(crate) use people::{Contact, Revision, User};
pub(crate) use planning::{CalendarEvent, ProjectStatus};
pub(crate) use workspace::{Article, Project, Reminder, Task, TaskStatus};

type Run = Box<dyn Fn(&mut Data, JsonObject, Timestamp) -> Result<Value, Failure> + Send + Sync>;

/// One tool: its listing, its contract, and the code behind it.
pub(crate) struct DemoTool {
    pub(crate) tool: Tool,
    pub(crate) contract: Contract,
    pub(crate) run: Run,
}

/// Returns all tools, sorted by risk.
pub(crate) fn all() -> Vec<DemoTool> {
    let mut tools = workspace::tools();
    tools.extend(people::tools());
    tools.extend(mail::tools());
    tools.extend(newsletter::tools());
    tools.extend(files::tools());
    tools.extend(export::tools());
    tools.extend(payments::tools());
    tools.extend(planning::tools());
    tools.extend(legal::tools());
    tools.extend(vault::tools());
    tools.sort_by_key(|demo| demo.contract.risk);
    tools
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

fn tool<A, O>(
    name: &'static str,
    contract: Contract,
    run: impl Fn(&mut Data, A, Timestamp) -> Result<O, Failure> + Send + Sync + 'static,
) -> DemoTool
where
    A: DeserializeOwned + JsonSchema + 'static,
    O: Serialize + JsonSchema + 'static,
{
    let tool = Tool::new(name, contract.description, schema::<A>())
        .with_raw_output_schema(schema::<O>())
        .with_annotations(contract.hints())
        .with_meta(contract.meta());
    let run: Run = Box::new(move |data, arguments, now| {
        let is_preview = is_preview(&contract, &arguments);
        let arguments = serde_json::from_value(Value::Object(arguments))
            .map_err(|error| Failure::new(Code::InvalidArguments, error.to_string()))?;
        // A dry run reports missing permissions in its answer instead of failing.
        if !is_preview {
            data.check_permissions(contract.permissions)?;
        }
        let answer = run(data, arguments, now)?;
        if !is_preview {
            data.note_event(contract.audit_event, 1);
        }
        serde_json::to_value(answer).map_err(|error| Failure::new(Code::InternalError, error.to_string()))
    });
    DemoTool { tool, contract, run }
}

fn is_preview(contract: &Contract, arguments: &JsonObject) -> bool {
    match contract.dry_run {
        DryRun::None => false,
        DryRun::Supported | DryRun::Required => arguments.get(DRY_RUN_PARAMETER) == Some(&Value::Bool(true)),
    }
}

fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = match schemars::schema_for!(T).to_value() {
        Value::Object(schema) => schema,
        // The schema `true` admits everything. As an object, it is empty.
        _ => JsonObject::new(),
    };
    // MCP requires `type` at the root, even if the schema is a choice between objects.
    schema.entry("type").or_insert_with(|| Value::from("object"));
    Arc::new(schema)
}
