//! Tells whether a change of one contract field may allow more than before.
//!
//! Each function gets the merged value before and after. Two schemas cannot be compared, so another schema counts as
//! weaker than the one before. When in doubt, the answer is true: then a user confirms the change.

use std::sync::Arc;

use super::values::schemas::digest_text;
use super::{Confirmation, DryRun, OutputSchema, RateLimit, StepUp};
use crate::schema::Schema;

/// For fields that decide nothing.
pub(super) fn never<T: ?Sized>(_before: Option<&T>, _after: Option<&T>) -> bool {
    false
}

/// For lists of requirements: one that is gone allows more.
pub(super) fn is_one_gone<T: PartialEq>(before: Option<&Vec<T>>, after: Option<&Vec<T>>) -> bool {
    let is_kept = |one: &T| after.is_some_and(|after| after.contains(one));
    before.is_some_and(|before| !before.iter().all(is_kept))
}

/// Any other schema may admit more. The order of keys does not matter.
pub(super) fn input_schema(before: Option<&Arc<Schema>>, after: Option<&Arc<Schema>>) -> bool {
    before.is_some_and(|before| after.is_none_or(|after| !is_same(before, after)))
}

/// Only a strict schema keeps a result from the agent.
pub(super) fn output_schema(before: Option<&OutputSchema>, after: Option<&OutputSchema>) -> bool {
    let is_kept =
        |before: &OutputSchema| after.is_some_and(|after| after.is_strict && is_same(&before.schema, &after.schema));
    before.is_some_and(|before| before.is_strict && !is_kept(before))
}

pub(super) fn confirmation(before: Option<&Confirmation>, after: Option<&Confirmation>) -> bool {
    if let (Some(Confirmation::When(before)), Some(Confirmation::When(after))) = (before, after) {
        return !is_same(before, after);
    }
    let rank = |one: Option<&Confirmation>| one.map_or(0, Confirmation::rank);
    rank(after) < rank(before)
}

pub(super) fn step_up(before: Option<&StepUp>, after: Option<&StepUp>) -> bool {
    if let (Some(StepUp::When(before)), Some(StepUp::When(after))) = (before, after) {
        return !is_same(before, after);
    }
    let rank = |one: Option<&StepUp>| match one {
        None | Some(StepUp::Never) => 0,
        Some(StepUp::When(_)) => 1,
        Some(StepUp::Always) => 2,
    };
    rank(after) < rank(before)
}

fn is_same(before: &Schema, after: &Schema) -> bool {
    digest_text(before) == digest_text(after)
}

pub(super) fn dry_run(before: Option<&DryRun>, after: Option<&DryRun>) -> bool {
    let is_required = |one: Option<&DryRun>| matches!(one, Some(DryRun::Required { .. }));
    is_required(before) && !is_required(after)
}

pub(super) fn rate_limit(before: Option<&RateLimit>, after: Option<&RateLimit>) -> bool {
    match (before, after) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(before), Some(after)) => after.calls > before.calls || after.per < before.per,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Hints;
    use crate::contract::{Contracts, Effective};

    #[test]
    fn each_field_knows_what_is_weaker() {
        let effective = |fields: &str| {
            let text = format!("tool: fx:a\n{fields}\n");
            let contracts = Contracts::parse(&[("a.yaml".to_owned(), text)]).unwrap();
            let written: Vec<_> = contracts.iter().map(|(_, contract)| Arc::clone(contract)).collect();
            Effective::of(&written.iter().collect::<Vec<_>>(), None, Hints::default())
        };
        // The change of each row weakens these fields. The way back weakens those in the last column.
        let check = |before: &str, after: &str, there: &[&str], back: &[&str]| {
            let (before, after) = (effective(before), effective(after));
            assert_eq!(before.weaker_fields(&after), there);
            assert_eq!(after.weaker_fields(&before), back);
            assert!(before.weaker_fields(&before).is_empty() && after.weaker_fields(&after).is_empty());
        };
        check("riskLevel: medium", "riskLevel: low", &["riskLevel"], &[]);
        check("riskLevel: low", "category: x", &["riskLevel"], &[]);
        check("riskLevel: forbidden", "riskLevel: low", &["riskLevel", "autonomousExecution", "confirmation"], &[]);
        check(
            "riskLevel: critical",
            "riskLevel: low",
            &["riskLevel", "autonomousExecution", "confirmation", "stepUpAuth"],
            &[],
        );
        check("riskLevel: critical", "riskLevel: critical\nstepUpAuth: false", &["stepUpAuth"], &[]);
        check("operation: destructive", "operation: write", &["operation"], &[]);
        check("operation: read", "category: x", &["operation"], &[]);
        check("autonomousExecution: false", "autonomousExecution: true", &["autonomousExecution"], &[]);
        check("confirmation: required", "confirmation: { when: { required: [a] } }", &["confirmation"], &[]);
        check(
            "confirmation: { when: { required: [a] } }",
            "confirmation: { when: { required: [b] } }",
            &["confirmation"],
            &["confirmation"],
        );
        check("inputSchema: { required: [a] }", "inputSchema: { required: [b] }", &["inputSchema"], &["inputSchema"]);
        check("inputSchema: { required: [a] }", "category: x", &["inputSchema"], &[]);
        check("inputSchema: { type: object, required: [a] }", "inputSchema: { required: [a], type: object }", &[], &[]);
        check("outputSchema: { type: object, strict: true }", "category: x", &["outputSchema"], &[]);
        check("outputSchema: { type: object }", "category: x", &[], &[]);
        check("permissions: [a:b, a:c]", "permissions: [a:b]", &["permissions"], &[]);
        check("permissions: [a:b]", "permissions: [a:c]", &["permissions"], &["permissions"]);
        check("idempotency: key", "category: x", &["idempotency"], &[]);
        check("dryRun: required", "dryRun: supported", &["dryRun"], &[]);
        check("rateLimit: { calls: 1, per: 1m }", "rateLimit: { calls: 2, per: 1m }", &["rateLimit"], &[]);
        check("rateLimit: { calls: 1, per: 1m }", "category: x", &["rateLimit"], &[]);
        check("sensitive: [/a, /b]", "sensitive: [/b]", &["sensitive"], &[]);
        check("description: x\nauditEvent: x\nversion: '1'", "category: x", &[], &[]);
    }
}
