//! The arguments and answers of the demo tools, as they travel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) email: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contact {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) company: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) tasks: Vec<Task>,
    pub(crate) notes: Vec<Note>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) status: TaskStatus,
    /// The user who works on it; absent when nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignee_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    Open,
    InProgress,
    Done,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Note {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) body: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reminder {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) remind_at: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Article {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) body: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Email {
    pub(crate) email_id: String,
    pub(crate) to: Vec<String>,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) attachments: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchContacts {
    /// Part of a name, an e-mail address or a company; case does not matter.
    pub(crate) query: String,
    /// How many contacts to return at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReadArticle {
    /// For example `getting-started`.
    pub(crate) article_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewReminder {
    #[schemars(length(min = 1, max = 500))]
    pub(crate) text: String,
    /// When to remind, such as `2026-12-31T09:00:00Z`.
    pub(crate) remind_at: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewNote {
    pub(crate) project_id: String,
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) body: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewTaskStatus {
    pub(crate) task_id: String,
    pub(crate) status: TaskStatus,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeleteUser {
    pub(crate) user_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewEmail {
    /// One or more e-mail addresses.
    #[schemars(length(min = 1))]
    pub(crate) to: Vec<String>,
    pub(crate) subject: String,
    pub(crate) body: String,
    /// Ids of files to attach.
    #[serde(default)]
    pub(crate) attachments: Vec<String>,
    #[serde(default)]
    pub(crate) project_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Projects {
    pub(crate) projects: Vec<Project>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CurrentUser {
    pub(crate) user: User,
    pub(crate) reminders: Vec<Reminder>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Contacts {
    pub(crate) contacts: Vec<Contact>,
    /// How many there are, returned or not.
    pub(crate) total: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletedUser {
    pub(crate) deleted_user_id: String,
    /// Tasks that nobody works on now.
    pub(crate) unassigned_task_ids: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentEmail {
    pub(crate) email_id: String,
    pub(crate) status: EmailStatus,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EmailStatus {
    Sent,
}
