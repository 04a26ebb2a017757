//! Invariants of reading any policy file.

use std::sync::Arc;

use mcpproxy_core::policy::{Clock, Policies};
use mcpproxy_core::{Agent, Catalog, Intent, Mistake, Offer, Offered, Scope, ServerName, Variant};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Policies::parse(&[("a.cedar".to_owned(), text.to_owned())]) {
        Ok(rules) => decides(&rules, text),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused without a reason: {text}");
            mistakes.iter().for_each(|(_, mistake)| is_in(mistake, text));
        }
    }
}

/// Checks that policies can be evaluated for a call, and that both ways to evaluate them agree.
fn decides(rules: &Policies, text: &str) {
    assert!(rules.iter().all(|rule| text.contains(&rule.text) && rule.line >= 1), "{text}");
    let catalog = catalog();
    let agent = Agent { name: "laptop".to_owned(), scope: Scope::everything() };
    for tool in catalog.tools() {
        let Some(tool_rules) = rules.for_tool(tool.subject()) else { continue };
        for variant in Variant::ALL {
            let intent = Intent { variant, sensitivity: None, reason: None };
            let clock = Clock { now_ms: 1_704_067_200_000, utc_offset_s: 3600 };
            let violations = tool_rules.violations(&agent, tool.subject(), &intent, clock);
            let explained = tool_rules.explain(&agent, tool.subject(), &intent, clock);
            let refusals = explained.iter().filter(|(_, outcome)| outcome.is_refusal()).map(|(rule, _)| &rule.id);
            assert!(violations.iter().map(|violation| &violation.rule).eq(refusals), "{text}");
        }
    }
}

fn is_in(mistake: &Mistake, text: &str) {
    let line = text.split('\n').nth(mistake.line.wrapping_sub(1));
    let line = line.unwrap_or_else(|| panic!("{mistake} is not in: {text}"));
    assert!((1..=line.chars().count() + 1).contains(&mistake.column), "{mistake} is not in: {text}");
    // Every policy that Cedar parses can be split.
    assert!(!mistake.message.contains("cannot be read") && !mistake.message.contains("about nothing"), "{text}");
    assert!(!mistake.message.is_empty() && !mistake.message.chars().any(char::is_control), "{mistake:?}");
}

fn catalog() -> Catalog {
    let server = |name: &str| ServerName::parse(name).unwrap_or_else(|error| panic!("{error}"));
    let offer = |server: &ServerName| {
        Offer::new([Offered::parse(server, r#"{"name":"send","inputSchema":{},"annotations":{"readOnlyHint":true}}"#)])
            .0
    };
    Catalog::new(["mail", "bank"].map(server).map(|server| (server.clone(), Arc::new(offer(&server)))))
}
