//! The in-memory workspace behind the demo tools, and the rules for changing it.

use jiff::Timestamp;

use crate::wire::{
    Article, Contact, Contacts, CurrentUser, DeleteUser, DeletedUser, Email, EmailStatus, NewEmail, NewNote,
    NewReminder, NewTaskStatus, Note, Project, Projects, ReadArticle, Reminder, SearchContacts, SentEmail, Task,
    TaskStatus, User,
};

const CURRENT_USER: &str = "u_anna";
const CONTACTS_DEFAULT_LIMIT: usize = 10;
const CONTACTS_MAX_LIMIT: usize = 50;
const TITLE_MAX_CHARS: usize = 200;
const REMINDER_MAX_CHARS: usize = 500;
const ATTACHMENT_MAX_BYTES: u64 = 10_000_000;

/// Everything the demo server knows; each server process has its own.
pub(crate) struct Data {
    pub(crate) users: Vec<User>,
    pub(crate) contacts: Vec<Contact>,
    pub(crate) projects: Vec<Project>,
    pub(crate) reminders: Vec<Reminder>,
    pub(crate) articles: Vec<Article>,
    pub(crate) sent: Vec<Email>,
    files: Vec<(String, u64)>,
    last_id: u64,
}

/// A tool's refusal, with a code an agent can act on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn not_found(kind: &str, id: &str) -> Self {
        Self::new("not_found", format!("there is no {kind} `{id}`"))
    }
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
            projects: vec![
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
            ],
            reminders: Vec::new(),
            articles: vec![
                article("getting-started", "Getting started", "List the projects, then read the tasks of one."),
                article("sending-mail", "Sending mail", "External mail leaves the company and cannot be recalled."),
            ],
            sent: Vec::new(),
            files: vec![("f_report".to_owned(), 240_000), ("f_recording".to_owned(), 64_000_000)],
            last_id: 0,
        }
    }

    pub(crate) fn list_projects(&self) -> Projects {
        Projects { projects: self.projects.clone() }
    }

    pub(crate) fn current_user(&self) -> Result<CurrentUser, Failure> {
        let user = self.users.iter().find(|user| user.id == CURRENT_USER);
        let user = user.cloned().ok_or_else(|| Failure::not_found("user", CURRENT_USER))?;
        Ok(CurrentUser { user, reminders: self.reminders.clone() })
    }

    pub(crate) fn search_contacts(&self, search: &SearchContacts) -> Result<Contacts, Failure> {
        let query = search.query.trim().to_lowercase();
        if query.is_empty() {
            return Err(Failure::new("invalid_query", "`query` must not be empty"));
        }
        let limit = search.limit.unwrap_or(CONTACTS_DEFAULT_LIMIT);
        if !(1..=CONTACTS_MAX_LIMIT).contains(&limit) {
            return Err(Failure::new("invalid_limit", format!("`limit` must be 1 to {CONTACTS_MAX_LIMIT}")));
        }
        let matches = |contact: &&Contact| {
            [&contact.name, &contact.email, &contact.company].iter().any(|text| text.to_lowercase().contains(&query))
        };
        let found: Vec<&Contact> = self.contacts.iter().filter(matches).collect();
        Ok(Contacts { total: found.len(), contacts: found.into_iter().take(limit).cloned().collect() })
    }

    pub(crate) fn help_article(&self, read: &ReadArticle) -> Result<Article, Failure> {
        let article = self.articles.iter().find(|article| article.id == read.article_id);
        article.cloned().ok_or_else(|| Failure::not_found("help article", &read.article_id))
    }

    pub(crate) fn create_reminder(&mut self, new: NewReminder) -> Result<Reminder, Failure> {
        check_length("text", &new.text, REMINDER_MAX_CHARS)?;
        if new.remind_at.parse::<Timestamp>().is_err() {
            let message = format!("`{}` is not a time such as `2026-12-31T09:00:00Z`", new.remind_at);
            return Err(Failure::new("invalid_time", message));
        }
        let reminder = Reminder { id: self.next_id("rem"), text: new.text, remind_at: new.remind_at };
        self.reminders.push(reminder.clone());
        Ok(reminder)
    }

    pub(crate) fn create_note(&mut self, new: NewNote) -> Result<Note, Failure> {
        check_length("title", &new.title, TITLE_MAX_CHARS)?;
        self.check_project(&new.project_id)?;
        let note = Note { id: self.next_id("note"), title: new.title, body: new.body };
        for project in self.projects.iter_mut().filter(|project| project.id == new.project_id) {
            project.notes.push(note.clone());
        }
        Ok(note)
    }

    pub(crate) fn update_task_status(&mut self, new: &NewTaskStatus) -> Result<Task, Failure> {
        let mut tasks = self.projects.iter_mut().flat_map(|project| &mut project.tasks);
        let task = tasks.find(|task| task.id == new.task_id).ok_or_else(|| Failure::not_found("task", &new.task_id))?;
        task.status = new.status;
        Ok(task.clone())
    }

    pub(crate) fn delete_user(&mut self, delete: DeleteUser) -> Result<DeletedUser, Failure> {
        if delete.user_id == CURRENT_USER {
            return Err(Failure::new("policy_violation", "nobody can delete themselves"));
        }
        if !self.users.iter().any(|user| user.id == delete.user_id) {
            return Err(Failure::not_found("user", &delete.user_id));
        }
        self.users.retain(|user| user.id != delete.user_id);
        let mut unassigned_task_ids = Vec::new();
        for task in self.projects.iter_mut().flat_map(|project| &mut project.tasks) {
            if task.assignee_id.as_ref() == Some(&delete.user_id) {
                task.assignee_id = None;
                unassigned_task_ids.push(task.id.clone());
            }
        }
        Ok(DeletedUser { deleted_user_id: delete.user_id, unassigned_task_ids })
    }

    pub(crate) fn send_external(&mut self, new: NewEmail) -> Result<SentEmail, Failure> {
        if new.to.is_empty() {
            return Err(Failure::new("invalid_recipient", "`to` needs at least one address"));
        }
        if let Some(wrong) = new.to.iter().find(|address| !is_address(address)) {
            return Err(Failure::new("invalid_recipient", format!("`{wrong}` is not an e-mail address")));
        }
        for attachment in &new.attachments {
            self.check_attachment(attachment)?;
        }
        if let Some(project) = &new.project_id {
            self.check_project(project)?;
        }
        let email_id = self.next_id("mail");
        self.sent.push(Email {
            email_id: email_id.clone(),
            to: new.to,
            subject: new.subject,
            body: new.body,
            attachments: new.attachments,
            project_id: new.project_id,
        });
        Ok(SentEmail { email_id, status: EmailStatus::Sent })
    }

    pub(crate) fn find_project(&self, id: &str) -> Option<&Project> {
        self.projects.iter().find(|project| project.id == id)
    }

    fn check_project(&self, id: &str) -> Result<(), Failure> {
        self.find_project(id).map(|_project| ()).ok_or_else(|| Failure::not_found("project", id))
    }

    fn check_attachment(&self, id: &str) -> Result<(), Failure> {
        let (_id, bytes) =
            self.files.iter().find(|(file, _bytes)| file == id).ok_or_else(|| Failure::not_found("file", id))?;
        if *bytes > ATTACHMENT_MAX_BYTES {
            let message = format!("`{id}` has {bytes} bytes, the limit is {ATTACHMENT_MAX_BYTES}");
            return Err(Failure::new("attachment_too_large", message));
        }
        Ok(())
    }

    fn next_id(&mut self, prefix: &str) -> String {
        self.last_id += 1;
        format!("{prefix}_{}", self.last_id)
    }
}

fn check_length(field: &str, text: &str, max_chars: usize) -> Result<(), Failure> {
    match text.chars().count() {
        0 => Err(Failure::new("invalid_arguments", format!("`{field}` must not be empty"))),
        count if count > max_chars => Err(Failure::new(
            "invalid_arguments",
            format!("`{field}` has {count} characters, the limit is {max_chars}"),
        )),
        _ => Ok(()),
    }
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let is_plain = |part: &str| !part.is_empty() && !part.contains(|c: char| c == '@' || c.is_whitespace());
    is_plain(local)
        && is_plain(domain)
        && domain.split('.').count() > 1
        && domain.split('.').all(|label| !label.is_empty())
}

fn user(id: &str, name: &str, email: &str) -> User {
    User { id: id.to_owned(), name: name.to_owned(), email: email.to_owned() }
}

fn contact(id: &str, name: &str, email: &str, company: &str) -> Contact {
    Contact { id: id.to_owned(), name: name.to_owned(), email: email.to_owned(), company: company.to_owned() }
}

fn project(id: &str, name: &str, tasks: Vec<Task>) -> Project {
    Project { id: id.to_owned(), name: name.to_owned(), tasks, notes: Vec::new() }
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
