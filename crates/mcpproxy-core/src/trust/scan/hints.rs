//! Finds annotations that contradict the name or the description: a tool named `delete_user` that claims to be
//! read-only. The gateway lets agents call read-only tools with less care, so such a lie pays.

use serde_json::Value;

use super::{Finding, Severity};

/// Verbs that destroy.
const DESTROY: &str = "delete remove drop destroy purge wipe erase truncate uninstall revoke terminate kill cancel shred \
    overwrite deletes removes drops destroys purges wipes erases deprovision unpublish disband rm del detach evict flush discard void";
/// Verbs that reach other people or move money.
const SEND: &str = "send publish tweet reply pay transfer refund charge purchase buy sell withdraw broadcast email invite \
    sends publishes transfers pays post posts forward book order payment payout";
/// Verbs of the same kind that are not also nouns, unlike "order" in "Order book of a symbol".
const SENDS: &str = "send sends publish publishes transfers pays refunds purchases withdraws emails broadcasts";
/// Verbs that change something, or run code that can.
const CHANGE: &str = "shell bash write update insert upload rename move replace edit modify restart stop \
    reboot shutdown grant commit push merge put patch append upsert set add assign enable disable writes updates creates";
/// A name that starts so only looks, whatever it looks at.
const LOOK: &str = "get list read search find show describe check query fetch view count preview validate explain is has \
    can lookup retrieve inspect analyze analyse compare diff download export summarize estimate simulate suggest recommend \
    plan deploy reader dry test verify browse select history help docs guide generate browser how what wait detect monitor status \
    batch resolve scan calculate render convert format parse evaluate build think watch take";

/// Verbs that honest read-only tools use too, for drafts and plans.
const MAKE: &str = "create execute make run start open close";

fn is_in(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|other| other == word)
}

/// Returns whether names of tools start with this verb.
pub(super) fn is_verb(word: &str) -> bool {
    [DESTROY, SEND, CHANGE, LOOK].iter().any(|verbs| is_in(verbs, word)) || is_in(MAKE, word)
}

/// Splits `deleteUser`, `delete-user` and `delete_user` into lower-case words.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            words.push(String::new());
            was_lower = false;
            continue;
        }
        if words.is_empty() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

pub(super) fn scan(tool: &Value, findings: &mut Vec<Finding>) {
    let hint = |name: &str| tool.get("annotations").and_then(|hints| hints.get(name)).and_then(Value::as_bool);
    let (is_read_only, is_destructive) = (hint("readOnlyHint"), hint("destructiveHint"));
    let claim = match (is_read_only, is_destructive) {
        (Some(true), _) => "readOnlyHint: true",
        (_, Some(false)) => "destructiveHint: false",
        _ => return,
    };
    let Some(name) = tool.get("name").and_then(Value::as_str) else { return };
    let words = words(name);
    let verbs = |list: &str| words.iter().find(|word| is_in(list, word));
    let looks = words.iter().take(2).any(|word| is_in(LOOK, word));
    let (verb, severity) = match is_read_only {
        // The name looks harmless, so the description has to say it clearly.
        Some(true) if looks => match described(tool) {
            Some(verb) => (verb, Severity::Medium),
            None => return,
        },
        Some(true) => match (verbs(DESTROY), verbs(SEND), verbs(CHANGE)) {
            (Some(verb), _, _) | (None, Some(verb), _) => (verb.clone(), Severity::High),
            (None, None, Some(verb)) => (verb.clone(), Severity::Medium),
            (None, None, None) => match described(tool) {
                Some(verb) => (verb, Severity::Medium),
                None => return,
            },
        },
        _ => match verbs(DESTROY).filter(|_| !looks) {
            Some(verb) => (verb.clone(), Severity::Low),
            None => return,
        },
    };
    let reason = format!("The annotation `{claim}` contradicts `{verb}`: the tool claims to be safer than it is.");
    findings.push(Finding { rule: "annotation-contradicts", severity, place: "annotations".to_owned(), reason });
}

/// Returns the verb with which the description starts, if it destroys or sends: "Permanently deletes a file".
fn described(tool: &Value) -> Option<String> {
    let text = tool.get("description").and_then(Value::as_str)?;
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphabetic()).to_lowercase();
    let first = text.split_whitespace().map(plain).find(|word| !word.ends_with("ly") || word == "reply")?;
    (is_in(DESTROY, &first) || is_in(SENDS, &first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity(name: &str, description: &str, annotations: &Value) -> Option<Severity> {
        let mut findings = Vec::new();
        let tool = serde_json::json!({"name": name, "description": description, "annotations": annotations});
        scan(&tool, &mut findings);
        findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn a_name_tells_more_than_a_hint() {
        let read_only = serde_json::json!({"readOnlyHint": true});
        let harmless = serde_json::json!({"destructiveHint": false});
        let check = |name: &str, hints: &Value, expected| assert_eq!(severity(name, "", hints), expected, "{name}");
        check("delete_user", &read_only, Some(Severity::High));
        check("purgeQueue", &read_only, Some(Severity::High));
        check("send-mail", &read_only, Some(Severity::High));
        check("write_file", &read_only, Some(Severity::Medium));
        check("delete_user", &harmless, Some(Severity::Low));
        check("get_deleted_users", &read_only, None);
        check("list_removed", &read_only, None);
        check("search", &read_only, None);
        check("delete_user", &serde_json::json!({}), None);
        let check = |name: &str, description: &str, expected| {
            assert_eq!(severity(name, description, &read_only), expected, "{description}");
        };
        check("files", "Deletes a file.", Some(Severity::Medium));
        check("records", "Permanently deletes all records.", Some(Severity::Medium));
        check("list_records", "Deletes all records.", Some(Severity::Medium));
        check("customer", "Sends an email to the customer.", Some(Severity::Medium));
        check("account", "Transfers money to another account.", Some(Severity::Medium));
        check("market", "Order book of a symbol.", None);
        check("users", "Only lists users.", None);
        check("reply", "", Some(Severity::High));
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words("deleteUser-by_ID"), ["delete", "user", "by", "id"]);
        assert_eq!(words("__x"), ["x"]);
    }
}
