//! Collects findings about contracts, from the files and from the gateway.

use mcpproxy_core::Mistake;
use mcpproxy_core::review::lint::{self, Severity};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::terminal::output::{counted, line, lines};
use crate::terminal::wrap::{hanging, width};

/// Code of a file that cannot be read. All other codes come from the gateway.
const UNREADABLE: &str = "C000";
const INDENT: &str = "    ";

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

    /// Returns the tool or file with its position.
    fn subject(&self) -> String {
        let subject = if Some(&self.subject) == self.file.as_ref() { String::new() } else { line(&self.subject) };
        let parts: Vec<String> = [subject, self.place()].into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("  ")
    }

    /// Returns whether two findings say the same about different tools.
    fn is_like(&self, other: &Self) -> bool {
        (&self.code, &self.severity, &self.message, &self.fix)
            == (&other.code, &other.severity, &other.message, &other.fix)
    }
}

/// Formats findings that say the same: the code and one line for each tool, then the reason and the fix once.
///
/// ```text
/// ! warning  C304  mail:send  contracts/mail.yaml:3
///                  mail:send_all  contracts/mail.yaml:9
///     high without `permissions`
///     list the permissions that a token needs, such as `emails:send`
/// ```
fn block(alike: &[&Finding], room: Option<usize>) -> String {
    let Some(first) = alike.first() else { return String::new() };
    let sign = match first.severity.as_str() {
        "error" => "✗",
        "warning" => "!",
        _ => "·",
    };
    let start = format!("{sign} {:<7}  {}", line(&first.severity), line(&first.code));
    let subjects: Vec<String> =
        alike.iter().map(|finding| finding.subject()).filter(|subject| !subject.is_empty()).collect();
    let widest = subjects.iter().map(|subject| width(subject)).max().unwrap_or_default();
    let mut text = start.clone();
    // Beside the code if there is room, and below it if not.
    let beside = width(&start) + 2;
    if room.is_none_or(|room| beside + widest <= room) {
        let lines = subjects.join(&format!("\n{:beside$}", ""));
        text.push_str(format!("  {lines}").trim_end());
    } else {
        subjects.iter().for_each(|subject| text.push_str(&format!("\n{INDENT}{}", fitted(subject, room))));
    }
    text.push('\n');
    for words in [&first.message, &first.fix].into_iter().filter(|words| !words.is_empty()) {
        for line in lines(words).lines() {
            text.push_str(&format!("{INDENT}{}\n", fitted(line, room)));
        }
    }
    text
}

/// Wraps a line below the code.
fn fitted(text: &str, room: Option<usize>) -> String {
    // Without a terminal, a finding keeps its lines whole, so that `grep` finds them.
    room.map_or_else(|| text.to_owned(), |room| hanging(text, room, INDENT.len()))
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

    pub(super) fn told(&self, room: Option<usize>) -> String {
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        for finding in &self.findings {
            match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.is_like(finding))) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        let findings: String = groups.iter().map(|group| block(group, room) + "\n").collect();
        let (errors, warnings) = (counted(self.errors, "error"), counted(self.warnings, "warning"));
        format!("{findings}{errors}, {warnings}, {}\n", counted(self.hints, "hint"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_say_the_same_share_a_block() {
        let finding = |code: &str, subject: &str, line: usize, message: &str| Finding {
            code: code.to_owned(),
            severity: "warning".to_owned(),
            subject: subject.to_owned(),
            file: Some("contracts/mail.yaml".to_owned()),
            line: Some(line),
            column: None,
            message: message.to_owned(),
            fix: "list the permissions that a token needs, such as `emails:send`".to_owned(),
        };
        let mut report = Report::default();
        report.add([
            finding("C304", "mail:send", 3, "high without `permissions`"),
            finding("C002", "mail:snd", 5, "server `mail` has no such tool"),
            finding("C304", "mail:send_to_everybody", 9, "high without `permissions`"),
        ]);
        let text = report.told(None);
        assert_eq!(
            text,
            "! warning  C304  mail:send  contracts/mail.yaml:3\n                 mail:send_to_everybody  \
             contracts/mail.yaml:9\n    high without `permissions`\n    list the permissions that a token needs, such \
             as `emails:send`\n\n! warning  C002  mail:snd  contracts/mail.yaml:5\n    server `mail` has no such \
             tool\n    list the permissions that a token needs, such as `emails:send`\n\n0 errors, 3 warnings, 0 hints\n"
        );
        let narrow = report.told(Some(50));
        assert!(narrow.lines().all(|line| width(line) <= 50), "{narrow}");
        assert!(narrow.starts_with("! warning  C304\n    mail:send contracts/mail.yaml:3\n"), "{narrow}");
    }
}
