//! Tools for projects, tasks, notes, reminders and help articles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DemoTool, NoArguments, ProjectStatus, tool};
use crate::contract::{Contract, Idempotency, Operation, Risk};
use crate::failure::{Code, Failure};
use crate::tools::data::{Data, check_length, parse_time};

const TITLE_MAX_CHARS: usize = 200;
const REMINDER_MAX_CHARS: usize = 500;

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("list_projects", LIST_PROJECTS, |data, _none: NoArguments, _now| {
            Ok(Projects { projects: data.projects.clone() })
        }),
        tool("get_help_article", HELP_ARTICLE, |data, read: ReadArticle, _now| data.help_article(&read)),
        tool("create_reminder", CREATE_REMINDER, |data, new: NewReminder, _now| data.create_reminder(new)),
        tool("create_note", CREATE_NOTE, |data, new: NewNote, _now| data.create_note(new)),
        tool("update_task_status", UPDATE_TASK_STATUS, |data, new: NewTaskStatus, _now| data.update_task_status(&new)),
    ]
}

const LIST_PROJECTS: Contract = Contract {
    description: "Lists all projects with their tasks and notes.",
    category: "projects",
    permissions: &["projects:read"],
    audit_event: "project.listed",
    ..Contract::PLAIN
};

const HELP_ARTICLE: Contract = Contract {
    description: "Returns one help article by its id.",
    category: "help",
    audit_event: "help.article.read",
    failures: &[Code::NotFound],
    ..Contract::PLAIN
};

const CREATE_REMINDER: Contract = Contract {
    description: "Creates a reminder for the signed-in user.",
    category: "planning",
    operation: Operation::Write,
    permissions: &["reminders:write"],
    side_effects: &[
        "A reminder is added that only the signed-in user sees.",
        "Repeating the call adds a second reminder.",
    ],
    audit_event: "reminder.created",
    failures: &[Code::InvalidTime],
    ..Contract::PLAIN
};

const CREATE_NOTE: Contract = Contract {
    description: "Adds a note to a project.",
    category: "projects",
    risk: Risk::Medium,
    operation: Operation::Write,
    permissions: &["notes:write"],
    side_effects: &["A note is added to the project.", "Repeating the call adds a second note."],
    audit_event: "note.created",
    failures: &[Code::NotFound],
    ..Contract::PLAIN
};

const UPDATE_TASK_STATUS: Contract = Contract {
    description: "Sets the status of one task.",
    category: "projects",
    risk: Risk::Medium,
    operation: Operation::Write,
    permissions: &["tasks:write"],
    side_effects: &["The task has the new status for all users.", "Repeating the call changes nothing more."],
    audit_event: "task.status.updated",
    failures: &[Code::NotFound],
    idempotency: Idempotency::Settles,
    ..Contract::PLAIN
};

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Project {
    /// Such as `p_website`.
    pub(crate) id: String,
    /// The project's name.
    pub(crate) name: String,
    /// The project's status. Absent while the project is active.
    #[serde(default, skip_serializing_if = "ProjectStatus::is_active")]
    pub(crate) status: ProjectStatus,
    /// The project's tasks.
    pub(crate) tasks: Vec<Task>,
    /// The project's notes, oldest first.
    pub(crate) notes: Vec<Note>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task {
    /// Such as `t_1`.
    pub(crate) id: String,
    /// The task in one line.
    pub(crate) title: String,
    /// The task's status.
    pub(crate) status: TaskStatus,
    /// The user who works on it. Absent if there is no assignee.
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
    /// The new note's id.
    pub(crate) id: String,
    /// The note in one line.
    pub(crate) title: String,
    /// The note itself.
    pub(crate) body: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reminder {
    /// The reminder's id.
    pub(crate) id: String,
    /// Subject of the reminder.
    pub(crate) text: String,
    /// When to remind.
    #[schemars(extend("format" = "date-time"))]
    pub(crate) remind_at: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Article {
    /// Such as `getting-started`.
    pub(crate) id: String,
    /// The article's heading.
    pub(crate) title: String,
    /// The article itself.
    pub(crate) body: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Projects {
    /// All of them.
    projects: Vec<Project>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadArticle {
    /// For example `getting-started`.
    article_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewReminder {
    /// Subject of the reminder.
    #[schemars(length(min = 1, max = 500))]
    text: String,
    /// When to remind, such as `2026-12-31T09:00:00Z`.
    #[schemars(extend("format" = "date-time"))]
    remind_at: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewNote {
    /// The project to add it to, such as `p_website`.
    project_id: String,
    /// The note in one line.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// The note itself.
    #[serde(default)]
    body: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewTaskStatus {
    /// The task to change, such as `t_1`.
    task_id: String,
    /// The new status.
    status: TaskStatus,
}

impl Data {
    fn help_article(&self, read: &ReadArticle) -> Result<Article, Failure> {
        let article = self.articles.iter().find(|article| article.id == read.article_id);
        article.cloned().ok_or_else(|| Failure::not_found("help article", &read.article_id))
    }

    fn create_reminder(&mut self, new: NewReminder) -> Result<Reminder, Failure> {
        check_length("text", &new.text, REMINDER_MAX_CHARS)?;
        parse_time(&new.remind_at)?;
        let reminder = Reminder { id: self.next_id("rem"), text: new.text, remind_at: new.remind_at };
        self.reminders.push(reminder.clone());
        Ok(reminder)
    }

    fn create_note(&mut self, new: NewNote) -> Result<Note, Failure> {
        check_length("title", &new.title, TITLE_MAX_CHARS)?;
        self.check_project(&new.project_id)?;
        let note = Note { id: self.next_id("note"), title: new.title, body: new.body };
        for project in self.projects.iter_mut().filter(|project| project.id == new.project_id) {
            project.notes.push(note.clone());
        }
        Ok(note)
    }

    fn update_task_status(&mut self, new: &NewTaskStatus) -> Result<Task, Failure> {
        let mut tasks = self.projects.iter_mut().flat_map(|project| &mut project.tasks);
        let task = tasks.find(|task| task.id == new.task_id).ok_or_else(|| Failure::not_found("task", &new.task_id))?;
        task.status = new.status;
        Ok(task.clone())
    }
}
