//! Checks of the users who approve calls, and of prompts in clients.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, Outcome, about, found, ok, or_ok, with_gateway, with_storage};
use crate::commands::doctor::facts::{Facts, UNSHOWN_DAYS};
use crate::terminal::output::{counted, counted_as};

/// Looks for a user who can approve. Until a user has a second factor, they can do nothing but add one.
pub(super) fn users(facts: &Facts) -> Vec<Finding> {
    with_storage(facts, |storage| match (storage.users, storage.approvers) {
        (0, _) => {
            let message = "No approver account exists, so nobody can approve a call.";
            let next = format!("open the setup link that `{}` prints when it starts", facts.command("serve"));
            vec![found(Outcome::Warning, message, next)]
        }
        (users, 0) => {
            let message = match users {
                1 => "The only user has no second factor, so nobody can approve a call.".to_owned(),
                users => format!("None of the {users} users has a second factor, so nobody can approve a call."),
            };
            let next = format!("sign in and add a second factor: {}", facts.command("open"));
            vec![found(Outcome::Warning, message, next)]
        }
        (users, approvers) => {
            let others = match users - approvers {
                0 => String::new(),
                others => format!(", {others} without a second factor cannot"),
            };
            ok(format!("{} can approve calls{others}", counted(approvers, "user")))
        }
    })
}

pub(super) fn approvals(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let waiting = gateway.status.pointer("/approvals/waiting").and_then(Value::as_u64).unwrap_or_default();
        match usize::try_from(waiting).unwrap_or(usize::MAX) {
            0 => ok("no call waits for an approval"),
            waiting => {
                let message = format!("{} for an approval.", counted_as(waiting, "call waits", "calls wait"));
                vec![found(Outcome::Warning, message, facts.command("approvals list"))]
            }
        }
    })
}

/// Finds clients that declined a prompt without showing it. The gateway records each of these prompts.
pub(super) fn elicitation(facts: &Facts) -> Vec<Finding> {
    with_storage(facts, |storage| {
        let mut by_client: BTreeMap<&str, usize> = BTreeMap::new();
        for client in &storage.unshown {
            *by_client.entry(client).or_default() += 1;
        }
        let findings = by_client.into_iter().map(|(client, count)| {
            let prompts = counted(count, "approval prompt");
            let message = format!(
                "In the last {UNSHOWN_DAYS} days, this client declined {prompts} faster than a user can read. It \
                 probably shows no prompts. The requests stayed open."
            );
            let open = facts.command("open");
            let next = format!("approve on the web page instead: {open}. Check the client's own settings for prompts");
            about(client, found(Outcome::Warning, message, next))
        });
        or_ok(findings.collect(), format!("no client declined a prompt unseen in the last {UNSHOWN_DAYS} days"))
    })
}
