//! The JSON of approvals, grants and signing in.

use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, RiskLevel, Untrusted};
use mcpproxy_gateway::{ApprovalDetails, ApprovalView, SaidBy, StatedRisk};
use mcpproxy_store::{ApprovalPage, StoredApproval, StoredDryRun, StoredStandingApproval};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use crate::diff::{self, Audience, Change, MAX_ROWS, WHOLE_ROWS};
use crate::time;

/// A page of approvals, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct Approvals {
    approvals: Vec<Approval>,
    /// The `cursor` of the next page, if there is one.
    next: Option<String>,
}

/// A question to a person, and what became of it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Approval {
    id: String,
    #[schema(schema_with = states)]
    state: &'static str,
    /// Whose token was used.
    agent: String,
    /// The program behind the agent, in its own words.
    client: Option<String>,
    /// `server:tool`.
    tool: String,
    #[schema(schema_with = super::risks_or_null)]
    risk: Option<&'static str>,
    #[schema(schema_with = said_by)]
    risk_said_by: Option<&'static str>,
    /// The `call_tool_*` that was used.
    call_with: &'static str,
    #[schema(schema_with = givens)]
    least: &'static str,
    /// Whether it takes a fresh factor to approve it.
    needs_step_up: bool,
    #[schema(format = DateTime)]
    created: String,
    #[schema(format = DateTime)]
    expires: String,
    #[schema(format = DateTime)]
    decided: Option<String>,
    /// The person, `admin key`, or the agent's client.
    decided_by: Option<String>,
    #[schema(schema_with = givens_or_null)]
    given: Option<&'static str>,
    /// What the agent was told with a no.
    comment: Option<String>,
    /// The record of the call that was made.
    record: Option<String>,
    #[schema(format = DateTime)]
    consumed: Option<String>,
    /// Where a person decides.
    url: String,
}

/// An approval with all that helps to decide.
#[derive(Serialize, ToSchema)]
pub(crate) struct WholeApproval {
    #[serde(flatten)]
    approval: Approval,
    /// What the tool does, by its contract or its server.
    description: Option<String>,
    #[schema(schema_with = said_by)]
    description_said_by: Option<&'static str>,
    side_effects: Vec<String>,
    #[schema(schema_with = said_by)]
    side_effects_said_by: Option<&'static str>,
    audit_event: Option<String>,
    #[schema(schema_with = said_by)]
    audit_event_said_by: Option<&'static str>,
    permissions: Vec<String>,
    #[schema(schema_with = said_by)]
    permissions_said_by: Option<&'static str>,
    /// Which settings or contracts ask for a person.
    asked_by: Vec<String>,
    /// Why, in the agent's words. Nobody has checked them.
    reason: Option<String>,
    sensitivity: Option<String>,
    /// Whether secrets are masked in the arguments and changes. They are not for the person who decides.
    masked: bool,
    /// As the agent sent them.
    #[schema(value_type = Object)]
    arguments: Box<RawValue>,
    /// Of the arguments as they will be sent, whatever the order of their keys.
    arguments_sha256: String,
    /// What goes to the server besides the arguments, masked: `inputResponses` answer questions of the server, `requestState`
    /// is the server's own, `_meta` and others are the agent's. Null if nothing does.
    #[schema(value_type = Option<Object>)]
    attached: Option<Box<RawValue>>,
    /// Of that, without `_meta`, whatever the order of its keys.
    attached_sha256: Option<String>,
    /// The last approval of this tool and agent that was used.
    previous: Option<String>,
    /// Each argument, and how it differs from those of `previous`.
    changes: Vec<ArgumentChange>,
    /// How many more there are.
    changes_left_out: usize,
    /// The last dry run of exactly this call.
    dry_run: Option<DryRun>,
}

#[derive(Serialize, ToSchema)]
struct ArgumentChange {
    /// A JSON pointer without its first slash.
    pointer: String,
    #[schema(schema_with = changes)]
    change: &'static str,
    /// Whether what it was is hidden; that it differs was found with the true values.
    hidden: bool,
    #[schema(value_type = Value)]
    before: Option<Box<RawValue>>,
    #[schema(value_type = Value)]
    after: Option<Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
struct DryRun {
    /// Whether the server made it; otherwise it was worked out from the contract.
    native: bool,
    #[schema(format = DateTime)]
    time: String,
    /// What came of it, masked.
    #[schema(value_type = Value)]
    preview: Box<RawValue>,
}

/// What the agent that asked may know.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApprovalStatus {
    id: String,
    #[schema(schema_with = states)]
    state: &'static str,
    /// `server:tool`.
    tool: String,
    #[schema(format = DateTime)]
    expires: String,
    comment: Option<String>,
    /// The record of the call that was made.
    record: Option<String>,
}

/// An approval that changed, in the stream of events.
#[derive(Serialize)]
pub(crate) struct ApprovalEvent {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) tool: String,
    pub(crate) agent: Option<String>,
    pub(crate) risk: Option<&'static str>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Grants {
    pub(crate) grants: Vec<Grant>,
}

/// A person's word for more than one call.
#[derive(Serialize, ToSchema)]
pub(crate) struct Grant {
    id: String,
    #[schema(schema_with = grant_states)]
    state: &'static str,
    agent: String,
    /// `server:tool`.
    tool: String,
    /// The JSON Schema that arguments must match.
    #[schema(value_type = Value)]
    schema: Box<RawValue>,
    /// Identity made it.
    by: String,
    #[schema(format = DateTime)]
    created: String,
    #[schema(format = DateTime)]
    expires: String,
    uses: u32,
    uses_left: u32,
    #[schema(format = DateTime)]
    revoked: Option<String>,
    revoked_by: Option<String>,
}

/// A yes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approve {
    /// A fresh code, where a fresh factor is asked for.
    pub(crate) totp: Option<String>,
    /// Of the answer to signing in. Without a fresh code it takes this: the cookie alone does not approve.
    pub(crate) page_key: Option<String>,
}

/// A no.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deny {
    /// What to tell the agent.
    pub(crate) comment: Option<String>,
}

/// A grant to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeGrant {
    /// The id of a pending approval: it is approved, and the grant is for its agent and its tool.
    pub(crate) from: String,
    /// A JSON Schema, as it is or as a text.
    #[schema(value_type = Value)]
    schema: Box<RawValue>,
    /// 1 to 15.
    pub(crate) minutes: u32,
    /// 1 to 100.
    pub(crate) uses: u32,
    /// A fresh code.
    pub(crate) totp: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    pub(crate) name: String,
    pub(crate) password: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct LoggedIn {
    name: String,
    /// To be sent as `X-CSRF-Token` with everything that is no GET.
    csrf: String,
    /// To be sent with a yes; unlike the cookie, no browser sends it anywhere by itself.
    page_key: String,
    /// `totp`, `passkey`.
    factors: Vec<&'static str>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Signed {
    /// Always false.
    pub(crate) signed_in: bool,
}

impl LoggedIn {
    pub(crate) fn new(name: &str, csrf: &str, page_key: &str, factors: Vec<&'static str>) -> Self {
        let owned = |text: &str| text.to_owned();
        Self { name: owned(name), csrf: owned(csrf), page_key: owned(page_key), factors }
    }
}

impl MakeGrant {
    pub(crate) fn schema_text(&self) -> String {
        serde_json::from_str(self.schema.get()).unwrap_or_else(|_| self.schema.get().to_owned())
    }
}

impl Approvals {
    pub(crate) fn new(page: ApprovalPage, url: impl Fn(&ApprovalId) -> String, now_ms: i64) -> Self {
        let approvals = page.approvals.iter().map(|approval| Approval::new(approval, url(&approval.id), now_ms));
        Self { approvals: approvals.collect(), next: page.next }
    }
}

impl Approval {
    pub(crate) fn new(approval: &StoredApproval, url: String, now_ms: i64) -> Self {
        let word = |word: &Option<Untrusted>| word.as_ref().map(|word| word.for_json().to_owned());
        Self {
            id: approval.id.to_string(),
            state: state_now(approval, now_ms).as_str(),
            agent: approval.agent.clone(),
            client: word(&approval.client),
            tool: approval.tool.to_string(),
            risk: approval.risk.map(RiskLevel::as_str),
            risk_said_by: StatedRisk::of(approval).said_by.map(SaidBy::as_str),
            call_with: approval.variant.tool(),
            least: approval.least.as_str(),
            needs_step_up: approval.least == Assurance::Factor,
            created: time::format(approval.created_ms),
            expires: time::format(approval.expires_ms),
            decided: approval.decided_ms.map(time::format),
            decided_by: approval.decided_by.clone(),
            given: approval.given.map(Assurance::as_str),
            comment: word(&approval.comment),
            record: approval.record.map(|record| record.to_string()),
            consumed: approval.consumed_ms.map(time::format),
            url,
        }
    }
}

impl WholeApproval {
    pub(crate) fn new(view: &ApprovalView, audience: Audience, now_ms: i64) -> Self {
        let approval = &view.approval;
        let about = ApprovalDetails::of(approval);
        let text = |name: &str| about.text(name).map(str::to_owned);
        let texts = |name: &str| -> Vec<String> { about.texts(name).into_iter().map(str::to_owned).collect() };
        let said_by = |name: &str| about.said_by(name).map(SaidBy::as_str);
        let (arguments, attached, most, masked) = match audience {
            Audience::Observer => (&approval.shown_args, &approval.shown_attached, MAX_ROWS, true),
            Audience::Approver => (&view.args_for_user, &view.attached_for_user, WHOLE_ROWS, approval.args.is_none()),
        };
        let changes = diff::arguments(view, audience, most);
        Self {
            approval: Approval::new(approval, view.url.clone(), now_ms),
            description: text("description"),
            description_said_by: said_by("description"),
            side_effects: texts("side_effects"),
            side_effects_said_by: said_by("side_effects"),
            audit_event: text("audit_event"),
            audit_event_said_by: said_by("audit_event"),
            permissions: texts("permissions"),
            permissions_said_by: said_by("permissions"),
            asked_by: texts("asked_by"),
            reason: text("reason"),
            sensitivity: text("sensitivity"),
            masked,
            arguments: raw(arguments.for_json()),
            arguments_sha256: approval.args_digest.to_string(),
            attached: attached.as_ref().map(|attached| raw(attached.for_json())),
            attached_sha256: attached.as_ref().map(|_| approval.attached_digest.to_string()),
            previous: view.previous.as_ref().map(|previous| previous.id.to_string()),
            changes_left_out: changes.left_out,
            changes: changes.rows.into_iter().map(Into::into).collect(),
            dry_run: view.dry_run.as_ref().map(Into::into),
        }
    }
}

impl From<crate::diff::Row> for ArgumentChange {
    fn from(row: crate::diff::Row) -> Self {
        let hidden = matches!(row.change, Change::Differs(_) | Change::Unknown(_));
        let (change, before, after) = match row.change {
            Change::Unchanged(value) => (CHANGES[0], None, Some(value)),
            Change::Added(value) => (CHANGES[1], None, Some(value)),
            Change::Removed(value) => (CHANGES[2], Some(value), None),
            Change::Changed { before, after } => (CHANGES[3], Some(before), Some(after)),
            Change::Differs(after) => (CHANGES[3], None, Some(after)),
            Change::Unknown(after) => (CHANGES[4], None, Some(after)),
        };
        let raw = |value: Option<String>| value.map(|value| raw(&value));
        Self { pointer: row.pointer, change, hidden, before: raw(before), after: raw(after) }
    }
}

impl From<&StoredDryRun> for DryRun {
    fn from(dry_run: &StoredDryRun) -> Self {
        Self { native: dry_run.is_native, time: time::format(dry_run.at_ms), preview: raw(dry_run.preview.for_json()) }
    }
}

impl ApprovalStatus {
    pub(crate) fn new(approval: &StoredApproval, now_ms: i64) -> Self {
        Self {
            id: approval.id.to_string(),
            state: state_now(approval, now_ms).as_str(),
            tool: approval.tool.to_string(),
            expires: time::format(approval.expires_ms),
            comment: approval.comment.as_ref().map(|comment| comment.for_json().to_owned()),
            record: approval.record.map(|record| record.to_string()),
        }
    }
}

impl Grant {
    pub(crate) fn new(grant: &StoredStandingApproval, now_ms: i64) -> Self {
        let state = match grant.revoked_ms {
            Some(_) => GRANT_STATES[3],
            None if grant.expires_ms <= now_ms => GRANT_STATES[1],
            None if grant.uses_left == 0 => GRANT_STATES[2],
            None => GRANT_STATES[0],
        };
        Self {
            id: grant.id.clone(),
            state,
            agent: grant.agent.clone(),
            tool: grant.tool.to_string(),
            schema: raw(&grant.schema),
            by: grant.by.clone(),
            created: time::format(grant.created_ms),
            expires: time::format(grant.expires_ms),
            uses: grant.uses,
            uses_left: grant.uses_left,
            revoked: grant.revoked_ms.map(time::format),
            revoked_by: grant.revoked_by.clone(),
        }
    }
}

/// What nobody decided in time is expired, also if nobody has written that down yet.
pub(crate) fn state_now(approval: &StoredApproval, now_ms: i64) -> ApprovalState {
    match approval.state {
        ApprovalState::Pending | ApprovalState::Approved if approval.expires_ms <= now_ms => ApprovalState::Expired,
        state => state,
    }
}

/// JSON digit for digit; what is none is a text.
fn raw(text: &str) -> Box<RawValue> {
    let quoted = || serde_json::value::to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned());
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| quoted())
}

const CHANGES: [&str; 5] = ["unchanged", "added", "removed", "changed", "unknown"];
const GRANT_STATES: [&str; 4] = ["active", "expired", "used_up", "revoked"];

fn states() -> Object {
    super::words("How far it has come.", ApprovalState::ALL.map(ApprovalState::as_str))
}

fn givens() -> Object {
    super::words(
        "The weakest answer that counts: in a form, by a person who is signed in, or with a fresh factor.",
        Assurance::ALL.map(Assurance::as_str),
    )
}

fn givens_or_null() -> Object {
    super::words_or_null("How it was approved.", Assurance::ALL.map(Assurance::as_str))
}

fn said_by() -> Object {
    super::words_or_null("Whose words it is. A server's are not verified.", ["operator", "server"])
}

fn changes() -> Object {
    super::words("What became of it.", CHANGES)
}

fn grant_states() -> Object {
    super::words("Whether it still counts.", GRANT_STATES)
}
