//! Signs the user in, sends the decisions, and says what became of them.

use serde_json::{Value, json};

use super::entry::{Choice, Entry, Review};
use super::visible::visible;
use crate::client::{Http, no_gateway};
use crate::commands::approvals::has_users;
use crate::commands::approvals::sign_in::{Session, UserAtTerminal};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, tell};

/// Decisions in one request, far below the limits of the gateway.
const BATCH: usize = 1000;
/// Definitions that the result names.
const NAMED_MAX: usize = 5;

/// Checks that somebody can sign in, before the user reads everything in vain.
pub(super) async fn check_users(home: &Home) -> anyhow::Result<()> {
    if has_users(home).await {
        return Ok(());
    }
    let serve = home.command("mcpproxy", "serve");
    let hint = format!("open the setup link that `{serve}` printed. After a restart, it prints another");
    let message = "No approver account exists yet, so nobody can accept or reject definitions.";
    Err(Failure::new(Exit::Refused, message).hint(hint).into())
}

/// Signs in, sends the decisions and prints the results.
pub(super) async fn send(
    home: &Home,
    user: &mut UserAtTerminal,
    review: &Review,
    choices: &[Option<Choice>],
    format: Format,
) -> anyhow::Result<Exit> {
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    let session = user.sign_in(&Http::new(&running)?).await?;
    let decided: Vec<(&Entry, Choice)> =
        review.entries.iter().zip(choices).filter_map(|(entry, choice)| Some((entry, (*choice)?))).collect();
    let results = post(&session, &review.server, &decided).await;
    session.close().await;
    let results = results?;
    let outcome = Outcome::of(&decided, &results);
    format.print(&json!({ "results": results }), || outcome.text())?;
    let left = review.waiting() - decided.iter().filter(|(entry, _)| !entry.is_rejected()).count();
    if left > 0 {
        tell(&format!("{left} still waiting."));
    }
    Ok(if outcome.is_complete() { Exit::Done } else { Exit::Failed })
}

/// Sends the decisions in batches. Returns all results, in the order of the decisions.
async fn post(session: &Session, server: &str, decided: &[(&Entry, Choice)]) -> anyhow::Result<Vec<Value>> {
    let path = format!("/api/v1/servers/{server}/review");
    let mut results = Vec::with_capacity(decided.len());
    for batch in decided.chunks(BATCH) {
        let list = |choice: Choice| -> Vec<Value> {
            let chosen = batch.iter().filter(|(_, one)| *one == choice);
            let named = |entry: &Entry| {
                let rejected = entry.is_rejected();
                json!({"kind": entry.kind, "name": entry.name, "pin": entry.pin, "rejected": rejected})
            };
            chosen.map(|(entry, _)| named(entry)).collect()
        };
        let (accept, reject) = (list(Choice::Accept), list(Choice::Reject));
        let body = json!({"accept": accept, "reject": reject, "page_key": session.page_key()});
        let reply = session.post(&path, &body).await?;
        if reply.code().is_some() {
            let done = if results.is_empty() { String::new() } else { format!(" after {} decisions", results.len()) };
            let failure = Failure::new(Exit::Refused, format!("{}{done}", reply.failure()));
            return Err(match reply.code() {
                Some("not_enrolled") => failure.hint(format!("sign in and add one: {}", "mcpproxy open")),
                Some("definitions_locked") => failure.hint("write the lock file again with `mcpproxy lock`"),
                _ => failure,
            }
            .into());
        }
        let answered = reply.answer.get("results").and_then(Value::as_array).cloned().unwrap_or_default();
        results.extend(in_order(batch, &answered));
    }
    Ok(results)
}

/// Sorts the answers of a batch, which has accepted definitions first, in the order of the decisions.
fn in_order(batch: &[(&Entry, Choice)], answered: &[Value]) -> Vec<Value> {
    let accepted = batch.iter().filter(|(_, choice)| *choice == Choice::Accept).count();
    let (mut accept, mut reject) = (answered.iter().take(accepted), answered.iter().skip(accepted));
    let next = |(_, choice): &(&Entry, Choice)| match choice {
        Choice::Accept => accept.next(),
        Choice::Reject => reject.next(),
    };
    batch.iter().map(next).map(|one| one.cloned().unwrap_or_default()).collect()
}

/// The results, counted.
#[derive(Default)]
struct Outcome {
    accepted: usize,
    rejected: usize,
    /// Definitions of which another version waits now.
    changed: Vec<String>,
    /// Definitions that somebody else has decided on, or that the server no longer lists.
    gone: Vec<String>,
}

impl Outcome {
    fn of(decided: &[(&Entry, Choice)], results: &[Value]) -> Self {
        let mut outcome = Self::default();
        for ((entry, choice), result) in decided.iter().zip(results) {
            match (result.get("result").and_then(Value::as_str), choice) {
                (Some("done"), Choice::Accept) => outcome.accepted += 1,
                (Some("done"), Choice::Reject) => outcome.rejected += 1,
                (Some("gone"), _) => outcome.gone.push(visible(&entry.title())),
                (_, _) => outcome.changed.push(visible(&entry.title())),
            }
        }
        outcome
    }

    fn is_complete(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }

    /// Words the results: `accepted 3, rejected 1; 1 changed while you were reading: review it again (tool a)`.
    fn text(&self) -> String {
        let mut done = Vec::new();
        if self.accepted > 0 || self.rejected == 0 {
            done.push(format!("accepted {}", self.accepted));
        }
        if self.rejected > 0 {
            done.push(format!("rejected {}", self.rejected));
        }
        let mut text = format!("{}\n", done.join(", "));
        if !self.changed.is_empty() {
            let it = if self.changed.len() == 1 { "it" } else { "them" };
            let count = self.changed.len();
            text.push_str(&format!("{count} changed while you were reading: review {it} again\n"));
            text.push_str(&named(&self.changed));
        }
        if !self.gone.is_empty() {
            let count = self.gone.len();
            text.push_str(&format!("{count} no longer waiting: withdrawn, or decided by somebody else\n"));
            text.push_str(&named(&self.gone));
        }
        text
    }
}

fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let rest = (more > 0).then(|| format!("  … {more} more\n"));
    names.iter().take(NAMED_MAX).map(|name| format!("  {name}\n")).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::Choice::{Accept, Reject};
    use super::*;

    fn entry(name: &str) -> Entry {
        serde_json::from_value(json!({
            "kind": "tool", "name": name, "pin": "", "reason": "new", "old": null, "new": {}, "changes": [],
            "kinds": [], "resembles": null, "findings": [], "first_seen_ms": 0, "times": 1,
        }))
        .unwrap()
    }

    #[test]
    fn results_are_true() {
        let entries = ["a", "b", "c", "d"].map(entry);
        let check = |results: &[(Choice, &str)], expected: &str| {
            let decided: Vec<(&Entry, Choice)> =
                entries.iter().zip(results).map(|(entry, (choice, _))| (entry, *choice)).collect();
            let results: Vec<Value> = results.iter().map(|(_, result)| json!({"result": result})).collect();
            assert_eq!(Outcome::of(&decided, &results).text(), expected);
        };
        check(&[(Accept, "done"), (Accept, "done"), (Reject, "done")], "accepted 2, rejected 1\n");
        check(&[(Reject, "done")], "rejected 1\n");
        check(
            &[(Accept, "done"), (Accept, "changed"), (Reject, "gone")],
            "accepted 1\n1 changed while you were reading: review it again\n  tool b\n1 no longer waiting: withdrawn, or \
             decided by somebody else\n  tool c\n",
        );
        check(
            &[(Accept, "changed"), (Reject, "changed")],
            "accepted 0\n2 changed while you were reading: review them again\n  tool a\n  tool b\n",
        );
        check(
            &[(Accept, "a word of a later version")],
            "accepted 0\n1 changed while you were reading: review it again\n  tool a\n",
        );
    }

    #[test]
    fn answers_return_to_their_decisions() {
        let entries = ["a", "b", "c"].map(entry);
        let [a, b, c] = &entries;
        let batch = [(a, Choice::Reject), (b, Choice::Accept), (c, Choice::Reject)];
        let answered = ["b", "a", "c"].map(|name| json!({"name": name}));
        let ordered = in_order(&batch, &answered);
        assert_eq!(ordered, ["a", "b", "c"].map(|name| json!({"name": name})));
    }
}
