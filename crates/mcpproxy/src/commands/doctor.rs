//! `doctor`: checks the data folder, the gateway, the servers and the agents, and says what to do.
//!
//! [`facts`] collects everything once. [`checks`] has one row per check, and each row is a function of the facts, so
//! that tests need neither files nor a gateway. `status` prints the findings of the same rows.

pub(crate) mod checks;
pub(crate) mod facts;
mod modes;
mod port;

use clap::Args;
use serde::Serialize;

use self::checks::{CHECKS, Finding, Outcome};
use self::facts::{Depth, Facts};
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, counted};
use crate::terminal::size::prose_columns;
use crate::terminal::style::{Colours, Tone};
use crate::terminal::wrap::{hanging, width};

/// Check everything, and say what is wrong and what to do
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy doctor
  mcpproxy doctor --fix
  mcpproxy doctor -o json

Each check has a stable code, such as `server_down`. The exit code is 0 if there are no errors, and 1 if there are. The command also works without a running gateway, and then skips some checks.

--fix removes permissions of other users on files in the data folder. It changes nothing else.")]
pub(crate) struct Doctor {
    /// Fix what can be fixed safely
    #[arg(long)]
    fix: bool,
}

/// The result of one check, or of one finding of it.
#[derive(Debug, Serialize)]
struct Row {
    code: &'static str,
    title: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

#[derive(Debug, Serialize)]
struct Report {
    errors: usize,
    warnings: usize,
    checks: Vec<Row>,
    /// Changes made by `--fix`.
    fixed: Vec<String>,
}

pub(crate) async fn run(home: &Home, format: Format, doctor: &Doctor) -> anyhow::Result<Exit> {
    let fixed = if doctor.fix { modes::fix(home) } else { Vec::new() };
    let facts = Facts::collect(home, Depth::Everything).await;
    let report = report(&facts, fixed);
    let exit = if report.errors > 0 { Exit::Failed } else { Exit::Done };
    format.print(&report, || text(&report, prose_columns(), Colours::of(&std::io::stdout())))?;
    Ok(exit)
}

fn report(facts: &Facts, fixed: Vec<String>) -> Report {
    let mut rows = Vec::new();
    for check in CHECKS {
        let findings = (check.run)(facts);
        rows.extend(findings.into_iter().map(|finding| Row { code: check.code, title: check.title, finding }));
    }
    let count = |outcome: Outcome| rows.iter().filter(|row| row.finding.result == outcome).count();
    Report { errors: count(Outcome::Error), warnings: count(Outcome::Warning), checks: rows, fixed }
}

fn text(report: &Report, room: usize, colours: Colours) -> String {
    let mut text: String = report.checks.iter().map(|row| block(row, room, colours)).collect();
    for line in &report.fixed {
        text.push_str(&format!("{} {}\n", colours.paint(Tone::Good, "✓ fixed"), hanging(line, room - 8, 10)));
    }
    let sum = match (report.errors, report.warnings) {
        (0, 0) => "No problems found.".to_owned(),
        (errors, warnings) => format!("{}, {}.", counted(errors, "error"), counted(warnings, "warning")),
    };
    format!("{text}\n{sum}\n")
}

/// Formats a row. A problem starts with its code, and below it says what it means and what to do. A row without a
/// problem starts with its title, because `server_down` would read as a contradiction there.
fn block(row: &Row, room: usize, colours: Colours) -> String {
    let Row { code, title, finding } = row;
    let outcome = finding.result;
    let start = format!("{:<9}", outcome.words());
    let indent = width(&start);
    let mark = colours.paint(outcome.tone(), &start);
    let is_fine = match outcome {
        Outcome::Ok | Outcome::Skipped => true,
        Outcome::Warning | Outcome::Error => false,
    };
    if is_fine {
        let subject = finding.subject.as_ref().map(|subject| format!("{subject}, ")).unwrap_or_default();
        let text = hanging(&format!("{title}: {subject}{}", finding.message), room, indent);
        return format!("{mark}{}\n", text.replacen(title, &colours.paint(Tone::Strong, title), 1));
    }
    let subject = finding.subject.as_ref().map(|subject| format!(" {subject}")).unwrap_or_default();
    let name = hanging(&format!("{code}{subject}"), room, indent);
    let mut text = format!("{mark}{}\n", name.replacen(code, &colours.paint(Tone::Strong, code), 1));
    text.push_str(&format!("{:indent$}{}\n", "", hanging(&finding.message, room, indent)));
    if let Some(next) = &finding.next {
        let label = colours.paint(Tone::Dim, "next:");
        text.push_str(&format!("{:indent$}{label} {}\n", "", hanging(next, room.saturating_sub(6), indent)));
    }
    text
}

#[cfg(test)]
mod tests;
