//! `config apply`: lets a user confirm changes that weaken contracts, policies or settings.
//!
//! The user signs in as for an approval, at a terminal, so that an agent with a shell cannot confirm its own edit. The
//! gateway applies exactly the files whose changes were shown: if they change meanwhile, it refuses.

use serde_json::{Value, json};

use super::confirm::{Question, answered};
use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, counted, line, member, tell};
use crate::terminal::prompt::Terminal;

pub(super) async fn run(home: &Home, format: Format) -> anyhow::Result<Exit> {
    // Reads the files now, so that the newest edit is shown.
    let answer = Rest::connect(home)?.reload().await?;
    let Some(held) = held(&answer) else {
        let nothing = json!({"applied": []});
        format.print(&nothing, || {
            "Nothing waits. The newest contracts, policies and settings are in force.\n".to_owned()
        })?;
        return Ok(Exit::Done);
    };
    let applied = confirm(home, held).await?;
    format.print(&applied, || "Applied. The newest contracts, policies and settings are in force.\n".to_owned())?;
    Ok(Exit::Done)
}

/// Confirms the part of a reload that waits, for a command that has written contracts itself. `answer` is that of the
/// reload. Returns true if everything is in force.
pub(in crate::commands) async fn confirm_own(home: &Home, answer: &Value) -> anyhow::Result<bool> {
    let Some(held) = held(answer) else { return Ok(true) };
    if Terminal::of_user().is_none() {
        let command = home.command("mcpproxy", "config apply");
        tell("Not applied, because it weakens contracts, policies or settings:");
        changes(held).iter().for_each(|change| tell(change));
        tell(&format!("To confirm, run `{command}` in a terminal."));
        return Ok(false);
    }
    confirm(home, held).await?;
    Ok(true)
}

fn held(answer: &Value) -> Option<&Value> {
    answer.get("held").filter(|held| held.is_object())
}

/// Shows the changes, signs the user in, and applies the changes if the user says so.
async fn confirm(home: &Home, held: &Value) -> anyhow::Result<Value> {
    let shown = changes(held).join("\n");
    let question = Question {
        title: "not applied",
        shown: format!("These changes allow more than what is in force:\n{shown}\n"),
        unattended: format!(
            "a user factor is required; changes that weaken contracts, policies or settings cannot be confirmed \
             non-interactively\n{shown}"
        ),
        otherwise: "restart the gateway to apply the changes",
        invitation: "Sign in to apply them. Press Ctrl-C to keep what is in force.",
        word: "apply",
        undecided: "You made no decision. The changes still wait.",
        path: "/api/v1/config/apply",
        body: json!({"digest": member(held, "digest")}),
        needs_step_up: held.get("needs_step_up") == Some(&Value::Bool(true)),
    };
    answered(home, &question).await
}

/// Lists the changes, one per line.
fn changes(held: &Value) -> Vec<String> {
    listed(held, "changes")
}

/// Lists what a gateway tells about weaker rules: a list, and the number of those that it left out.
pub(super) fn listed(answer: &Value, name: &str) -> Vec<String> {
    let all = answer.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let more = answer.get("more").and_then(Value::as_u64).unwrap_or_default();
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    let rest = (more > 0).then(|| format!("  … {}", counted(more, "more change")));
    all.iter().filter_map(Value::as_str).map(|change| format!("  {}", line(change))).chain(rest).collect()
}
