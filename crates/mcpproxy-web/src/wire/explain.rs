//! The JSON of an explained call.

use mcpproxy_core::Variant;
use mcpproxy_core::policy::{self, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A call to explain.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainCall {
    #[schema(schema_with = super::operations)]
    pub(crate) variant: String,
    /// Whose token counts; none is one that covers everything.
    pub(crate) agent: Option<String>,
    /// The parameters of the `call_tool_*`, as an agent would send them.
    #[schema(value_type = Object)]
    pub(crate) parameters: Box<RawValue>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// `allow` or `deny`.
    decision: &'static str,
    variant: &'static str,
    /// The variant the tool asks for, if there is such a tool.
    call_with: Option<&'static str>,
    intent_verified: Option<bool>,
    error: Option<ExplainedError>,
    checks: Vec<ExplainedCheck>,
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

impl From<(Variant, policy::Explanation)> for Explanation {
    fn from((variant, explanation): (Variant, policy::Explanation)) -> Self {
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
        }
    }
}

impl From<policy::Finding> for ExplainedCheck {
    fn from(finding: policy::Finding) -> Self {
        let (verdict, why) = match finding.verdict {
            Verdict::Passed(why) => ("passed", why),
            Verdict::Warned(warnings) => {
                let messages: Vec<String> = warnings.into_iter().map(|warning| warning.message).collect();
                ("warned", messages.join("; "))
            }
            Verdict::Failed(denial) => ("failed", denial.message()),
            Verdict::NotReached => ("not_reached", String::new()),
        };
        Self { check: finding.check.words(), verdict, why }
    }
}
