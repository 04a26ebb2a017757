//! Tests the decisions on intent and annotations: against the rows of the specification, and a second implementation.

use std::sync::LazyLock;

use mcpproxy_core::Variant;
use mcpproxy_core::settings::{IntentSettings, TwoKey, Unannotated};
use proptest::prelude::*;

use super::generator::{Row, rows};

/// The validation matrices of the intent documents, row by row, under the name of each row there.
#[test]
fn every_row_of_the_specification() {
    use TwoKey::{Optional, Required};
    use Variant::{Destructive, Read, Write};
    const NONE: (Option<bool>, Option<bool>) = (None, None);
    const READ_ONLY: (Option<bool>, Option<bool>) = (Some(true), None);
    const DESTRUCTIVE: (Option<bool>, Option<bool>) = (None, Some(true));
    const BOTH: (Option<bool>, Option<bool>) = (Some(true), Some(true));
    let strict = |two_key| IntentSettings { two_key, ..IntentSettings::default() };
    let check = |name: &str, (variant, declared, hints), two_key, expected: &str| {
        assert_eq!(find(variant, declared, hints, &strict(two_key)).outcome, expected, "{name}");
    };
    let marked = "deny SERVER_MISMATCH, use call_tool_destructive";
    let cautious = "allow warn overly_cautious";
    for (two_key, read, write, destructive) in
        [(Optional, None, None, None), (Required, Some("read"), Some("write"), Some("destructive"))]
    {
        check("call_tool_read, readOnlyHint=true: ALLOW", (Read, read, READ_ONLY), two_key, "allow");
        check("call_tool_read, destructiveHint=true: REJECT", (Read, read, DESTRUCTIVE), two_key, marked);
        check("call_tool_read, no annotation: ALLOW (trust agent)", (Read, read, NONE), two_key, "allow unverified");
        check("call_tool_write, readOnlyHint=true: WARN + ALLOW", (Write, write, READ_ONLY), two_key, cautious);
        check("call_tool_write, destructiveHint=true: REJECT", (Write, write, DESTRUCTIVE), two_key, marked);
        check("call_tool_write, no annotation: ALLOW", (Write, write, NONE), two_key, "allow unverified");
        for hints in [NONE, READ_ONLY, DESTRUCTIVE, BOTH] {
            let name = "call_tool_destructive, any: ALLOW (most permissive)";
            check(name, (Destructive, destructive, hints), two_key, "allow");
        }
        check("both hints: destructive wins", (Read, read, BOTH), two_key, marked);
    }
    let mismatch = "deny INTENT_MISMATCH";
    for two_key in [Optional, Required] {
        for hints in [NONE, READ_ONLY, DESTRUCTIVE, BOTH] {
            check("call_tool_read, \"write\", any: REJECT", (Read, Some("write"), hints), two_key, mismatch);
            check(
                "call_tool_write, \"destructive\", any: REJECT",
                (Write, Some("destructive"), hints),
                two_key,
                mismatch,
            );
            check(
                "call_tool_destructive, \"read\", any: REJECT",
                (Destructive, Some("read"), hints),
                two_key,
                mismatch,
            );
        }
    }
    for variant in Variant::ALL {
        for hints in [NONE, READ_ONLY, DESTRUCTIVE, BOTH] {
            let name = "any, missing, any: REJECT (intent required)";
            check(name, (variant, None, hints), Required, "deny MISSING_INTENT");
        }
    }
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(rows);

fn find(
    variant: Variant,
    declared: Option<&str>,
    hints: (Option<bool>, Option<bool>),
    settings: &IntentSettings,
) -> &'static Row {
    let is_wanted = |row: &Row| {
        row.variant == variant
            && row.declared == declared
            && (row.read_only, row.destructive) == hints
            && row.settings == *settings
    };
    ROWS.iter().find(|row| is_wanted(row)).unwrap()
}

/// A second implementation of the decision, as a ladder: each variant is a rung, and each annotation names the rung a
/// tool needs.
fn second_reading(row: &Row) -> String {
    let names = ["read", "write", "destructive"];
    let stands = Variant::ALL.iter().position(|variant| *variant == row.variant).unwrap();
    if let Some(word) = row.declared {
        match names.iter().position(|name| *name == word) {
            None => return "deny INVALID_OPERATION_TYPE".to_owned(),
            Some(said) if said != stands => return "deny INTENT_MISMATCH".to_owned(),
            Some(_) => {}
        }
    } else if row.settings.two_key == TwoKey::Required {
        return "deny MISSING_INTENT".to_owned();
    }
    // Nothing is above the top rung, so this variant may use every tool.
    if stands == 2 {
        return "allow".to_owned();
    }
    let needs = match row.destructive {
        Some(true) => Some(2),
        Some(false) | None => row.read_only.map(|only_reads| usize::from(!only_reads)),
    };
    match needs {
        Some(needed) if stands < needed && row.settings.strict_server_validation => {
            format!("deny SERVER_MISMATCH, use call_tool_{}", names[needed])
        }
        Some(needed) if stands < needed => "allow warn SERVER_MISMATCH unverified".to_owned(),
        Some(needed) if stands > needed => "allow warn overly_cautious".to_owned(),
        Some(_) => "allow".to_owned(),
        // No annotation names a rung. Writing is the safe guess, and for reading the settings decide.
        None if stands == 1 && row.destructive == Some(false) => "allow".to_owned(),
        None if stands == 1 => "allow unverified".to_owned(),
        None => match row.settings.unannotated {
            Unannotated::Trust => "allow unverified".to_owned(),
            Unannotated::Warn => "allow warn unannotated unverified".to_owned(),
            Unannotated::RequireWrite => "deny SERVER_MISMATCH, use call_tool_write".to_owned(),
        },
    }
}

#[test]
fn both_readings_agree_on_every_row() {
    assert_eq!(ROWS.len(), 3 * 5 * 9 * 2 * 2 * 3);
    for row in ROWS.iter() {
        assert_eq!(row.outcome, second_reading(row), "{row:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A more cautious call is never refused, unless its declaration contradicts it.
    #[test]
    fn more_careful_is_never_refused(index in 0usize..1620) {
        let row = &ROWS[index];
        if row.declared.is_none() && row.outcome.starts_with("allow") {
            let careful = find(Variant::Destructive, None, (row.read_only, row.destructive), &row.settings);
            prop_assert!(careful.outcome.starts_with("allow"), "{:?}", careful);
        }
    }

    /// Stricter settings never allow a call that weaker settings deny.
    #[test]
    fn stricter_settings_never_allow_more(index in 0usize..1620) {
        let row = &ROWS[index];
        if row.outcome.starts_with("deny") {
            let stricter = IntentSettings { strict_server_validation: true, two_key: TwoKey::Required, ..row.settings.clone() };
            let outcome = &find(row.variant, row.declared, (row.read_only, row.destructive), &stricter).outcome;
            prop_assert!(outcome.starts_with("deny"), "{}", outcome);
        }
    }
}
