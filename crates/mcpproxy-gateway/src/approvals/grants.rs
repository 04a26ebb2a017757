//! Standing grants: a user's yes for a while, for calls that look alike.

use mcpproxy_core::decision::{self, NotCovered};
use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Agent, ApprovalId, ApprovalRequest, Assurance, Denial, Digest, Moment, Permit, RiskLevel};
use mcpproxy_store::{
    Kind, NewRecord, NewStandingApproval, Status, Step, StepUpProof, StoreError, StoredApproval,
    StoredStandingApproval, User,
};
use serde_json::json;

use super::{Approvals, Decider, NotDecided};
use crate::record::{blank, now_ms};

const MINUTES_MAX: u32 = 15;
const USES_MAX: u32 = 100;
const SCHEMA_MAX_BYTES: usize = 64 * 1024;
const MINUTE_MS: i64 = 60_000;

/// What a user wants to allow: more calls like the one that was asked about.
#[derive(Clone, Debug)]
pub struct WantedGrant {
    /// The question it comes from says whose calls of which tool.
    pub from: ApprovalId,
    /// A JSON Schema that the arguments must match.
    pub schema: String,
    pub minutes: u32,
    pub uses: u32,
}

/// Why there is no grant, and no yes either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotGranted {
    NotDecided(NotDecided),
    /// It cannot be made like this.
    Refused(String),
}

impl From<NotDecided> for NotGranted {
    fn from(reason: NotDecided) -> Self {
        Self::NotDecided(reason)
    }
}

/// What grants have to say to a question.
pub(crate) enum ByGrant {
    Yes(Permit),
    /// None covers it: the question is a user's.
    No(ApprovalRequest),
    /// One covers it, but not so often.
    Later(Denial),
}

impl Approvals {
    /// A user's yes to a question, and with it a grant for more such calls: both or neither. It takes a factor that is as
    /// fresh as for a critical call.
    pub async fn grant(
        &self,
        wanted: &WantedGrant,
        user: &User,
        fresh: &StepUpProof,
    ) -> Result<Result<StoredStandingApproval, NotGranted>, StoreError> {
        let store = &self.shared.store;
        let Some(approval) = store.find_approval(&wanted.from).await? else {
            return Ok(Err(NotDecided::NotFound.into()));
        };
        if fresh.user() != user || fresh.approval() != wanted.from.as_str() {
            return Ok(Err(NotGranted::Refused("a grant takes a fresh code or passkey".to_owned())));
        }
        if let Err(why) = check(wanted, &approval) {
            return Ok(Err(NotGranted::Refused(why)));
        }
        let now_ms = now_ms();
        let id = super::super::ask::new_id(now_ms);
        let new = NewStandingApproval {
            id: id.as_str().to_owned(),
            agent: approval.agent.clone(),
            tool: approval.tool.clone(),
            pin: approval.pin,
            contract: approval.contract,
            schema: wanted.schema.clone(),
            by: user.name().to_owned(),
            reason: None,
            created_ms: now_ms,
            expires_ms: now_ms + i64::from(wanted.minutes) * MINUTE_MS,
            uses: wanted.uses,
        };
        let more = json!({
            "grant_id": id.as_str(),
            "approval_id": approval.id.as_str(),
            "by": user.name(),
            "given": Assurance::Factor.as_str(),
            "minutes": wanted.minutes,
            "uses": wanted.uses,
            // It may hold what the contract calls sensitive, and records are kept for long.
            "schema_sha256": Digest::of(wanted.schema.as_bytes()).to_string(),
        });
        let record = of_grant(&approval.agent, &approval.tool, "grant_created", &more);
        let record = NewRecord { risk: approval.risk, ..record };
        // A grant comes from nothing but a question that this very yes decides.
        let steps = vec![
            self.approve_step(&approval.id, user.name(), Assurance::Factor),
            Step::StandingApproval(Box::new(new)),
        ];
        let made = self.shared.ledger.note_if(record, steps).await?;
        self.has_changed();
        if made.is_ok()
            && let Some(grant) = store.find_grant(id.as_str()).await?
        {
            return Ok(Ok(grant));
        }
        let now = store.find_approval(&wanted.from).await?;
        Ok(Err(now.map_or(NotDecided::NotFound, |now| NotDecided::over(&now)).into()))
    }

    /// Grants in force, and those that are over too.
    pub async fn grants(&self, with_over: bool) -> Result<Vec<StoredStandingApproval>, StoreError> {
        self.shared.store.list_grants(with_over, now_ms()).await
    }

    /// Takes a grant back; `false` when there is none in force.
    pub async fn revoke(&self, id: &str, by: &Decider) -> Result<bool, StoreError> {
        let Some(grant) = self.shared.store.find_grant(id).await? else { return Ok(false) };
        let record =
            of_grant(&grant.agent, &grant.tool, "grant_revoked", &json!({"grant_id": grant.id, "by": by.name()}));
        let step = Step::Revoke { id: grant.id.clone(), by: by.name(), now_ms: now_ms() };
        let revoked = self.shared.ledger.note_if(record, vec![step]).await?.is_ok();
        self.has_changed();
        Ok(revoked)
    }

    /// A permit by one of the grants there are, or the question back.
    pub(crate) async fn by_grant(
        &self,
        mut question: ApprovalRequest,
        agent: &Agent,
        moment: Moment<'_>,
    ) -> Result<ByGrant, StoreError> {
        if question.least() > Assurance::Form {
            return Ok(ByGrant::No(question));
        }
        let found = self.shared.store.grants_for(&agent.name, &question.tool().name, moment.clock.now_ms).await?;
        if found.is_empty() {
            return Ok(ByGrant::No(question));
        }
        let born_ms = self.token_born_ms(agent).await?;
        for grant in found.into_iter().filter(|grant| born_ms.is_some_and(|born_ms| born_ms <= grant.created_ms)) {
            let Ok(schema) = Schema::parse(&grant.schema) else { continue };
            let grant = decision::StandingApproval {
                id: grant.id,
                agent: grant.agent,
                tool: grant.tool,
                pin: grant.pin,
                contract: grant.contract,
                schema: std::sync::Arc::new(schema),
                expires_ms: grant.expires_ms,
                uses_left: grant.uses_left,
            };
            match question.granted_by(agent, &grant, moment) {
                Ok(permit) => return Ok(ByGrant::Yes(permit)),
                Err(refused) => match *refused {
                    (_, NotCovered::RateLimit(denial)) => return Ok(ByGrant::Later(denial)),
                    (back, _) => question = back,
                },
            }
        }
        Ok(ByGrant::No(question))
    }
}

impl Approvals {
    /// When the agent's token was made: to a name that was given out again, nobody has granted anything.
    async fn token_born_ms(&self, agent: &Agent) -> Result<Option<i64>, StoreError> {
        let tokens = self.shared.store.list_tokens().await?;
        let live = tokens.into_iter().find(|token| token.name == agent.name && token.revoked_ms.is_none());
        Ok(live.map(|token| token.created_ms))
    }
}

fn check(wanted: &WantedGrant, approval: &StoredApproval) -> Result<(), String> {
    if approval.risk == Some(RiskLevel::Critical) || approval.least == Assurance::Factor {
        return Err("critical calls are approved one by one; there is no grant for them".to_owned());
    }
    wanted.check()
}

impl WantedGrant {
    /// Whether it could be granted at all: worth knowing before somebody uses up a code for it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MINUTES_MAX).contains(&self.minutes) {
            return Err(format!("minutes must be 1 to {MINUTES_MAX}"));
        }
        if !(1..=USES_MAX).contains(&self.uses) {
            return Err(format!("uses must be 1 to {USES_MAX}"));
        }
        if self.schema.len() > SCHEMA_MAX_BYTES {
            return Err(format!("the schema is longer than {SCHEMA_MAX_BYTES} bytes"));
        }
        let text = mcpproxy_core::json::read(self.schema.as_bytes())
            .map_err(|error| format!("the schema is not JSON: {} at {}:{}", error.kind, error.line, error.column))?;
        Schema::parse(text).map(drop).map_err(|error| format!("the schema cannot be used: {error}"))
    }
}

fn of_grant(agent: &str, tool: &mcpproxy_core::ToolName, code: &str, metadata: &serde_json::Value) -> NewRecord {
    NewRecord {
        agent: Some(agent.to_owned()),
        server: Some(tool.server().to_string()),
        tool: Some(tool.tool().to_owned()),
        is_known_tool: true,
        code: Some(code.to_owned()),
        metadata: metadata.to_string(),
        ..blank(Kind::Approval, Status::Success)
    }
}
