//! Tools for the plan of a project: its status, a summary of it, and who comes to its events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mail::check_addresses;
use super::workspace::Note;
use super::{DemoTool, TaskStatus, tool};
use crate::contract::{Contract, Idempotency, Operation, Risk, World};
use crate::failure::{Code, Failure};
use crate::tools::data::Data;

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("generate_summary", SUMMARIZE, |data, of: Summarize, _now| data.summarize(&of.project_id)),
        tool("change_project_status", CHANGE, |data, new: NewStatus, _now| data.change_status(&new)),
        tool("invite_calendar_attendee", INVITE, |data, new: Invite, _now| data.invite(new)),
    ]
}

const SUMMARIZE: Contract = Contract {
    description: "Writes a summary of a project's tasks and adds it to the project's notes.",
    category: "projects",
    risk: Risk::Medium,
    operation: Operation::Write,
    permissions: &["projects:read", "notes:write"],
    side_effects: &["A note with the summary is added to the project.", "Repeating the call adds a second note."],
    audit_event: "project.summarized",
    failures: &[Code::NotFound],
    ..Contract::PLAIN
};

const CHANGE: Contract = Contract {
    description: "Changes the status of a whole project.",
    category: "projects",
    risk: Risk::High,
    operation: Operation::Write,
    permissions: &["projects:read", "projects:write"],
    side_effects: &["The project has the new status for all users.", "Repeating the call changes nothing more."],
    audit_event: "project.status.changed",
    failures: &[Code::NotFound],
    idempotency: Idempotency::Settles,
    ..Contract::PLAIN
};

const INVITE: Contract = Contract {
    description: "Invites one person to a calendar event, inside or outside the company.",
    category: "planning",
    risk: Risk::High,
    operation: Operation::Write,
    world: World::Open,
    permissions: &["calendar:invite"],
    side_effects: &["The person gets an invitation.", "Repeating the call does not invite the person again."],
    audit_event: "calendar.attendee.invited",
    failures: &[Code::NotFound, Code::InvalidRecipient],
    idempotency: Idempotency::Settles,
    sensitive: &["/email"],
    ..Contract::PLAIN
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProjectStatus {
    #[default]
    Active,
    OnHold,
    Completed,
}

impl ProjectStatus {
    pub(crate) fn is_active(&self) -> bool {
        *self == Self::Active
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CalendarEvent {
    id: String,
    title: String,
    attendees: Vec<String>,
}

impl CalendarEvent {
    pub(crate) fn new(id: &str, title: &str) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), attendees: Vec::new() }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Summarize {
    /// The project to summarize, such as `p_website`.
    project_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewStatus {
    /// The project to change, such as `p_website`.
    project_id: String,
    /// The new status.
    status: ProjectStatus,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangedStatus {
    /// The project.
    project_id: String,
    /// Its status now.
    status: ProjectStatus,
    /// Its status before.
    previous: ProjectStatus,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Invite {
    /// The event, such as `ev_kickoff`.
    event_id: String,
    /// The address of the person to invite.
    email: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Invited {
    /// The event.
    event_id: String,
    /// The event's title.
    title: String,
    /// Everyone who is invited.
    attendees: Vec<String>,
}

impl Data {
    fn summarize(&mut self, project_id: &str) -> Result<Note, Failure> {
        let project = self.find_project(project_id).ok_or_else(|| Failure::not_found("project", project_id))?;
        let done = project.tasks.iter().filter(|task| task.status == TaskStatus::Done).count();
        let body = format!("{done} of {} tasks are done.", project.tasks.len());
        let title = format!("Summary of {}", project.name);
        let note = Note { id: self.next_id("note"), title, body };
        for project in self.projects.iter_mut().filter(|project| project.id == project_id) {
            project.notes.push(note.clone());
        }
        Ok(note)
    }

    fn change_status(&mut self, new: &NewStatus) -> Result<ChangedStatus, Failure> {
        let project = self.projects.iter_mut().find(|project| project.id == new.project_id);
        let project = project.ok_or_else(|| Failure::not_found("project", &new.project_id))?;
        let previous = std::mem::replace(&mut project.status, new.status);
        Ok(ChangedStatus { project_id: project.id.clone(), status: new.status, previous })
    }

    fn invite(&mut self, new: Invite) -> Result<Invited, Failure> {
        check_addresses(std::slice::from_ref(&new.email))?;
        let event = self.calendar.iter_mut().find(|event| event.id == new.event_id);
        let event = event.ok_or_else(|| Failure::not_found("event", &new.event_id))?;
        if !event.attendees.contains(&new.email) {
            event.attendees.push(new.email);
        }
        let CalendarEvent { id, title, attendees } = event.clone();
        Ok(Invited { event_id: id, title, attendees })
    }
}
