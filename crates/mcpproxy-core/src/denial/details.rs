//! The facts of a refusal as JSON, for programs.

use serde_json::{Value, json};

use super::{Approvers, Denial, FieldHint, IDEMPOTENCY_KEY_MAX_CHARS, ParameterPlace, REASON_MAX_CHARS, Retry, Ticket};
use crate::time::iso;
use crate::{RiskLevel, ToolName, Untrusted};

impl Denial {
    /// Does the same for a call with its parameters at this place. Details that show a call to send show a direct one.
    pub fn details_in(&self, place: ParameterPlace) -> Value {
        let add = match (place, self) {
            (ParameterPlace::Meta, Self::MissingIntent(variant) | Self::IntentMismatch { variant, .. }) => {
                json!({"mcpproxy/intent": {"operation_type": variant.operation()}})
            }
            (ParameterPlace::Meta, Self::DryRunRequired { .. }) => json!({"mcpproxy/dry_run": true}),
            // A direct call names no variant.
            (ParameterPlace::Meta, Self::ServerMismatch { tool, .. } | Self::ContractMismatch { tool, .. }) => {
                return json!({"tool": tool.to_string()});
            }
            (ParameterPlace::Meta, Self::BadField { field, expected }) => {
                return json!({"field": place.parameter(field), "expected": expected});
            }
            (ParameterPlace::Arguments | ParameterPlace::Meta, _) => return self.details(),
        };
        let mut details = self.details();
        if let Some(fields) = details.as_object_mut() {
            fields.remove("tool_variant");
            fields.insert("next".to_owned(), json!({"same_call": true, "add": {"_meta": add}}));
        }
        details
    }

    /// Returns the refusal as JSON for programs: `structuredContent.error.details`.
    pub fn details(&self) -> Value {
        match self {
            Self::UnknownField { field, hint } => unknown_field(field, hint),
            Self::BadField { field, expected } => json!({"field": field, "expected": expected}),
            Self::InvalidToolName(_) | Self::InvalidArgs(_) | Self::InvalidIntent(_) => json!({}),
            Self::AmbiguousToolName { candidates } => {
                json!({"candidates": candidates.iter().map(ToString::to_string).collect::<Vec<_>>()})
            }
            Self::InvalidOperationType(found) => {
                json!({"found": found.for_json(), "allowed": ["read", "write", "destructive"]})
            }
            Self::InvalidSensitivity(found) => {
                json!({"found": found.for_json(), "allowed": ["public", "internal", "private", "unknown"]})
            }
            Self::ReasonTooLong => json!({"max_characters": REASON_MAX_CHARS}),
            Self::MissingIntent(variant) => json!({"tool_variant": variant.tool()}),
            Self::MissingOperationType => json!({"allowed": ["read", "write", "destructive"]}),
            Self::IntentMismatch { variant, declared } => {
                json!({"tool_variant": variant.tool(), "operation_type": declared.operation()})
            }
            Self::NoSuchTool { name, suggestions, .. } => {
                json!({"tool": name.to_string(), "suggestions": suggestions})
            }
            Self::Quarantined { name } => json!({"tool": name.to_string()}),
            Self::ServerMismatch { tool, used, right, .. } => {
                json!({"tool": tool.to_string(), "tool_variant": used.tool(), "call_with": right.tool()})
            }
            Self::NotGranted { variant, .. } => json!({"operation": variant.operation()}),
            Self::NotKnownToRead { tool, .. } | Self::Unclassified { tool } => json!({"tool": tool.to_string()}),
            Self::ContractMismatch { tool, used, right } => {
                json!({"tool": tool.to_string(), "tool_variant": used.tool(), "call_with": right.tool()})
            }
            Self::MissingPermissions { tool, missing, .. } => {
                json!({"tool": tool.to_string(), "missing_permissions": missing})
            }
            Self::PolicyViolation { tool, violations } => {
                let policies: Vec<Value> =
                    violations.iter().map(|one| json!({"rule": one.policy, "message": one.message})).collect();
                json!({"tool": tool.to_string(), "rule": violations.first().map(|one| &one.policy), "rules": policies})
            }
            Self::InvalidArguments { tool, problems } => {
                let problems: Vec<Value> = problems
                    .iter()
                    .map(|one| {
                        json!({
                            "pointer": one.pointer,
                            "expected": one.expected,
                            "found": one.found,
                            "description": one.description,
                        })
                    })
                    .collect();
                json!({"tool": tool.to_string(), "problems": problems})
            }
            Self::RateLimitExceeded { tool, limit, wait_ms } => json!({
                "tool": tool.to_string(),
                "calls": limit.calls,
                "per_ms": u64::try_from(limit.per.as_millis()).unwrap_or(u64::MAX),
                "retry_after_ms": wait_ms,
            }),
            Self::InvalidIdempotencyKey => json!({"max_characters": IDEMPOTENCY_KEY_MAX_CHARS}),
            Self::IdempotencyConflict { tool, .. } => json!({"tool": tool.to_string()}),
            Self::OutcomeUnknown { tool, record, .. } => json!({"tool": tool.to_string(), "record": record}),
            Self::DryRunRequired { tool, next } => json!({"tool": tool.to_string(), "next": next}),
            Self::ConfirmationRequired { tool, risk, needs_step_up, approval } => {
                confirmation_required(tool, *risk, *needs_step_up, approval.as_deref())
            }
            Self::ApprovalDenied { by, comment } => {
                json!({"comment": comment.as_ref().map(Untrusted::for_json), "decided_by": by.text()})
            }
            Self::ApprovalAlreadyUsed { record, outcome } => json!({"record": record, "outcome": outcome}),
            Self::ApprovalExpired | Self::NoSuchApproval | Self::ApprovalArgsMismatch | Self::ApprovalStale => {
                json!({})
            }
            Self::ContractsDiffer { tool } => json!({"tool": tool.to_string()}),
            Self::TooManyApprovals { most } => json!({"pending_max": most}),
        }
    }
}

fn unknown_field(field: &Untrusted, hint: &FieldHint) -> Value {
    match hint {
        FieldHint::Nearest(near) => json!({"field": field.for_json(), "nearest": near}),
        FieldHint::Shape(shape) => json!({"field": field.for_json(), "nearest": null, "send": shape.for_json()}),
        FieldHint::IntoArgs | FieldHint::Unknown => json!({"field": field.for_json(), "nearest": null}),
    }
}

fn confirmation_required(
    tool: &ToolName,
    risk: Option<RiskLevel>,
    needs_step_up: bool,
    approval: Option<&Ticket>,
) -> Value {
    let mut all = json!({
        "tool": tool.to_string(),
        "risk_level": risk.map(RiskLevel::as_str),
        "needs": if needs_step_up { vec!["confirmation", "step_up"] } else { vec!["confirmation"] },
    });
    if let (Some(ticket), Some(fields)) = (approval, all.as_object_mut()) {
        let Ticket { id, url, expires_ms, side_effects, retry, approvers } = ticket;
        fields.insert("approval_id".to_owned(), id.as_str().into());
        fields.insert("approve_url".to_owned(), url.as_str().into());
        fields.insert("expires_at".to_owned(), iso(*expires_ms).into());
        let side_effects: Vec<&str> = side_effects.iter().map(Untrusted::for_json).collect();
        fields.insert("side_effects".to_owned(), side_effects.into());
        let add = match retry {
            Retry::WithId => json!({"approval_id": id.as_str()}),
            Retry::AsItIs => json!({}),
        };
        fields.insert("retry".to_owned(), json!({"same_call": true, "add": add}));
        let missing = match approvers {
            Approvers::Ready => None,
            Approvers::NotEnrolled => Some("second_factor"),
            Approvers::NoAccount => Some("account"),
        };
        if let Some(missing) = missing {
            fields.insert("nobody_can_approve".to_owned(), true.into());
            fields.insert("approver_lacks".to_owned(), missing.into());
        }
    }
    all
}
