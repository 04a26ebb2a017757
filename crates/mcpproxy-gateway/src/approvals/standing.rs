//! Standing approvals: a user approves similar calls in advance, for some minutes and a number of uses.

use mcpproxy_core::decision::{self, NotCovered};
use mcpproxy_core::schema::Schema;
use mcpproxy_core::settings::is_provider_agent;
use mcpproxy_core::{
    Agent, ApprovalId, ApprovalRequest, Assurance, Denial, Digest, Moment, Permit, RiskLevel, Variant,
};
use mcpproxy_store::{
    Kind, NewRecord, NewStandingApproval, Status, Step, StepUpProof, StoreError, StoredApproval,
    StoredStandingApproval, User,
};
use serde_json::{Value, json};

use super::steps::{intent, metadata};
use super::{ApprovalDetails, Approvals, Decider, NotDecided, new_id};
use crate::record::{blank, now_ms};

const MINUTES_MAX: u32 = 15;
const USES_MAX: u32 = 100;
const SCHEMA_MAX_BYTES: usize = 64 * 1024;
const MINUTE_MS: i64 = 60_000;

/// A standing approval that a user wants to give, for more calls like the requested one.
#[derive(Clone, Debug)]
pub struct WantedStandingApproval {
    /// The request that it comes from. It sets the agent and the tool.
    pub from: ApprovalId,
    /// A JSON Schema that the arguments must match.
    pub schema: String,
    pub minutes: u32,
    pub uses: u32,
}

/// The result of approving a request together with more calls like it.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum StandingResult {
    Created(Box<StoredStandingApproval>),
    /// There is no standing approval. The request it comes from was not approved either.
    NotCreated(NotGranted),
}

impl From<NotGranted> for StandingResult {
    fn from(reason: NotGranted) -> Self {
        Self::NotCreated(reason)
    }
}

impl From<NotDecided> for StandingResult {
    fn from(reason: NotDecided) -> Self {
        Self::NotCreated(NotGranted::NotDecided(reason))
    }
}

/// The reason why a standing approval was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotGranted {
    NotDecided(NotDecided),
    /// The parameters are not acceptable, for this reason.
    Refused(String),
}

/// The decision of the standing approvals on a request.
pub(crate) enum StandingDecision {
    Permitted {
        permit: Permit,
        /// The user who gave the standing approval.
        by: String,
    },
    /// No standing approval covers the call, so a user must decide.
    NotCovered(ApprovalRequest),
    /// One covers it, but the rate limit is reached.
    RateLimited(Denial),
}

impl Approvals {
    /// Approves a request and gives a standing approval for more such calls: both or neither. It needs a fresh second
    /// factor, as for a critical call.
    pub async fn grant(
        &self,
        wanted: &WantedStandingApproval,
        user: &User,
        step_up: &StepUpProof,
    ) -> Result<StandingResult, StoreError> {
        let store = &self.shared.store;
        let Some(approval) = store.find_approval(&wanted.from).await? else {
            return Ok(NotDecided::NotFound.into());
        };
        if step_up.user() != user || step_up.purpose() != wanted.from.as_str() {
            return Ok(NotGranted::Refused("a standing approval needs a fresh code or passkey".to_owned()).into());
        }
        if self.is_under_other_contract(&approval).await? {
            return Ok(NotDecided::OtherContract.into());
        }
        if let Err(why) = check(wanted, &approval) {
            return Ok(NotGranted::Refused(why).into());
        }
        let now_ms = now_ms();
        let (id, about) = (new_id(now_ms), ApprovalDetails::of(&approval));
        let new = NewStandingApproval {
            id: id.as_str().to_owned(),
            agent: approval.agent.clone(),
            tool: approval.tool.clone(),
            pin: approval.pin,
            contract: approval.contract,
            schema: wanted.schema.clone(),
            by: user.name().to_owned(),
            reason: None,
            intent: Some(intent(approval.variant, &about).to_string()),
            created_ms: now_ms,
            expires_ms: now_ms + i64::from(wanted.minutes) * MINUTE_MS,
            uses: wanted.uses,
        };
        let more = json!({
            "grant_id": id.as_str(),
            "by": user.name(),
            "given": Assurance::Factor.as_str(),
            "minutes": wanted.minutes,
            "uses": wanted.uses,
            // The schema may contain sensitive values, and records are kept for long.
            "schema_sha256": Digest::of(wanted.schema.as_bytes()).to_string(),
        });
        let metadata = metadata(&approval.id, approval.variant, &about, more);
        let record = of_grant(&approval.agent, &approval.tool, "grant_created", metadata);
        let record = NewRecord { risk: approval.risk, intent_type: Some(approval.variant), ..record };
        // Both steps or neither: a standing approval exists only if this approval decided the request.
        let steps = vec![
            self.approve_step(&approval.id, user.name(), Assurance::Factor),
            Step::CreateStandingApproval(Box::new(new)),
        ];
        let made = self.shared.ledger.append_if(record, steps).await?;
        self.has_changed();
        if made.is_written()
            && let Some(created) = store.find_standing_approval(id.as_str()).await?
        {
            return Ok(StandingResult::Created(Box::new(created)));
        }
        let now = store.find_approval(&wanted.from).await?;
        Ok(now.map_or(NotDecided::NotFound, |now| NotDecided::over(&now)).into())
    }

    /// Lists active standing approvals and, on request, those that are used up, expired or revoked.
    pub async fn grants(&self, with_over: bool) -> Result<Vec<StoredStandingApproval>, StoreError> {
        self.shared.store.list_standing_approvals(with_over, now_ms()).await
    }

    /// Revokes a standing approval. Returns `false` if no active one has that id.
    pub async fn revoke(&self, id: &str, by: &Decider) -> Result<bool, StoreError> {
        let Some(grant) = self.shared.store.find_standing_approval(id).await? else { return Ok(false) };
        let intent = grant.intent.as_ref().and_then(|intent| serde_json::from_str::<Value>(intent.for_json()).ok());
        let intent = intent.unwrap_or_else(|| json!({}));
        let variant = intent.get("operation_type").and_then(Value::as_str).and_then(Variant::from_operation);
        let mut metadata = json!({"grant_id": grant.id, "intent": intent, "by": by.name()});
        if let (Some(variant), Some(members)) = (variant, metadata.as_object_mut()) {
            members.insert("tool_variant".to_owned(), variant.tool().into());
        }
        let record = of_grant(&grant.agent, &grant.tool, "grant_revoked", metadata.to_string());
        let record = NewRecord { intent_type: variant, ..record };
        let step = Step::RevokeStandingApproval { id: grant.id.clone(), by: by.name(), now_ms: now_ms() };
        let revoked = self.shared.ledger.append_if(record, vec![step]).await?.is_written();
        self.has_changed();
        Ok(revoked)
    }

    /// Looks for a standing approval that covers the request.
    pub(crate) async fn by_standing_approval(
        &self,
        mut request: ApprovalRequest,
        agent: &Agent,
        moment: Moment<'_>,
    ) -> Result<StandingDecision, StoreError> {
        if request.required_assurance() > Assurance::Form {
            return Ok(StandingDecision::NotCovered(request));
        }
        let found =
            self.shared.store.standing_approvals_for(&agent.name, &request.tool().name, moment.clock.now_ms).await?;
        if found.is_empty() {
            return Ok(StandingDecision::NotCovered(request));
        }
        let born_ms = self.token_born_ms(agent).await?;
        for grant in found.into_iter().filter(|grant| born_ms.is_some_and(|born_ms| born_ms <= grant.created_ms)) {
            let Ok(schema) = Schema::parse(&grant.schema) else { continue };
            let by = grant.by.clone();
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
            match request.covered_by(agent, &grant, moment) {
                Ok(permit) => return Ok(StandingDecision::Permitted { permit, by }),
                Err(refused) => match *refused {
                    (_, NotCovered::RateLimit(denial)) => return Ok(StandingDecision::RateLimited(denial)),
                    (
                        returned,
                        NotCovered::Critical
                        | NotCovered::StepUp
                        | NotCovered::OtherAgent
                        | NotCovered::OtherTool
                        | NotCovered::ToolChanged
                        | NotCovered::ContractChanged
                        | NotCovered::Expired
                        | NotCovered::UsedUp
                        | NotCovered::Arguments
                        | NotCovered::Attached,
                    ) => request = returned,
                },
            }
        }
        Ok(StandingDecision::NotCovered(request))
    }
}

impl Approvals {
    /// Returns when the agent's token was created. A newer token that reuses the name inherits no standing approval.
    /// The name of a provider's agent always means the same user or client, so all of its tokens have its standing
    /// approvals.
    async fn token_born_ms(&self, agent: &Agent) -> Result<Option<i64>, StoreError> {
        if is_provider_agent(&agent.name) {
            return Ok(Some(i64::MIN));
        }
        let tokens = self.shared.store.list_tokens().await?;
        let live = tokens.into_iter().find(|token| token.name == agent.name && token.revoked_ms.is_none());
        Ok(live.map(|token| token.created_ms))
    }
}

fn check(wanted: &WantedStandingApproval, approval: &StoredApproval) -> Result<(), String> {
    if approval.risk == Some(RiskLevel::Critical) || approval.least == Assurance::Factor {
        return Err("critical calls are approved one by one and cannot have a standing approval".to_owned());
    }
    wanted.check()
}

impl WantedStandingApproval {
    /// Checks the parameters, so that a user does not use up a code in vain.
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

fn of_grant(agent: &str, tool: &mcpproxy_core::ToolName, code: &str, metadata: String) -> NewRecord {
    NewRecord {
        agent: Some(agent.to_owned()),
        server: Some(tool.server().to_string()),
        tool: Some(tool.tool().to_owned()),
        is_known_tool: true,
        code: Some(code.to_owned()),
        metadata,
        ..blank(Kind::Approval, Status::Success)
    }
}
