//! The table of demo tools: what each says about itself and what it runs.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::data::{Data, Failure};
use crate::wire::{
    Article, Contacts, CurrentUser, DeleteUser, DeletedUser, NewEmail, NewNote, NewReminder, NewTaskStatus,
    NoArguments, Note, Projects, ReadArticle, Reminder, SearchContacts, SentEmail, Task,
};

type Run = Box<dyn Fn(&mut Data, JsonObject) -> Result<Value, Failure> + Send + Sync>;

/// One tool: its listing, and the code behind it.
pub(crate) struct DemoTool {
    pub(crate) tool: Tool,
    pub(crate) run: Run,
}

/// All tools, in the order they are listed.
pub(crate) fn all() -> Vec<DemoTool> {
    let closed = |effect| annotations(effect).open_world(false);
    vec![
        tool::<NoArguments, Projects>(
            ("list_projects", "Lists all projects with their tasks and notes."),
            closed(Effect::Read),
            |data, _none| Ok(data.list_projects()),
        ),
        tool::<NoArguments, CurrentUser>(
            ("get_current_user", "Returns the signed-in user and their reminders."),
            closed(Effect::Read),
            |data, _none| data.current_user(),
        ),
        tool::<SearchContacts, Contacts>(
            ("search_contacts", "Finds contacts by name, e-mail address or company."),
            closed(Effect::Read),
            |data, search| data.search_contacts(&search),
        ),
        tool::<ReadArticle, Article>(
            ("get_help_article", "Returns one help article by its id."),
            closed(Effect::Read),
            |data, read| data.help_article(&read),
        ),
        tool::<NewReminder, Reminder>(
            ("create_reminder", "Creates a reminder for the signed-in user."),
            closed(Effect::Write),
            Data::create_reminder,
        ),
        tool::<NewNote, Note>(("create_note", "Adds a note to a project."), closed(Effect::Write), Data::create_note),
        tool::<NewTaskStatus, Task>(
            ("update_task_status", "Sets the status of one task."),
            closed(Effect::Write).idempotent(true),
            |data, new| data.update_task_status(&new),
        ),
        tool::<DeleteUser, DeletedUser>(
            ("delete_user", "Deletes a user and leaves their tasks without an assignee."),
            closed(Effect::Destructive),
            Data::delete_user,
        ),
        tool::<NewEmail, SentEmail>(
            ("emails.send_external", "Sends an external email to one or more recipients."),
            annotations(Effect::Destructive).open_world(true),
            Data::send_external,
        ),
    ]
}

#[derive(Clone, Copy)]
enum Effect {
    Read,
    Write,
    Destructive,
}

fn annotations(effect: Effect) -> ToolAnnotations {
    let (read_only, destructive) = match effect {
        Effect::Read => (true, false),
        Effect::Write => (false, false),
        Effect::Destructive => (false, true),
    };
    ToolAnnotations::new().read_only(read_only).destructive(destructive)
}

fn tool<A, O>(
    (name, description): (&'static str, &'static str),
    annotations: ToolAnnotations,
    run: impl Fn(&mut Data, A) -> Result<O, Failure> + Send + Sync + 'static,
) -> DemoTool
where
    A: DeserializeOwned + JsonSchema + 'static,
    O: Serialize + JsonSchema + 'static,
{
    let tool =
        Tool::new(name, description, schema::<A>()).with_raw_output_schema(schema::<O>()).with_annotations(annotations);
    let run: Run = Box::new(move |data, arguments| {
        let arguments = serde_json::from_value(Value::Object(arguments))
            .map_err(|error| Failure::new("invalid_arguments", error.to_string()))?;
        let answer = run(data, arguments)?;
        serde_json::to_value(answer).map_err(|error| Failure::new("internal_error", error.to_string()))
    });
    DemoTool { tool, run }
}

fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    match schemars::schema_for!(T).to_value() {
        Value::Object(schema) => Arc::new(schema),
        // A schema that allows anything is the boolean `true`; as an object it is empty.
        _ => Arc::default(),
    }
}
