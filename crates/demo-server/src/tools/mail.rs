//! Tools for mail: drafts, and messages to external recipients.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DemoTool, tool};
use crate::contract::{Contract, Idempotency, Operation, RateLimit, Risk, StepUp, World};
use crate::failure::{Code, Failure};
use crate::tools::data::{Data, is_address, is_at};

const ATTACHMENT_MAX_BYTES: u64 = 10_000_000;

/// A message to more recipients than this is scheduled instead of sent at once.
const SENT_AT_ONCE_MAX: usize = 10;

const MAILS_PER_MINUTE_MAX: usize = 30;

/// Domain whose recipients have unsubscribed.
const UNSUBSCRIBED_DOMAIN: &str = "unsubscribed.example";

/// Domain whose mail bounces.
const UNDELIVERABLE_DOMAIN: &str = "bounced.example";

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("create_draft", CREATE_DRAFT, |data, new: NewDraft, _now| data.create_draft(new)),
        tool("emails.send_external", SEND_EXTERNAL, |data, new: NewEmail, now| data.send_external(new, now)),
    ]
}

const CREATE_DRAFT: Contract = Contract {
    description: "Creates a draft of an email, which a user can review and send.",
    category: "communication",
    risk: Risk::Medium,
    operation: Operation::Write,
    permissions: &["drafts:write"],
    side_effects: &["A draft is stored. Nothing is sent.", "Repeating the call stores a second draft."],
    audit_event: "email.draft.created",
    failures: &[Code::InvalidRecipient],
    sensitive: &["/body", "/to"],
    ..Contract::PLAIN
};

const SEND_EXTERNAL: Contract = Contract {
    description: "Sends an external email to one or more recipients.",
    category: "communication",
    risk: Risk::Critical,
    operation: Operation::Destructive,
    world: World::Open,
    step_up: StepUp::When(many_recipients_or_attachments),
    permissions: &["emails:send", "contacts:read", "files:read"],
    side_effects: &[
        "External communication is sent.",
        "Email becomes part of the communication history.",
        "Audit event is created.",
        "Repeating the call sends a second email, unless it carries the same idempotency key within 24 hours.",
    ],
    audit_event: "email.external.sent",
    failures: &[
        Code::InvalidRecipient,
        Code::AttachmentTooLarge,
        Code::RateLimitExceeded,
        Code::PolicyViolation,
        Code::NotFound,
    ],
    idempotency: Idempotency::Key("24h"),
    rate_limit: Some(RateLimit { calls: MAILS_PER_MINUTE_MAX, per: "1m" }),
    sensitive: &["/body", "/to"],
    ..Contract::PLAIN
};

fn many_recipients_or_attachments() -> Value {
    json!({ "anyOf": [{ "properties": { "to": { "minItems": 11 } } }, { "required": ["attachments"] }] })
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Draft {
    /// The draft's id.
    pub(crate) draft_id: String,
    /// Recipients. May be empty.
    pub(crate) to: Vec<String>,
    /// The draft's subject.
    pub(crate) subject: String,
    /// The draft itself.
    pub(crate) body: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Email {
    pub(crate) email_id: String,
    pub(crate) to: Vec<String>,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) attachments: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project_id: Option<String>,
    pub(crate) status: EmailStatus,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EmailStatus {
    Sent,
    Scheduled,
    Failed,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewDraft {
    /// E-mail addresses. May be empty.
    #[serde(default)]
    to: Vec<String>,
    /// The draft's subject.
    subject: String,
    /// The draft itself.
    body: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewEmail {
    /// One or more e-mail addresses.
    #[schemars(length(min = 1))]
    to: Vec<String>,
    /// The message's subject.
    subject: String,
    /// The message itself.
    body: String,
    /// Ids of files to attach.
    #[serde(default)]
    attachments: Vec<String>,
    /// The project it is about, such as `p_website`.
    #[serde(default)]
    project_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SentEmail {
    /// The message's id in the communication history.
    email_id: String,
    /// `scheduled` for more than ten recipients, `failed` when no recipient can be reached.
    status: EmailStatus,
}

impl Data {
    fn create_draft(&mut self, new: NewDraft) -> Result<Draft, Failure> {
        check_addresses(&new.to)?;
        let draft = Draft { draft_id: self.next_id("draft"), to: new.to, subject: new.subject, body: new.body };
        self.drafts.push(draft.clone());
        Ok(draft)
    }

    fn send_external(&mut self, new: NewEmail, now: Timestamp) -> Result<SentEmail, Failure> {
        if new.to.is_empty() {
            return Err(Failure::new(Code::InvalidRecipient, "`to` needs at least one address"));
        }
        check_addresses(&new.to)?;
        if let Some(unsubscribed) = new.to.iter().find(|address| is_at(address, UNSUBSCRIBED_DOMAIN)) {
            return Err(Failure::new(Code::PolicyViolation, format!("`{unsubscribed}` has asked for no mail")));
        }
        for attachment in &new.attachments {
            self.check_attachment(attachment)?;
        }
        if let Some(project) = &new.project_id {
            self.check_project(project)?;
        }
        self.count_mail(now)?;
        let status = if new.to.iter().all(|address| is_at(address, UNDELIVERABLE_DOMAIN)) {
            EmailStatus::Failed
        } else if new.to.len() > SENT_AT_ONCE_MAX {
            EmailStatus::Scheduled
        } else {
            EmailStatus::Sent
        };
        let email_id = self.next_id("mail");
        self.sent.push(Email {
            email_id: email_id.clone(),
            to: new.to,
            subject: new.subject,
            body: new.body,
            attachments: new.attachments,
            project_id: new.project_id,
            status,
        });
        Ok(SentEmail { email_id, status })
    }

    fn check_attachment(&self, id: &str) -> Result<(), Failure> {
        let file = self.find_file(id)?;
        file.check_may_leave()?;
        if file.bytes > ATTACHMENT_MAX_BYTES {
            let message = format!("`{id}` has {} bytes, the limit is {ATTACHMENT_MAX_BYTES}", file.bytes);
            return Err(Failure::new(Code::AttachmentTooLarge, message));
        }
        Ok(())
    }

    /// Counts one more mail, or refuses it because of the rate limit.
    fn count_mail(&mut self, now: Timestamp) -> Result<(), Failure> {
        self.sent_at.retain(|sent| now.duration_since(*sent) < SignedDuration::from_secs(60));
        if self.sent_at.len() >= MAILS_PER_MINUTE_MAX {
            let message = format!("{MAILS_PER_MINUTE_MAX} mails were sent in the last minute; wait before the next");
            return Err(Failure::new(Code::RateLimitExceeded, message));
        }
        self.sent_at.push(now);
        Ok(())
    }
}

pub(super) fn check_addresses(addresses: &[String]) -> Result<(), Failure> {
    match addresses.iter().find(|address| !is_address(address)) {
        Some(wrong) => Err(Failure::new(Code::InvalidRecipient, format!("`{wrong}` is not an e-mail address"))),
        None => Ok(()),
    }
}
