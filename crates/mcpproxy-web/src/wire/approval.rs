//! The JSON of approval requests, standing approvals and signing in.

use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, RiskLevel, Untrusted};
use mcpproxy_gateway::{ApprovalDetails, ApprovalView, SaidBy, ShownStandingApproval, StatedRisk};
use mcpproxy_store::{ApprovalPage, StoredApproval, StoredDryRun};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use crate::diff::{self, Audience, Change, MAX_ROWS, WHOLE_ROWS};
use crate::time;

/// A page of approval requests, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct Approvals {
    approvals: Vec<Approval>,
    /// The `cursor` of the next page, if there is one.
    next: Option<String>,
}

/// An approval request and its outcome.
#[derive(Serialize, ToSchema)]
pub(crate) struct Approval {
    id: String,
    #[schema(schema_with = states)]
    state: &'static str,
    /// The agent whose token was used.
    agent: String,
    /// The name that the client program reported. Not verified.
    client: Option<String>,
    /// `server:tool`.
    tool: String,
    #[schema(schema_with = super::risks_or_null)]
    risk: Option<&'static str>,
    #[schema(schema_with = said_by)]
    risk_said_by: Option<&'static str>,
    /// The `call_tool_*` variant of the call.
    call_with: &'static str,
    #[schema(schema_with = givens)]
    least: &'static str,
    /// True if approving it needs a second factor.
    needs_step_up: bool,
    #[schema(format = DateTime)]
    created: String,
    #[schema(format = DateTime)]
    expires: String,
    #[schema(format = DateTime)]
    decided: Option<String>,
    /// The user, `admin key`, or the agent's client.
    decided_by: Option<String>,
    #[schema(schema_with = givens_or_null)]
    given: Option<&'static str>,
    /// The comment for the agent when the call was denied.
    comment: Option<String>,
    /// The record of the call.
    record: Option<String>,
    #[schema(format = DateTime)]
    consumed: Option<String>,
    /// The page on which a user decides.
    url: String,
}

/// An approval request with the details for a decision.
#[derive(Serialize, ToSchema)]
pub(crate) struct WholeApproval {
    #[serde(flatten)]
    approval: Approval,
    /// The description of the tool, from its contract or its server.
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
    /// The settings or contracts that require the approval.
    asked_by: Vec<String>,
    /// The reason that the agent gave. Not verified.
    reason: Option<String>,
    sensitivity: Option<String>,
    /// True if secrets are masked in the arguments and changes. They are not masked for the approver.
    masked: bool,
    /// The arguments as the agent sent them.
    #[schema(value_type = Object)]
    arguments: Box<RawValue>,
    /// The SHA-256 of the arguments, independent of the order of keys.
    arguments_sha256: String,
    /// Other members of the call, masked. `inputResponses` answer questions of the server, `requestState` comes from the
    /// server, `_meta` and others come from the agent. Null if there are none.
    #[schema(value_type = Option<Object>)]
    attached: Option<Box<RawValue>>,
    /// The SHA-256 of `attached` without `_meta`, independent of the order of keys.
    attached_sha256: Option<String>,
    /// The last used approval for this tool and agent.
    previous: Option<String>,
    /// Each argument, compared with `previous`.
    changes: Vec<ArgumentChange>,
    /// The number of arguments that are not listed.
    changes_left_out: usize,
    /// The last dry run of exactly this call.
    dry_run: Option<DryRun>,
}

#[derive(Serialize, ToSchema)]
struct ArgumentChange {
    /// A JSON pointer without the leading slash.
    pointer: String,
    #[schema(schema_with = changes)]
    change: &'static str,
    /// True if the previous value is hidden. Changes are detected with the real values.
    hidden: bool,
    #[schema(value_type = Value)]
    before: Option<Box<RawValue>>,
    #[schema(value_type = Value)]
    after: Option<Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
struct DryRun {
    /// True if the server ran the dry run. Otherwise, the gateway derived it from the contract.
    native: bool,
    #[schema(format = DateTime)]
    time: String,
    /// The masked result.
    #[schema(value_type = Value)]
    preview: Box<RawValue>,
}

/// The state of an approval request, for the agent that made the call.
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
    /// The record of the call.
    record: Option<String>,
}

/// A changed approval request in the stream of events.
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

/// A standing approval.
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
    /// The user who created it.
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

/// Approves a call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approve {
    /// A fresh code from an authenticator app, if a second factor is required.
    pub(crate) totp: Option<String>,
    /// `page_key` from the answer to signing in. Required without `totp`: a session cookie alone cannot approve a call.
    pub(crate) page_key: Option<String>,
}

/// Denies a call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deny {
    /// A message for the agent.
    pub(crate) comment: Option<String>,
}

/// Creates a standing approval.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeGrant {
    /// The id of a pending approval request. It is approved, and the standing approval covers its agent and tool.
    pub(crate) from: String,
    /// A JSON Schema, as JSON or as a string.
    #[schema(value_type = Value)]
    schema: Box<RawValue>,
    /// 1 to 15.
    pub(crate) minutes: u32,
    /// 1 to 100.
    pub(crate) uses: u32,
    /// A fresh code from an authenticator app.
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
    /// Send it as the `X-CSRF-Token` header with all methods except GET.
    csrf: String,
    /// Send it when you approve a call. Unlike the cookie, browsers never send it on their own.
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
    pub(crate) fn new(grant: &ShownStandingApproval, now_ms: i64) -> Self {
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

/// Returns the current state. A request past its deadline is expired, even if the store does not say so yet.
pub(crate) fn state_now(approval: &StoredApproval, now_ms: i64) -> ApprovalState {
    match approval.state {
        ApprovalState::Pending | ApprovalState::Approved if approval.expires_ms <= now_ms => ApprovalState::Expired,
        state => state,
    }
}

/// Returns JSON exactly as stored. Text that is not JSON becomes a string.
fn raw(text: &str) -> Box<RawValue> {
    let quoted = || serde_json::value::to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned());
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| quoted())
}

const CHANGES: [&str; 5] = ["unchanged", "added", "removed", "changed", "unknown"];
const GRANT_STATES: [&str; 4] = ["active", "expired", "used_up", "revoked"];

fn states() -> Object {
    super::words("The state of the approval request.", ApprovalState::ALL.map(ApprovalState::as_str))
}

fn givens() -> Object {
    super::words(
        "The weakest approval that is accepted: a form in the client, a signed-in user, or a second factor.",
        Assurance::ALL.map(Assurance::as_str),
    )
}

fn givens_or_null() -> Object {
    super::words_or_null("How it was approved.", Assurance::ALL.map(Assurance::as_str))
}

fn said_by() -> Object {
    let description = "The source of the text. Texts of a server are not verified. A `draft` is a contract file of the \
                       operator that is in force, but not reviewed.";
    super::words_or_null(description, SaidBy::ALL.map(SaidBy::as_str))
}

fn changes() -> Object {
    super::words("The kind of change.", CHANGES)
}

fn grant_states() -> Object {
    super::words("The state of the standing approval.", GRANT_STATES)
}
