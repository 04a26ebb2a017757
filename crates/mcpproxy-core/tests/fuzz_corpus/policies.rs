//! Invariants of reading any text as a policy file.

use std::sync::Arc;

use mcpproxy_core::policy::{Clock, Policies};
use mcpproxy_core::{Agent, Catalog, Intent, Mistake, Offer, Offered, Scope, ServerName, Variant};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Policies::parse(&[("a.cedar".to_owned(), text.to_owned())]) {
        Ok(policies) => decides(&policies, text),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused without a reason: {text}");
            mistakes.iter().for_each(|(_, mistake)| is_in(mistake, text));
        }
    }
}

/// Checks that all parsed policies can be evaluated, and that `violations` and `explain` agree.
fn decides(policies: &Policies, text: &str) {
    assert!(policies.iter().all(|policy| text.contains(&policy.text) && policy.line >= 1), "{text}");
    let catalog = catalog();
    let agent = Agent { name: "laptop".to_owned(), scope: Scope::everything() };
    for tool in catalog.tools() {
        let Some(tool_policies) = policies.for_tool(tool.subject()) else { continue };
        for variant in Variant::ALL {
            let intent = Intent { variant, is_declared: true, sensitivity: None, reason: None };
            let clock = Clock { now_ms: 1_704_067_200_000, utc_offset_s: 3600 };
            let violations = tool_policies.violations(&agent, tool.subject(), &intent, clock);
            let explained = tool_policies.explain(&agent, tool.subject(), &intent, clock);
            let refusals = explained.iter().filter(|(_, outcome)| outcome.is_refusal()).map(|(policy, _)| &policy.id);
            assert!(violations.iter().map(|violation| &violation.policy).eq(refusals), "{text}");
        }
    }
}

fn is_in(mistake: &Mistake, text: &str) {
    let line = text.split('\n').nth(mistake.line.wrapping_sub(1));
    let line = line.unwrap_or_else(|| panic!("{mistake} is not in: {text}"));
    assert!((1..=line.chars().count() + 1).contains(&mistake.column), "{mistake} is not in: {text}");
    // If Cedar can parse a policy, so can we.
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
