//! The command that makes a dry run of the call in the form.
//!
//! The page makes the dry run too, in the name of an agent that the user chooses. The command makes it as the agent of the
//! terminal, which is the way for scripts and for an agent that has to make its own.

use mcpproxy_core::{ToolName, Variant, json};

/// Longer arguments do not fit into a command line that people paste.
const ARGUMENTS_MAX_BYTES: usize = 4_096;

/// How to make a dry run of a tool.
pub(crate) struct DryRunCommand {
    /// True if the server simulates the call. Otherwise the gateway derives the result from the contract.
    pub(crate) is_native: bool,
    /// The part after `mcpproxy` and its option for the data folder.
    pub(crate) command: String,
    /// True if the arguments are too long for a command, or not JSON.
    pub(crate) lacks_arguments: bool,
}

impl DryRunCommand {
    pub(crate) fn new(name: &ToolName, variant: Variant, arguments: &str, is_native: bool) -> Self {
        let line = one_line(arguments);
        let fits = line.len() <= ARGUMENTS_MAX_BYTES && json::read(line.as_bytes()).is_ok();
        let args = match line.as_str() {
            "" | "{}" => String::new(),
            line if fits => format!(" --args {}", quoted(line)),
            _ => String::new(),
        };
        Self {
            is_native,
            command: format!("call tool-{} {}{args} --dry-run", variant.operation(), word(&name.to_string())),
            lacks_arguments: !fits && !line.is_empty(),
        }
    }
}

/// Removes line breaks and indentation. A string of JSON has no line break, so only spaces between values go.
fn one_line(arguments: &str) -> String {
    arguments.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Quotes a word for a POSIX shell, unless it needs no quotes.
fn word(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/'));
    if is_plain { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_can_be_pasted() {
        let check = |arguments: &str, expected: &str, lacks: bool| {
            let name = ToolName::parse("fx:send").unwrap();
            let made = DryRunCommand::new(&name, Variant::Write, arguments, false);
            assert_eq!((made.command.as_str(), made.lacks_arguments), (expected, lacks), "{arguments}");
        };
        check("", "call tool-write fx:send --dry-run", false);
        check("{}", "call tool-write fx:send --dry-run", false);
        let pasted = r#"call tool-write fx:send --args '{ "to": "it'\''s  me" }' --dry-run"#;
        check("{\n  \"to\": \"it's  me\"\n}", pasted, false);
        check("{not json", "call tool-write fx:send --dry-run", true);
        check(&format!("{{\"a\":\"{}\"}}", "x".repeat(5_000)), "call tool-write fx:send --dry-run", true);
    }
}
