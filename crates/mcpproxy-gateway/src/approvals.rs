//! Approval requests as users see them: lists, decisions, standing approvals, notifications.
//!
//! Every decision is one compare-and-set step that the store writes in one transaction with its record, or not at all.

mod bookkeeping;
mod details;
mod failed_dry_run;
mod notices;
mod request_state;
mod shown;
mod standing;
mod state_seal;
mod steps;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use mcpproxy_core::settings::{ApprovalSettings, Notify};
use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, DeniedBy, Untrusted};
use mcpproxy_store::{
    ApprovalFilter, ApprovalPage, Conditional, Ledger, PresenceProof, Status, Step, StepUpProof, Store, StoreError,
    StoredApproval, StoredDryRun, User,
};
use tokio::sync::{broadcast, watch as changes};
use ulid::Ulid;

use crate::members::Members;
use crate::record;
use crate::snapshot::Snapshot;
use failed_dry_run::failed_dry_run;

pub(crate) use bookkeeping::for_users;
pub(crate) use details::hidden;
pub use details::{ApprovalDetails, StatedRisk};
pub use failed_dry_run::FailedDryRun;
pub(crate) use notices::notify;
pub(crate) use request_state::{INPUT_KEY, RequestStates, ReturnedCall};
pub use shown::ShownStandingApproval;
pub(crate) use standing::StandingDecision;
pub use standing::{NotGranted, StandingResult, WantedStandingApproval};
pub(crate) use watch::keep_watch;

/// Notices that wait for a slow listener. It misses the oldest beyond that.
const NOTICES_KEPT: usize = 64;

/// A handle on all approvals. Clones share the same state.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    ledger: Ledger,
    in_force: InForce,
    /// Start of links to pages, before the path.
    base_url: ArcSwap<String>,
    notify: ArcSwap<Notify>,
    /// Time in which an approved call must be made, in milliseconds.
    valid_for_ms: AtomicI64,
    changed: changes::Sender<u64>,
    requested: broadcast::Sender<ApprovalNotice>,
}

/// The contracts in force at this gateway, and at those that share its database.
pub(crate) struct InForce {
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) members: Arc<Members>,
}

/// Notice of a new approval request. It contains nothing that an agent or server worded, so it can go anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalNotice {
    pub id: ApprovalId,
    pub agent: String,
    pub tool: String,
    pub risk: StatedRisk,
    pub url: String,
    pub expires_ms: i64,
}

/// An approval request with everything that helps to decide it.
#[derive(Clone, Debug)]
pub struct ApprovalView {
    pub approval: StoredApproval,
    /// The last call of this tool by this agent that was approved and made.
    pub previous: Option<StoredApproval>,
    pub dry_run: Option<StoredDryRun>,
    /// The newest dry run of the same call that failed. It proves nothing, but the approver should know of it.
    pub failed_dry_run: Option<FailedDryRun>,
    /// How the approved call ended. `None` unless it was made.
    pub ran: Option<Status>,
    /// The arguments for the approver only. While the request is pending nothing is masked. Otherwise a recipient could
    /// hide behind what looks like a secret.
    pub args_for_user: Untrusted,
    /// Everything else that goes to the server, unmasked for the approver, without the client's own bookkeeping. `None`
    /// if nothing does.
    pub attached_for_user: Option<Untrusted>,
    pub url: String,
    /// Time in which an approved call must be made.
    pub yes_lasts_ms: i64,
}

/// The result of approving or denying a request.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionResult {
    /// The request as it is after the decision.
    Decided(Box<StoredApproval>),
    NotDecided(NotDecided),
}

impl From<NotDecided> for DecisionResult {
    fn from(reason: NotDecided) -> Self {
        Self::NotDecided(reason)
    }
}

/// The reason why a decision was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDecided {
    NotFound,
    /// Another user decided first, or the request expired.
    Over(ApprovalState),
    StepUpRequired,
    /// The request was made under another contract than the one in force here, because gateways that share the database
    /// have different contracts. It stays pending, and another gateway can decide it.
    OtherContract,
}

impl NotDecided {
    /// Returns the reason for an approval that is no longer open.
    fn over(approval: &StoredApproval) -> Self {
        Self::Over(match approval.state {
            // The step lost because the request expired, which is not written down yet.
            ApprovalState::Pending => ApprovalState::Expired,
            state @ (ApprovalState::Approved
            | ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Consumed
            | ApprovalState::Cancelled) => state,
        })
    }
}

/// Denies a request or revokes a standing approval. Only a user can approve.
#[derive(Clone, Debug)]
pub enum Decider {
    User(User),
    AdminKey,
}

impl Decider {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::User(user) => user.name().to_owned(),
            Self::AdminKey => DeniedBy::ADMIN_KEY.to_owned(),
        }
    }
}

impl Approvals {
    pub(crate) fn new(
        store: Store,
        ledger: Ledger,
        in_force: InForce,
        settings: &ApprovalSettings,
        base_url: String,
    ) -> Self {
        let shared = Shared {
            store,
            ledger,
            in_force,
            base_url: ArcSwap::default(),
            notify: ArcSwap::default(),
            valid_for_ms: AtomicI64::default(),
            changed: changes::channel(0).0,
            requested: broadcast::channel(NOTICES_KEPT).0,
        };
        let approvals = Self { shared: Arc::new(shared) };
        approvals.set(settings, base_url);
        approvals
    }

    pub async fn list(
        &self,
        filter: &ApprovalFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<ApprovalPage, StoreError> {
        self.shared.store.list_approvals(filter, before, limit).await
    }

    pub async fn find(&self, id: &ApprovalId) -> Result<Option<ApprovalView>, StoreError> {
        let store = &self.shared.store;
        let Some(mut approval) = store.find_approval(id).await? else { return Ok(None) };
        // A decided request is compared with the calls before it, so that its page stays the same.
        let before = (!is_undecided(&approval)).then_some(&approval.id);
        let previous = store.last_approved(&approval.tool, &approval.agent, before).await?;
        let previous = previous.filter(|previous| previous.id != approval.id);
        let dry_run = store.find_dry_run(&approval.binding).await?;
        let failed_dry_run = match dry_run {
            Some(_) => None,
            None => failed_dry_run(store, &approval).await?,
        };
        let ran = match approval.record {
            Some(record) => store.statuses(&[record]).await?.pop().map(|(_, status)| status),
            None => None,
        };
        if !is_undecided(&approval) {
            // An approved call still needs its arguments, so the store keeps them until it is made. Nobody has to read
            // them any more.
            (approval.args, approval.attached) = (None, None);
        }
        let args_for_user = match &approval.args {
            Some(args) => Untrusted::new(args.as_str()),
            None => approval.shown_args.clone(),
        };
        approval.shown_attached = approval.shown_attached.as_ref().and_then(bookkeeping::shown_to_users);
        let attached_for_user = match &approval.attached {
            Some(attached) => for_users(attached).map(Untrusted::new),
            None => approval.shown_attached.clone(),
        };
        let (url, yes_lasts_ms) = (self.url(id), self.valid_for_ms());
        Ok(Some(ApprovalView {
            approval,
            previous,
            dry_run,
            failed_dry_run,
            ran,
            args_for_user,
            attached_for_user,
            url,
            yes_lasts_ms,
        }))
    }

    /// Approves a request. A session cookie alone cannot: the proof of presence needs the page's key, a password or a
    /// factor. A step-up proof for this request counts as a fresh second factor.
    pub async fn approve(
        &self,
        id: &ApprovalId,
        presence: &PresenceProof,
        step_up: Option<&StepUpProof>,
    ) -> Result<DecisionResult, StoreError> {
        let user = presence.user();
        let is_for_this = |proof: &&StepUpProof| proof.user() == user && proof.purpose() == id.as_str();
        let given = if step_up.filter(is_for_this).is_some() { Assurance::Factor } else { Assurance::Session };
        self.approve_as(id, user.name(), given).await
    }

    pub async fn deny(
        &self,
        id: &ApprovalId,
        by: &Decider,
        comment: Option<&str>,
    ) -> Result<DecisionResult, StoreError> {
        self.deny_as(id, &by.name(), comment).await
    }

    /// Changes when any approval or standing approval changes, also through another replica.
    pub fn changed(&self) -> changes::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Receives a notice of each new approval request.
    pub fn requested(&self) -> broadcast::Receiver<ApprovalNotice> {
        self.shared.requested.subscribe()
    }

    /// Returns the page for a request. The address is no secret and opens nothing by itself.
    pub fn url(&self, id: &ApprovalId) -> String {
        format!("{}/ui/approvals/{id}", self.shared.base_url.load())
    }

    /// Applies new settings.
    pub(crate) fn set(&self, settings: &ApprovalSettings, base_url: String) {
        self.shared.base_url.store(Arc::new(base_url));
        self.shared.notify.store(Arc::new(settings.notify.clone()));
        let valid_for_ms = i64::try_from(settings.expire.as_millis()).unwrap_or(i64::MAX / 2);
        self.shared.valid_for_ms.store(valid_for_ms, Ordering::Relaxed);
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    async fn approve_as(&self, id: &ApprovalId, by: &str, given: Assurance) -> Result<DecisionResult, StoreError> {
        let Some(found) = self.shared.store.find_approval(id).await? else { return Ok(NotDecided::NotFound.into()) };
        if found.state == ApprovalState::Pending && given < found.least {
            return Ok(NotDecided::StepUpRequired.into());
        }
        if self.is_under_other_contract(&found).await? {
            return Ok(NotDecided::OtherContract.into());
        }
        let step = self.approve_step(id, by, given);
        self.decide(&found, steps::approved(&found, by, given), step).await
    }

    fn valid_for_ms(&self) -> i64 {
        self.shared.valid_for_ms.load(Ordering::Relaxed)
    }

    /// Builds the step that approves a request. The approval is valid for a short time from now, however long the
    /// request was pending.
    fn approve_step(&self, id: &ApprovalId, by: &str, given: Assurance) -> Step {
        let now_ms = record::now_ms();
        let until_ms = now_ms + self.valid_for_ms();
        Step::Approve { id: id.clone(), by: by.to_owned(), given, now_ms, until_ms }
    }

    async fn deny_as(&self, id: &ApprovalId, by: &str, comment: Option<&str>) -> Result<DecisionResult, StoreError> {
        let Some(found) = self.shared.store.find_approval(id).await? else { return Ok(NotDecided::NotFound.into()) };
        if self.is_under_other_contract(&found).await? {
            return Ok(NotDecided::OtherContract.into());
        }
        let comment = comment.map(str::trim).filter(|comment| !comment.is_empty()).map(steps::comment);
        let record = steps::denied(&found, by, comment.as_deref());
        let step = Step::Deny { id: id.clone(), by: by.to_owned(), comment, now_ms: record::now_ms() };
        self.decide(&found, record, step).await
    }

    /// Records a decision and applies it in one transaction, or returns the state that won.
    async fn decide(
        &self,
        found: &StoredApproval,
        record: mcpproxy_store::NewRecord,
        step: Step,
    ) -> Result<DecisionResult, StoreError> {
        let written = self.shared.ledger.append_if(record, vec![step]).await?;
        let now = self.shared.store.find_approval(&found.id).await?;
        self.has_changed();
        Ok(match (written, now) {
            (_, None) => NotDecided::NotFound.into(),
            (Conditional::Written(_), Some(now)) => DecisionResult::Decided(Box::new(now)),
            (Conditional::Conflict { .. }, Some(now)) => NotDecided::over(&now).into(),
        })
    }

    /// Returns true if the request is open and was made under another contract than the one in force here, while gateways
    /// that share the database have different contracts. Then the request is not outdated: it belongs to another gateway.
    /// So this one must neither decide nor end it. A tool that this gateway does not have is a difference too, because a
    /// contract can forbid it.
    pub(crate) async fn is_under_other_contract(&self, found: &StoredApproval) -> Result<bool, StoreError> {
        let is_open = match found.state {
            ApprovalState::Pending | ApprovalState::Approved => true,
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Consumed | ApprovalState::Cancelled => {
                false
            }
        };
        let InForce { snapshot, members } = &self.shared.in_force;
        let snapshot = snapshot.load_full();
        let own = snapshot.catalog.resolve(&found.tool).map(|tool| tool.contract_digest());
        if !is_open || own == Some(found.contract) {
            return Ok(false);
        }
        members.contracts_differ(&snapshot).await
    }

    pub(crate) fn has_changed(&self) {
        self.shared.changed.send_modify(|count| *count += 1);
    }
}

/// Returns true while a user can decide on the request. Its expiry counts at once, even if it is not written down yet.
fn is_undecided(approval: &StoredApproval) -> bool {
    approval.state == ApprovalState::Pending && approval.expires_ms > record::now_ms()
}

/// Makes an id for an approval or standing approval. Ids sort by time.
pub(crate) fn new_id(now_ms: i64) -> ApprovalId {
    let id = Ulid::from_parts(u64::try_from(now_ms).unwrap_or_default(), rand::random());
    // Every ULID has the 26 characters that an id needs, so this never recurses.
    ApprovalId::parse(&id.to_string()).unwrap_or_else(|| new_id(now_ms))
}
