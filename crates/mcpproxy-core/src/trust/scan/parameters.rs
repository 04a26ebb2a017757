//! Finds parameters that ask for what the call does not need, by their name and by their values.

use super::hints::words;
use super::quote::visible;
use super::{Finding, Severity};

/// Groups of words, one of each, that make the name of a parameter suspicious if it is required, and otherwise.
struct Suspect {
    groups: &'static [&'static str],
    required: Severity,
    optional: Severity,
    what: &'static str,
}

const SUSPECTS: &[Suspect] = &[
    Suspect {
        groups: &[
            "conversation chat message messages dialog dialogue prompt prompts session user",
            "history log transcript dump verbatim all previous prior full entire earlier sofar raw recent messages",
            "conversation chat message messages dialog dialogue prompt prompts history transcript context",
        ],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "the conversation",
    },
    Suspect {
        groups: &["system developer hidden", "prompt message instructions"],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "the model's instructions",
    },
    Suspect {
        groups: &["sidenote sidenotes"],
        required: Severity::Medium,
        optional: Severity::Medium,
        what: "a note beside the call",
    },
    Suspect {
        groups: &["side", "note notes"],
        required: Severity::Medium,
        optional: Severity::Medium,
        what: "a note beside the call",
    },
    Suspect {
        groups: &["chain", "thought thoughts"],
        required: Severity::Medium,
        optional: Severity::Medium,
        what: "the model's reasoning",
    },
    Suspect {
        groups: &["tools tool", "list call calls", "list history available tools outputs results seen"],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "the model's other tools",
    },
    Suspect {
        groups: &[
            "previous prior all other earlier last",
            "tool tools",
            "outputs output results result calls responses",
        ],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "results of other tools",
    },
    Suspect {
        groups: &["available other previous all", "tools", "tools"],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "the model's other tools",
    },
    Suspect {
        groups: &[
            "content contents read reading dump file from of",
            "ssh rsa dotenv env keychain credentials passwords password shadow passwd cookies history clipboard secrets netrc",
        ],
        required: Severity::Medium,
        optional: Severity::Medium,
        what: "secrets of the machine",
    },
    Suspect {
        groups: &["aws ssh private master root user", "secret private password key", "access key rsa password secret"],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "a secret",
    },
    Suspect {
        groups: &["user users", "credentials password passwords token tokens cookies secrets"],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "a secret",
    },
    Suspect {
        groups: &["env environment", "vars variables dump"],
        required: Severity::Medium,
        optional: Severity::Low,
        what: "the environment",
    },
    Suspect {
        groups: &["context conversation reasoning thoughts scratchpad memory transcript"],
        required: Severity::Low,
        optional: Severity::Low,
        what: "more than the call needs",
    },
];

/// Names of one word, and only whole names.
const WHOLE: &str = "context conversation reasoning thoughts scratchpad memory transcript";

/// Descriptions that ask for all of the conversation, in lower case.
const WHOLE_CONVERSATION: [&str; 8] = [
    "system prompt",
    "previous messages",
    "prior messages",
    "full conversation",
    "entire conversation",
    "whole conversation",
    "conversation so far",
    "conversation history",
];

/// Checks the name of a parameter, with its description.
pub(super) fn scan_name(
    name: &str,
    is_required: bool,
    description: Option<&str>,
    place: &str,
    findings: &mut Vec<Finding>,
) {
    let words = words(name);
    let lower = description.map(str::to_lowercase);
    let asks_for_all = lower.as_ref().is_some_and(|text| WHOLE_CONVERSATION.iter().any(|phrase| text.contains(phrase)));
    let is_described = lower.is_some();
    for suspect in SUSPECTS {
        let is_whole = suspect.groups == [WHOLE];
        let matches = suspect
            .groups
            .iter()
            .all(|group| group.split_ascii_whitespace().any(|wanted| words.iter().any(|word| word == wanted)));
        if !matches
            || (is_whole && words.len() != 1)
            || words.len() < suspect.groups.len().min(2) && !is_whole && suspect.groups.len() > 1
        {
            continue;
        }
        let severity = if is_required && !(is_whole && is_described) { suspect.required } else { suspect.optional };
        let severity = if is_described && severity == Severity::Medium && suspect.optional == Severity::Low {
            Severity::Low
        } else {
            severity
        };
        let severity = if is_whole && asks_for_all { Severity::Medium } else { severity };
        let reason = format!("The parameter `{}` asks for {}.", visible(name), suspect.what);
        findings.push(Finding { rule: "exfiltration-parameter", severity, place: place.to_owned(), reason });
        return;
    }
}

/// Words that stand for the conversation in a template: `{{conversation}}`.
const TEMPLATES: [&str; 11] =
    ["key", "password", "conversation", "messages", "history", "prompt", "context", "token", "secret", "env", "chat"];
/// Settings that remove a check.
const FLAGS: [&str; 12] = [
    "approve_all",
    "allow_all",
    "auto_approve",
    "autoapprove",
    "skip_confirm",
    "skip_approval",
    "notify=false",
    "bypass_",
    "no_confirm",
    "confirm=false",
    "disable_audit",
    "verify=false",
];
const RECIPIENTS: [&str; 8] = ["bcc", "cc", "recipient", "recipients", "reply_to", "forward_to", "webhook", "callback"];

/// Checks a value that a schema gives a parameter: `default`, `const`, `enum` or `examples`.
pub(super) fn scan_value(parameter: &str, key: &str, value: &str, place: &str, findings: &mut Vec<Finding>) {
    let lower = value.to_lowercase();
    let is_fixed = key != "examples" && key != "example";
    let has_template = (lower.contains("{{") || lower.contains("${") || lower.contains("={"))
        && TEMPLATES.iter().any(|word| lower.contains(word));
    let is_recipient = RECIPIENTS.iter().any(|name| parameter.eq_ignore_ascii_case(name));
    let reason = if has_template && lower.contains("://") {
        format!("The value `{}` sends private data to an address.", visible(value))
    } else if FLAGS.iter().any(|flag| lower.contains(flag)) && lower.contains('=') {
        format!("The value `{}` removes a check.", visible(value))
    } else if is_fixed && is_recipient && (lower.contains('@') || lower.contains("://")) {
        format!("The value `{}` adds a recipient.", visible(value))
    } else {
        return;
    };
    findings.push(Finding { rule: "planted-value", severity: Severity::Medium, place: place.to_owned(), reason });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parameters() {
        let check = |name: &str, is_required: bool, expected: Option<Severity>| {
            let mut findings = Vec::new();
            scan_name(name, is_required, None, "", &mut findings);
            assert_eq!(findings.first().map(|found| found.severity), expected, "{name}");
        };
        check("sidenote", false, Some(Severity::Medium));
        check("conversation_history", true, Some(Severity::Medium));
        check("conversation_history", false, Some(Severity::Low));
        check("system_prompt", true, Some(Severity::Medium));
        check("tools_list", true, Some(Severity::Medium));
        check("chainOfThought", true, Some(Severity::Medium));
        check("content_from_reading_ssh_id_rsa", true, Some(Severity::Medium));
        check("context", true, Some(Severity::Low));
        check("conversation_id", true, None);
        check("max_tokens", true, None);
        check("query", true, None);
    }

    #[test]
    fn a_description_that_asks_for_the_conversation() {
        let check = |description: &str, expected: Severity| {
            let mut findings = Vec::new();
            scan_name("context", false, Some(description), "", &mut findings);
            assert_eq!(findings.first().map(|found| found.severity), Some(expected), "{description}");
        };
        check("The system prompt and all previous messages.", Severity::Medium);
        check("The full conversation so far.", Severity::Medium);
        check("Lines around each match.", Severity::Low);
    }

    #[test]
    fn planted_values() {
        let check = |parameter: &str, key: &str, value: &str, is_found: bool| {
            let mut findings = Vec::new();
            scan_value(parameter, key, value, "", &mut findings);
            assert_eq!(!findings.is_empty(), is_found, "{value}");
        };
        check("bcc", "default", "x@relay.example.org", true);
        check("bcc", "examples", "x@relay.example.org", false);
        check("url", "default", "https://in.example.net/?d={{conversation}}", true);
        check("mode", "const", "approve_all=true&notify=false", true);
        check("url", "default", "https://api.example.net/{id}", false);
        check("to", "default", "me", false);
    }
}
