//! Questions to users, as operators and pages see them: what waits, who decides, and what follows from it.

mod about;
mod grants;
mod notices;
mod steps;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use mcpproxy_core::settings::ApprovalSettings;
use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, Untrusted};
use mcpproxy_store::{
    ApprovalFilter, ApprovalPage, Ledger, Lost, PresenceProof, Step, StepUpProof, Store, StoreError, StoredApproval,
    StoredDryRun, User,
};
use tokio::sync::{broadcast, watch as changes};

use crate::record;

pub(crate) use about::hidden;
pub use about::{About, Level, SaidBy};
pub(crate) use grants::ByGrant;
pub use grants::{NotGranted, WantedGrant};
pub(crate) use notices::tell;
pub(crate) use watch::keep_watch;

/// How many questions may be missed by a listener that is slow.
const ASKED_KEPT: usize = 64;

/// A handle; clones are the same.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    ledger: Ledger,
    /// What comes before the path in links to pages.
    base_url: ArcSwap<String>,
    /// How long a yes is good for, in milliseconds.
    yes_lasts_ms: AtomicI64,
    changed: changes::Sender<u64>,
    asked: broadcast::Sender<Asked>,
}

/// A question that was asked just now: enough to call somebody, and nothing that is not for everybody's eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub id: ApprovalId,
    pub agent: String,
    pub tool: String,
    pub level: Level,
    pub url: String,
    pub expires_ms: i64,
}

/// An approval with what helps to decide on it.
#[derive(Clone, Debug)]
pub struct ApprovalView {
    pub approval: StoredApproval,
    /// The last call of this tool by this agent that was approved and made.
    pub previous: Option<StoredApproval>,
    pub dry_run: Option<StoredDryRun>,
    /// The arguments for the user who decides, and for nobody else: nothing is masked as long as there is something to
    /// decide. Else a recipient could hide behind what looks like a secret.
    pub args_for_user: Untrusted,
    /// The same of what goes to the server besides; `None` if nothing does.
    pub attached_for_user: Option<Untrusted>,
    pub url: String,
    /// How long a yes is good for.
    pub yes_lasts_ms: i64,
}

/// Why a decision did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDecided {
    NotFound,
    /// Somebody else was first, or it was too late.
    Over(ApprovalState),
    StepUpRequired,
}

impl NotDecided {
    /// Of what is not open any more.
    fn over(approval: &StoredApproval) -> Self {
        Self::Over(match approval.state {
            // It lost because its time was over, and nobody has written that down yet.
            ApprovalState::Pending => ApprovalState::Expired,
            state => state,
        })
    }
}

/// Who says no, or takes a grant back. For a yes it takes a user.
#[derive(Clone, Debug)]
pub enum Decider {
    User(User),
    AdminKey,
}

impl Decider {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::User(user) => user.name().to_owned(),
            Self::AdminKey => "admin key".to_owned(),
        }
    }
}

impl Approvals {
    pub(crate) fn new(store: Store, ledger: Ledger, settings: &ApprovalSettings, base_url: String) -> Self {
        let (changed, asked) = (changes::channel(0).0, broadcast::channel(ASKED_KEPT).0);
        let shared =
            Shared { store, ledger, base_url: ArcSwap::default(), yes_lasts_ms: AtomicI64::default(), changed, asked };
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
        let Some(approval) = store.find_approval(id).await? else { return Ok(None) };
        let previous = store.last_approved(&approval.tool, &approval.agent).await?;
        let previous = previous.filter(|previous| previous.id != approval.id);
        let dry_run = store.find_dry_run(&approval.binding).await?;
        let args_for_user = match &approval.args {
            Some(args) => Untrusted::new(args.as_str()),
            None => approval.shown_args.clone(),
        };
        let attached_for_user = match &approval.attached {
            Some(attached) => Some(Untrusted::new(attached.as_str())),
            None => approval.shown_attached.clone(),
        };
        let (url, yes_lasts_ms) = (self.url(id), self.yes_lasts_ms());
        let view = ApprovalView { approval, previous, dry_run, args_for_user, attached_for_user, url, yes_lasts_ms };
        Ok(Some(view))
    }

    /// A user's yes, with a fresh factor for this approval or without. A session's cookie alone is none.
    pub async fn approve(
        &self,
        id: &ApprovalId,
        present: &PresenceProof,
        fresh: Option<&StepUpProof>,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        let user = present.user();
        let is_for_this = |fresh: &&StepUpProof| fresh.user() == user && fresh.approval() == id.as_str();
        let given = if fresh.filter(is_for_this).is_some() { Assurance::Factor } else { Assurance::Session };
        self.say_yes(id, user.name(), given).await
    }

    pub async fn deny(
        &self,
        id: &ApprovalId,
        by: &Decider,
        comment: Option<&str>,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        self.say_no(id, &by.name(), comment).await
    }

    /// Moves when any approval or grant changes, also through another replica.
    pub fn changed(&self) -> changes::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Each question when it is asked.
    pub fn asked(&self) -> broadcast::Receiver<Asked> {
        self.shared.asked.subscribe()
    }

    /// Where a user decides. The address is no secret and opens nothing by itself.
    pub fn url(&self, id: &ApprovalId) -> String {
        format!("{}/ui/approvals/{id}", self.shared.base_url.load())
    }

    /// Takes over what the settings say.
    pub(crate) fn set(&self, settings: &ApprovalSettings, base_url: String) {
        self.shared.base_url.store(Arc::new(base_url));
        let lasts_ms = i64::try_from(settings.expire.as_millis()).unwrap_or(i64::MAX / 2);
        self.shared.yes_lasts_ms.store(lasts_ms, Ordering::Relaxed);
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    async fn say_yes(
        &self,
        id: &ApprovalId,
        by: &str,
        given: Assurance,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        let Some(found) = self.shared.store.find_approval(id).await? else { return Ok(Err(NotDecided::NotFound)) };
        if found.state == ApprovalState::Pending && given < found.least {
            return Ok(Err(NotDecided::StepUpRequired));
        }
        let step = self.approve_step(id, by, given);
        self.decide(&found, steps::approved(&found, by, given), step).await
    }

    fn yes_lasts_ms(&self) -> i64 {
        self.shared.yes_lasts_ms.load(Ordering::Relaxed)
    }

    /// However long a question may wait: who says yes means now.
    fn approve_step(&self, id: &ApprovalId, by: &str, given: Assurance) -> Step {
        let now_ms = record::now_ms();
        let until_ms = now_ms + self.yes_lasts_ms();
        Step::Approve { id: id.clone(), by: by.to_owned(), given, now_ms, until_ms }
    }

    async fn say_no(
        &self,
        id: &ApprovalId,
        by: &str,
        comment: Option<&str>,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        let Some(found) = self.shared.store.find_approval(id).await? else { return Ok(Err(NotDecided::NotFound)) };
        let comment = comment.map(str::trim).filter(|comment| !comment.is_empty()).map(steps::comment);
        let record = steps::denied(&found, by, comment.as_deref());
        let step = Step::Deny { id: id.clone(), by: by.to_owned(), comment, now_ms: record::now_ms() };
        self.decide(&found, record, step).await
    }

    /// Writes a decision down and makes it, in one; or tells what was there instead.
    async fn decide(
        &self,
        found: &StoredApproval,
        record: mcpproxy_store::NewRecord,
        step: Step,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        let written = self.shared.ledger.note_if(record, vec![step]).await?;
        let now = self.shared.store.find_approval(&found.id).await?;
        self.has_changed();
        Ok(match (written, now) {
            (_, None) => Err(NotDecided::NotFound),
            (Ok(_), Some(now)) => Ok(now),
            (Err(Lost(_)), Some(now)) => Err(NotDecided::over(&now)),
        })
    }

    pub(crate) fn has_changed(&self) {
        self.shared.changed.send_modify(|count| *count += 1);
    }
}
