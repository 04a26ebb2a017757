//! Collects findings about contracts, from the files and from the gateway.

use mcpproxy_core::Mistake;
use mcpproxy_core::review::lint::{self, Severity};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::terminal::output::{counted, line, lines};

/// Code of a file that cannot be read. All other codes come from the gateway.
const UNREADABLE: &str = "C000";

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    findings: Vec<Finding>,
    errors: usize,
    warnings: usize,
    hints: usize,
    /// True if the contracts were compared with the tools of the servers.
    servers_checked: bool,
}

/// One error or questionable choice.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    code: String,
    severity: String,
    subject: String,
    file: Option<String>,
    line: Option<usize>,
    #[serde(default)]
    column: Option<usize>,
    message: String,
    fix: String,
}

impl From<lint::Finding> for Finding {
    fn from(finding: lint::Finding) -> Self {
        let (file, line) = finding.place.map(|(file, line)| (file.to_string(), line)).unzip();
        Self {
            code: finding.code.to_owned(),
            severity: finding.severity.as_str().to_owned(),
            subject: finding.subject,
            file,
            line: line.filter(|line| *line > 0),
            column: None,
            message: finding.message,
            fix: finding.fix,
        }
    }
}

impl Finding {
    pub(super) fn of_mistake(file: String, mistake: Mistake) -> Self {
        Self {
            code: UNREADABLE.to_owned(),
            severity: Severity::Error.as_str().to_owned(),
            subject: file.clone(),
            file: Some(file),
            line: Some(mistake.line),
            column: Some(mistake.column),
            message: mistake.message,
            fix: "Fix the file. Until then, a running gateway keeps its previous contracts.".to_owned(),
        }
    }

    /// Builds a finding about a file itself: it is missing, not text, or not owned by this user.
    pub(super) fn of_failure(subject: String, message: String) -> Self {
        let mistake = Mistake { line: 0, column: 0, message };
        Self { file: None, line: None, column: None, fix: String::new(), ..Self::of_mistake(subject, mistake) }
    }

    fn place(&self) -> String {
        let Some(file) = &self.file else { return String::new() };
        let number = |number: Option<usize>| number.map(|number| format!(":{number}")).unwrap_or_default();
        format!("{}{}{}", line(file), number(self.line), number(self.column))
    }

    /// Formats a finding: code, tool and position on one line, then the reason and the fix.
    fn told(&self) -> String {
        let sign = match self.severity.as_str() {
            "error" => "✗",
            "warning" => "!",
            _ => "·",
        };
        let subject = if Some(&self.subject) == self.file.as_ref() { String::new() } else { line(&self.subject) };
        let mut text = format!("{sign} {:<7}  {}", line(&self.severity), line(&self.code));
        for part in [subject, self.place()].into_iter().filter(|part| !part.is_empty()) {
            text.push_str(&format!("  {part}"));
        }
        text.push('\n');
        for words in [&self.message, &self.fix].into_iter().filter(|words| !words.is_empty()) {
            for line in lines(words).lines() {
                text.push_str(&format!("    {line}\n"));
            }
        }
        text
    }
}

impl Report {
    pub(super) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            *match finding.severity.as_str() {
                "error" => &mut self.errors,
                "warning" => &mut self.warnings,
                _ => &mut self.hints,
            } += 1;
            self.findings.push(finding);
        }
    }

    pub(super) fn with_servers(&mut self) {
        self.servers_checked = true;
    }

    /// Sorts errors before warnings before notes.
    pub(super) fn sort(&mut self) {
        self.findings.sort_by_key(|finding| match finding.severity.as_str() {
            "error" => 0,
            "warning" => 1,
            _ => 2,
        });
    }

    pub(super) fn exit(&self, is_strict: bool) -> Exit {
        if self.errors > 0 || is_strict && self.warnings > 0 { Exit::Failed } else { Exit::Done }
    }

    pub(super) fn told(&self) -> String {
        let findings: String = self.findings.iter().map(|finding| finding.told() + "\n").collect();
        let (errors, warnings) = (counted(self.errors, "error"), counted(self.warnings, "warning"));
        format!("{findings}{errors}, {warnings}, {}\n", counted(self.hints, "hint"))
    }
}
