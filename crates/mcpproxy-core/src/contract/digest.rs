//! The contract that counts as one number, to see whether it is still the one a user said yes to.

use serde_json::{Value, json};

use super::show::{confirmation_word, dry_run_json, idempotency_json, pointers, rate_json, texts};
use super::{Effective, StepUp};
use crate::Digest;
use crate::json::canonical;
use crate::schema::Schema;

impl Effective {
    /// Of all that decides on a call or that somebody reads before deciding; not of where it is written.
    pub fn digest(&self) -> Digest {
        // Taken apart in full, so that no field can be forgotten here.
        let Self {
            description,
            category,
            risk,
            operation,
            autonomous,
            confirmation,
            step_up,
            input_schema,
            output_schema,
            permissions,
            side_effects,
            audit_event,
            failure_modes,
            idempotency,
            dry_run,
            rate_limit,
            sensitive,
            is_written: _,
            is_operators: _,
            written_operation,
        } = self;
        let all = json!({
            "description": description.as_ref().map(|it| it.value.for_json()),
            "category": category.as_ref().map(|it| &it.value),
            "risk": risk.as_ref().map(|it| it.value.as_str()),
            "operation": operation.as_ref().map(|it| it.value.operation()),
            "autonomous": autonomous.value,
            "confirmation": confirmation_word(confirmation.value),
            "stepUp": step_up_text(&step_up.value),
            "input": input_schema.as_ref().map(|it| schema_text(&it.value)),
            "output": output_schema.as_ref().map(|it| json!([it.value.is_strict, schema_text(&it.value.schema)])),
            "permissions": permissions.value,
            "sideEffects": texts(&side_effects.value),
            "auditEvent": audit_event.as_ref().map(|it| &it.value),
            "failureModes": failure_modes.as_ref().map(|it| &it.value),
            "idempotency": idempotency_json(&idempotency.value),
            "dryRun": dry_run_json(&dry_run.value),
            "rateLimit": rate_limit.as_ref().map(|it| rate_json(it.value)),
            "sensitive": pointers(&sensitive.value),
            // Whose word these are decides, too.
            "classified": self.is_classified(),
            "operators": self.is_operators_operation(),
            "nativeDryRun": self.native_dry_run(),
            "written": written_operation.map(crate::Variant::operation),
        });
        Digest::of(canonical(&all.to_string()).as_bytes())
    }
}

fn step_up_text(step_up: &StepUp) -> Value {
    match step_up {
        StepUp::Never => false.into(),
        StepUp::When(schema) => schema_text(schema).into(),
        StepUp::Always => true.into(),
    }
}

/// As text: a value would round large numbers.
fn schema_text(schema: &Schema) -> String {
    canonical(schema.text())
}
