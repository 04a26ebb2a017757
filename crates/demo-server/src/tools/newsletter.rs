//! The tool for newsletters, with a dry run that shows the recipients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::preview::{Outcome, Preview, about};
use super::segment::{self, Recipient};
use super::{DemoTool, tool};
use crate::contract::{Contract, DryRun, Idempotency, Operation, Risk, StepUp, World};
use crate::failure::{Code, Failure};
use crate::tools::data::Data;

const SAMPLES: usize = 2;

/// Type of the audit event of each mail, the same as for a single mail.
const MAIL_EVENT: &str = "email.external.sent";

pub(super) fn tools() -> Vec<DemoTool> {
    vec![tool("emails.bulk_send", BULK_SEND, |data, send: BulkSend, _now| {
        let plan = data.plan_campaign(&send)?;
        Ok(if send.dry_run {
            Outcome::Preview(data.preview_campaign(&plan))
        } else {
            Outcome::Done(data.send_campaign(send, &plan))
        })
    })]
}

const BULK_SEND: Contract = Contract {
    description: "Sends a newsletter from a template to every deliverable address of a segment.",
    category: "communication",
    risk: Risk::Critical,
    operation: Operation::Destructive,
    world: World::Open,
    step_up: StepUp::Always,
    permissions: &["emails:bulk_send", "segments:read", "templates:read"],
    side_effects: &[
        "External communication is sent to every deliverable address of the segment.",
        "One audit event of type email.external.sent is created for each email.",
        "Campaign status is set to 'sent'.",
        "Repeating the call answers already_sent. Nobody gets the same campaign twice.",
    ],
    audit_event: "email.campaign.sent",
    failures: &[Code::NotFound, Code::AlreadySent],
    idempotency: Idempotency::Key("24h"),
    dry_run: DryRun::Required,
    ..Contract::PLAIN
};

struct Template {
    id: &'static str,
    subject: &'static str,
    /// The text after the greeting.
    opening: &'static str,
}

const TEMPLATES: [Template; 2] = [
    Template { id: "tmpl_newsletter_q3", subject: "Your Q3 update is here", opening: "in the third quarter we…" },
    Template { id: "tmpl_beta_invite", subject: "Try it before everybody else", opening: "the new version is…" },
];

/// A template that was sent to a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) template_id: String,
    pub(crate) segment_id: String,
    pub(crate) sent: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BulkSend {
    /// The template to send, such as `tmpl_newsletter_q3`.
    template_id: String,
    /// The segment to send to, such as `seg_active_customers`.
    segment_id: String,
    /// Set to true to preview the call without running it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Recipients {
    /// Number of emails to be sent.
    recipient_count: usize,
    /// The first few of them.
    sample_messages: Vec<Message>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Message {
    /// The recipient's address.
    to: String,
    /// The message's subject.
    subject: String,
    /// First words of the message.
    preview_text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SentCampaign {
    /// The campaign's id.
    campaign_id: String,
    /// Always `sent`, because a campaign is sent as a whole.
    status: CampaignStatus,
    /// Number of emails sent.
    sent_count: usize,
    /// Number of undeliverable addresses that were skipped.
    skipped_count: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CampaignStatus {
    Sent,
}

/// The messages of a campaign.
struct Plan {
    template: &'static Template,
    recipients: Vec<Recipient>,
    undeliverable: usize,
}

impl Data {
    fn plan_campaign(&self, send: &BulkSend) -> Result<Plan, Failure> {
        let template = TEMPLATES.iter().find(|template| template.id == send.template_id);
        let template = template.ok_or_else(|| Failure::not_found("template", &send.template_id))?;
        let segment = segment::find(&send.segment_id).ok_or_else(|| Failure::not_found("segment", &send.segment_id))?;
        let is_same = |sent: &Campaign| sent.template_id == template.id && sent.segment_id == segment.id;
        if self.campaigns.iter().any(is_same) {
            let message = format!("`{}` was already sent to `{}`", template.id, segment.id);
            return Err(Failure::new(Code::AlreadySent, message));
        }
        let (recipients, undeliverable): (Vec<_>, Vec<_>) = segment.recipients().partition(|one| one.deliverable);
        Ok(Plan { template, recipients, undeliverable: undeliverable.len() })
    }

    fn preview_campaign(&self, plan: &Plan) -> Preview<Recipients> {
        let count = plan.recipients.len();
        let nameless = plan.recipients.iter().filter(|one| one.first_name.is_none()).count();
        let nameless = about(
            nameless,
            "recipient has no first name, fallback 'Hello' will be used.",
            "recipients have no first name, fallback 'Hello' will be used.",
        );
        let undeliverable = about(
            plan.undeliverable,
            "email address is marked as undeliverable and will be skipped.",
            "email addresses are marked as undeliverable and will be skipped.",
        );
        let effects = [
            format!("{count} external emails will be sent."),
            format!("{count} audit events of type {MAIL_EVENT} will be created."),
            "Campaign status will be set to 'sent'.".to_owned(),
        ];
        let sample_messages = plan.recipients.iter().take(SAMPLES).map(|one| plan.template.message(one)).collect();
        Preview::of(Recipients { recipient_count: count, sample_messages })
            .warnings(nameless.into_iter().chain(undeliverable))
            .missing_permissions(self.missing_permissions(BULK_SEND.permissions))
            .side_effects(effects)
            .duration_ms(duration_ms(count))
    }

    fn send_campaign(&mut self, send: BulkSend, plan: &Plan) -> SentCampaign {
        let sent_count = plan.recipients.len();
        let campaign_id = self.next_id("campaign");
        self.note_event(MAIL_EVENT, sent_count);
        self.campaigns.push(Campaign { template_id: send.template_id, segment_id: send.segment_id, sent: sent_count });
        SentCampaign { campaign_id, status: CampaignStatus::Sent, sent_count, skipped_count: plan.undeliverable }
    }
}

impl Template {
    fn message(&self, to: &Recipient) -> Message {
        let greeting = to.first_name.map_or_else(|| "Hello".to_owned(), |name| format!("Dear {name}"));
        Message {
            to: to.address.clone(),
            subject: self.subject.to_owned(),
            preview_text: format!("{greeting}, {}", self.opening),
        }
    }
}

/// 3.8 ms a mail, rounded up to a tenth of a second.
fn duration_ms(mails: usize) -> u64 {
    u64::try_from(mails).unwrap_or(u64::MAX).saturating_mul(38).div_ceil(1_000).saturating_mul(100)
}
