//! `contract diff`: compares two sets of contract files, or one with the contracts in force.

use std::path::Path;

use http::Method;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::review::diff::{FieldChange, ToolChange, of_files};
use serde_json::{Value, json};

use super::lint::of_gateway;
use crate::client::Rest;
use crate::client::state::{held_changes, held_words};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::{self, CONTRACTS, bad_given, published};
use crate::terminal::output::{Format, counted, line};
use crate::terminal::size;
use crate::terminal::wrap::hanging;

/// Stands for the contracts of the running gateway.
const LIVE: &str = "live";
const INDENT: &str = "  ";

pub(super) async fn run(home: &Home, format: Format, before: &Path, after: &Path) -> anyhow::Result<()> {
    let old = read(home, before).await?;
    let new = read(home, after).await?;
    let changes = of_files(&old, &new);
    let answer = json!({
        "before": before.display().to_string(),
        "after": after.display().to_string(),
        "tools": changes.iter().map(to_json).collect::<Vec<_>>(),
    });
    format.print(&answer, || told(&changes, size::columns()))
}

/// Reads one side: a file, a folder, or the contracts in force.
async fn read(home: &Home, path: &Path) -> anyhow::Result<Contracts> {
    if path == Path::new(LIVE) {
        return live(home).await;
    }
    let parsed = Contracts::parse(&CONTRACTS.read_given(path)?);
    Ok(parsed.map_err(|mistakes| bad_given(&mistakes).title("invalid contracts"))?)
}

/// Returns the contracts that the running gateway enforces. It reloads the files of its folder, so these are the files,
/// unless it refused them.
async fn live(home: &Home) -> anyhow::Result<Contracts> {
    published::check_readable(home)?;
    let rest = Rest::connect(home)?;
    let contracts = operator_files::read_contracts(&home.settings())?;
    let (_, is_same) = of_gateway(&rest, &contracts).await?;
    if is_same {
        return Ok(contracts);
    }
    let status = rest.ask(Method::GET, "/api/v1/status").await?;
    Err(not_live(home, held_changes(&status)).into())
}

/// Returns the reason why the contracts in force are not known here: not all files of the folder are in force.
fn not_live(home: &Home, held: usize) -> Failure {
    if held == 0 {
        let message = "the running gateway still uses its previous contracts, not the files of its folder";
        return Failure::new(Exit::Failed, message)
            .hint(format!("find the reason with `{}`", home.command("mcpproxy", "config check")));
    }
    let message = format!("{},\nso the files of the folder are not all in force", held_words(held));
    Failure::new(Exit::Failed, message)
        .hint(format!("confirm with `{}`, then compare again", home.command("mcpproxy", "config apply")))
}

fn to_json(change: &ToolChange) -> Value {
    json!({
        "tool": change.tool,
        "change": change.kind.as_str(),
        "fields": change.fields.iter().map(FieldChange::to_json).collect::<Vec<_>>(),
    })
}

fn told(changes: &[ToolChange], room: Option<usize>) -> String {
    if changes.is_empty() {
        return "No differences.\n".to_owned();
    }
    let mut text = String::new();
    for change in changes {
        text.push_str(&format!("{} ({})\n", line(&change.tool), change.kind.as_str()));
        for field in &change.fields {
            let words = field.words();
            let words = room.map_or_else(|| words.clone(), |room| hanging(&words, room, INDENT.len()));
            text.push_str(&format!("{INDENT}{words}\n"));
        }
        text.push('\n');
    }
    text + &format!("{} changed\n", counted(changes.len(), "contract"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_as_people_read_them() {
        let contracts = |text: &str| Contracts::parse(&[("mail.yaml".to_owned(), text.to_owned())]).unwrap();
        let old = contracts("tool: mail:send\nriskLevel: low\n");
        let new = contracts("- tool: mail:send\n  riskLevel: high\n- tool: mail:list\n  riskLevel: low\n");
        assert_eq!(
            told(&of_files(&old, &new), None),
            "mail:list (added)\n  riskLevel none → low (mail.yaml:4)\n\nmail:send (changed)\n  riskLevel low → high \
             (mail.yaml:2)\n  needs none → confirmation (mail.yaml:2)\n\n2 contracts changed\n"
        );
        assert_eq!(told(&of_files(&old, &old), None), "No differences.\n");
    }
}
