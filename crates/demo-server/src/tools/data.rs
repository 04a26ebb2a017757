//! The in-memory workspace behind the demo tools. Each server process has its own.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::failure::{Code, Failure};
use crate::tools::{
    Account, Article, CalendarEvent, Campaign, Contact, Document, Draft, Email, File, Link, Payee, Project,
    ProjectStatus, Reminder, Revision, Role, Share, Task, TaskStatus, User,
};

/// The signed-in user. Every call comes from Anna.
pub(crate) const CURRENT_USER: &str = "u_anna";

/// Domain of the company. All other addresses are external.
pub(crate) const OWN_DOMAIN: &str = "acme.example";

const PERMISSIONS: [&str; 28] = [
    "accounts:pay",
    "audit:disable",
    "calendar:invite",
    "contacts:read",
    "contracts:send",
    "customers:write",
    "data:export",
    "database:export",
    "drafts:write",
    "emails:bulk_send",
    "emails:send",
    "files:link",
    "files:read",
    "files:share",
    "keys:read",
    "notes:write",
    "passwords:read",
    "payees:read",
    "permissions:write",
    "profile:read",
    "projects:read",
    "projects:write",
    "reminders:write",
    "segments:read",
    "tasks:write",
    "templates:read",
    "tokens:read",
    "users:delete",
];

/// The data of the demo server.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) users: Vec<User>,
    pub(crate) contacts: Vec<Contact>,
    pub(crate) revisions: Vec<Revision>,
    pub(crate) projects: Vec<Project>,
    pub(crate) reminders: Vec<Reminder>,
    pub(crate) articles: Vec<Article>,
    pub(crate) drafts: Vec<Draft>,
    pub(crate) sent: Vec<Email>,
    /// Times of the last mails, for the rate limit per minute.
    pub(crate) sent_at: Vec<Timestamp>,
    pub(crate) campaigns: Vec<Campaign>,
    pub(crate) files: Vec<File>,
    pub(crate) shares: Vec<Share>,
    pub(crate) links: Vec<Link>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) payees: Vec<Payee>,
    pub(crate) calendar: Vec<CalendarEvent>,
    /// Contracts with others.
    pub(crate) documents: Vec<Document>,
    /// Roles of users that were changed.
    pub(crate) roles: BTreeMap<String, Role>,
    /// Permissions of the signed-in user.
    pub(crate) permissions: Vec<String>,
    /// Number of audit events of each kind.
    pub(crate) events: BTreeMap<&'static str, usize>,
    last_id: u64,
}

impl Data {
    pub(crate) fn sample() -> Self {
        Self {
            users: vec![
                user(CURRENT_USER, "Anna Berg", "anna@acme.example"),
                user("u_max", "Max Lund", "max@acme.example"),
                user("u_ines", "Ines Costa", "ines@acme.example"),
            ],
            contacts: vec![
                contact("c_1", "Priya Nair", "priya@northwind.example", "Northwind"),
                contact("c_2", "Tom Okafor", "tom@northwind.example", "Northwind"),
                contact("c_3", "Lena Fischer", "lena@contoso.example", "Contoso"),
                contact("c_4", "Hiro Tanaka", "hiro@fabrikam.example", "Fabrikam"),
            ],
            revisions: Vec::new(),
            projects: sample_projects(),
            reminders: Vec::new(),
            articles: vec![
                article("getting-started", "Getting started", "List the projects, then read the tasks of one."),
                article("sending-mail", "Sending mail", "External mail leaves the company and cannot be recalled."),
            ],
            drafts: Vec::new(),
            sent: Vec::new(),
            sent_at: Vec::new(),
            campaigns: Vec::new(),
            files: vec![
                File::new("f_report", "quarterly-report.pdf", 240_000),
                File::new("f_recording", "all-hands.mp4", 64_000_000),
                File::new("f_abc123", "price-list.pdf", 88_000),
                File::new("f_salaries", "salaries.xlsx", 12_000).confidential(),
            ],
            shares: Vec::new(),
            links: Vec::new(),
            accounts: vec![Account::new("acc_main", "EUR", 2_500_000), Account::new("acc_petty", "EUR", 5_000)],
            payees: vec![Payee::new("pay_hosting", "Cloudy Hosting"), Payee::new("pay_paper", "Paper & Sons")],
            calendar: vec![CalendarEvent::new("ev_kickoff", "Kick-off of the website relaunch")],
            documents: vec![Document::new("ct_nda", "Non-disclosure agreement")],
            roles: BTreeMap::new(),
            permissions: PERMISSIONS.map(str::to_owned).to_vec(),
            events: BTreeMap::new(),
            last_id: 0,
        }
    }

    pub(crate) fn find_project(&self, id: &str) -> Option<&Project> {
        self.projects.iter().find(|project| project.id == id)
    }

    pub(crate) fn check_project(&self, id: &str) -> Result<(), Failure> {
        self.find_project(id).map(|_project| ()).ok_or_else(|| Failure::not_found("project", id))
    }

    pub(crate) fn find_file(&self, id: &str) -> Result<&File, Failure> {
        self.files.iter().find(|file| file.id == id).ok_or_else(|| Failure::not_found("file", id))
    }

    /// Returns the permissions of `needed` that the signed-in user lacks.
    pub(crate) fn missing_permissions(&self, needed: &[&str]) -> Vec<String> {
        let is_missing = |needed: &&&str| !self.permissions.iter().any(|has| has == **needed);
        needed.iter().filter(is_missing).map(|&needed| needed.to_owned()).collect()
    }

    pub(crate) fn check_permissions(&self, needed: &[&str]) -> Result<(), Failure> {
        match self.missing_permissions(needed) {
            missing if missing.is_empty() => Ok(()),
            missing => Err(Failure::new(Code::PermissionDenied, format!("missing: {}", missing.join(", ")))),
        }
    }

    pub(crate) fn note_event(&mut self, kind: &'static str, count: usize) {
        *self.events.entry(kind).or_default() += count;
    }

    pub(crate) fn next_id(&mut self, prefix: &str) -> String {
        self.last_id += 1;
        format!("{prefix}_{}", self.last_id)
    }
}

pub(crate) fn check_length(field: &str, text: &str, max_chars: usize) -> Result<(), Failure> {
    match text.chars().count() {
        0 => Err(Failure::new(Code::InvalidArguments, format!("`{field}` must not be empty"))),
        count if count > max_chars => Err(Failure::new(
            Code::InvalidArguments,
            format!("`{field}` has {count} characters, the limit is {max_chars}"),
        )),
        _ => Ok(()),
    }
}

pub(crate) fn parse_time(text: &str) -> Result<Timestamp, Failure> {
    text.parse().map_err(|_error| {
        Failure::new(Code::InvalidTime, format!("`{text}` is not a time such as `2026-12-31T09:00:00Z`"))
    })
}

pub(crate) fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let is_plain = |part: &str| !part.is_empty() && !part.contains(|c: char| c == '@' || c.is_whitespace());
    is_plain(local)
        && is_plain(domain)
        && domain.split('.').count() > 1
        && domain.split('.').all(|label| !label.is_empty())
}

/// Returns `true` if an address is in `domain`.
pub(crate) fn is_at(address: &str, domain: &str) -> bool {
    address.split_once('@').is_some_and(|(_local, found)| found.eq_ignore_ascii_case(domain))
}

fn sample_projects() -> Vec<Project> {
    vec![
        project(
            "p_website",
            "Website relaunch",
            vec![
                task("t_1", "Write the landing page", TaskStatus::InProgress, Some(CURRENT_USER)),
                task("t_2", "Choose a typeface", TaskStatus::Done, Some("u_max")),
                task("t_3", "Move the blog", TaskStatus::Open, Some("u_max")),
            ],
        ),
        project("p_audit", "Security audit", vec![task("t_4", "List all tokens", TaskStatus::Open, None)]),
    ]
}

fn user(id: &str, name: &str, email: &str) -> User {
    User { id: id.to_owned(), name: name.to_owned(), email: email.to_owned() }
}

fn contact(id: &str, name: &str, email: &str, company: &str) -> Contact {
    Contact { id: id.to_owned(), name: name.to_owned(), email: email.to_owned(), company: company.to_owned() }
}

fn project(id: &str, name: &str, tasks: Vec<Task>) -> Project {
    Project { id: id.to_owned(), name: name.to_owned(), status: ProjectStatus::Active, tasks, notes: Vec::new() }
}

fn task(id: &str, title: &str, status: TaskStatus, assignee: Option<&str>) -> Task {
    Task { id: id.to_owned(), title: title.to_owned(), status, assignee_id: assignee.map(str::to_owned) }
}

fn article(id: &str, title: &str, body: &str) -> Article {
    Article { id: id.to_owned(), title: title.to_owned(), body: body.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, valid) in [
            ("a@b.example", true),
            ("a.b+c@mail.b.example", true),
            ("a@b", false),
            ("@b.example", false),
            ("a@", false),
            ("a@b..example", false),
            ("a b@c.example", false),
            ("a@b@c.example", false),
            ("nobody", false),
        ] {
            assert_eq!(is_address(text), valid, "{text}");
        }
    }
}
