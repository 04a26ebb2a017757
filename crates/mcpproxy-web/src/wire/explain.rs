//! The JSON types of an explained call.

use mcpproxy_core::Variant;
use mcpproxy_core::decision::{self, Verdict};
use mcpproxy_core::policy::Outcome;
use mcpproxy_gateway::PolicyResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

/// A call to explain.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainCall {
    #[schema(schema_with = super::operations)]
    pub(crate) variant: String,
    /// The agent. Without it, an agent with all permissions.
    pub(crate) agent: Option<String>,
    /// The parameters of `call_tool_*`, as an agent sends them.
    #[schema(value_type = Object)]
    pub(crate) parameters: Box<RawValue>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// `allow` or `deny`.
    decision: &'static str,
    variant: &'static str,
    /// The `call_tool_*` variant that the tool requires, if the tool exists.
    call_with: Option<&'static str>,
    intent_verified: Option<bool>,
    error: Option<ExplainedError>,
    checks: Vec<ExplainedCheck>,
    /// The policies that were evaluated, in the order of files and lines.
    #[serde(rename = "rules")]
    policies: Vec<ExplainedPolicy>,
}

#[derive(Serialize, ToSchema)]
struct ExplainedPolicy {
    /// The `@id` of the policy, or its file and line.
    #[serde(rename = "rule")]
    policy: String,
    file: String,
    line: usize,
    /// The `@message` of the policy.
    message: Option<String>,
    #[schema(schema_with = outcomes)]
    outcome: &'static str,
    /// Reason why it could not be evaluated.
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct ExplainedError {
    code: &'static str,
    message: String,
    details: Value,
}

#[derive(Serialize, ToSchema)]
struct ExplainedCheck {
    check: &'static str,
    /// `passed`, `warned`, `failed` or `not_reached`.
    verdict: &'static str,
    why: String,
}

impl From<(Variant, decision::Explanation, Vec<PolicyResult>)> for Explanation {
    fn from((variant, explanation, policies): (Variant, decision::Explanation, Vec<PolicyResult>)) -> Self {
        let denial = explanation.denial();
        let error = denial.map(|denial| ExplainedError {
            code: denial.code(),
            message: denial.message(),
            details: denial.details(),
        });
        Self {
            decision: if denial.is_some() { "deny" } else { "allow" },
            variant: variant.tool(),
            call_with: explanation.call_with.map(Variant::tool),
            intent_verified: explanation.is_verified,
            error,
            checks: explanation.findings.into_iter().map(Into::into).collect(),
            policies: policies.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<PolicyResult> for ExplainedPolicy {
    fn from(looked_at: PolicyResult) -> Self {
        let PolicyResult { policy, file, line, message, outcome } = looked_at;
        let (outcome, reason) = match outcome {
            Outcome::Forbids => (FORBIDS, None),
            Outcome::Failed(reason) => (FAILED, Some(reason)),
            Outcome::NotMet => (NOT_MET, None),
            Outcome::OtherAgent => (OTHER_AGENT, None),
            Outcome::OtherVariant => (OTHER_VARIANT, None),
        };
        Self { policy, file: file.to_string(), line, message, outcome, reason }
    }
}

const FORBIDS: &str = "forbids";
const FAILED: &str = "failed";
const NOT_MET: &str = "not_met";
const OTHER_AGENT: &str = "other_agent";
const OTHER_VARIANT: &str = "other_variant";

fn outcomes() -> Object {
    let all = [FORBIDS, FAILED, NOT_MET, OTHER_AGENT, OTHER_VARIANT];
    super::words("The outcome. A policy that fails to evaluate forbids the call too.", all)
}

impl From<decision::Finding> for ExplainedCheck {
    fn from(finding: decision::Finding) -> Self {
        let (verdict, why) = match finding.verdict {
            Verdict::Passed(why) => ("passed", why),
            Verdict::Warned(warnings) => {
                let messages: Vec<String> = warnings.into_iter().map(|warning| warning.message).collect();
                ("warned", messages.join("; "))
            }
            Verdict::Failed(denial) => ("failed", denial.message()),
            Verdict::NotReached => ("not_reached", String::new()),
        };
        Self { check: finding.check, verdict, why }
    }
}
