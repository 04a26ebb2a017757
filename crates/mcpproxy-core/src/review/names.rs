//! Guesses from a tool's name what it does, for drafts and lint. No decision depends on it.

use crate::RiskLevel::{self, Critical, High, Low, Medium};
use crate::Variant::{self, Destructive, Read, Write};

/// A verb in a tool's name, with the usual operation and risk of such tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verb {
    pub(super) word: &'static str,
    pub(super) operation: Variant,
    pub(super) risk: RiskLevel,
    /// True for words that are nouns as often as verbs: `list`, `post`, `run`.
    is_noun_too: bool,
}

/// Verbs with the usual operation and risk of tools with such names. One string per group keeps the table short.
const VERBS: [(&str, Variant, RiskLevel); 6] = [
    (
        "get list search read find fetch query show view describe count check lookup browse inspect explain \
         retrieve validate verify analyze compare diff summarize status info details help download preview \
         whoami ping wait history",
        Read,
        Low,
    ),
    // Copies data elsewhere.
    ("export dump backup", Read, Medium),
    // Mostly writes. A tool without annotations counts as writing anyway.
    (
        "create update set add edit write insert append patch put modify rename move copy upload import save \
         store assign unassign attach detach schedule start stop restart enable configure register unlink \
         upsert replace change apply sync fork clone close lock unlock subscribe unsubscribe click press fill \
         navigate archive restore increment mute",
        Write,
        Medium,
    ),
    // Reaches people, runs code, or publishes.
    (
        "send share invite publish deploy notify post tweet reply forward broadcast announce release submit \
         merge push approve execute exec run eval install trigger disable rotate",
        Write,
        High,
    ),
    ("remove clear reset cancel uninstall rollback overwrite prune unpublish leave", Destructive, High),
    // Cannot be undone, or costs money or access rights.
    (
        "delete drop destroy purge wipe erase truncate pay payment charge refund transfer grant revoke \
         terminate kill flush ban withdraw buy sell trade purchase del nuke",
        Destructive,
        Critical,
    ),
];

/// Words that are nouns as often as verbs.
const NOUNS_TOO: &str =
    "list view query check search status info help history preview diff post run release backup schedule";

/// Returns the verb that describes the tool, if its name has one.
pub(super) fn verb(tool: &str) -> Option<Verb> {
    let words = words(tool);
    let found: Vec<Verb> = words.iter().filter_map(|word| find(word)).collect();
    if words.iter().any(|word| matches!(word.as_str(), "or" | "and")) {
        // `get_or_create`: take the stricter one.
        return found.into_iter().max_by_key(|verb| verb.risk);
    }
    let first = *found.first()?;
    let last = words.last().and_then(|word| find(word)).unwrap_or(first);
    let begins_with_verb = words.first().is_some_and(|word| word == first.word);
    let is_reading = |verb: Verb| verb.operation == Read;
    match (is_reading(first), is_reading(last)) {
        // `list_delete` deletes a list, but `get_delete` looks at a deletion.
        (true, false) if first.is_noun_too => Some(last),
        // `run_get` looks at a run and `table_import_list` at imports, but `send_list` sends a list.
        (false, true) if last.word == "get" || !begins_with_verb && matches!(last.word, "list" | "show") => Some(last),
        (false, false) => Some(if last.risk > first.risk { last } else { first }),
        (true, _) | (false, true) => Some(first),
    }
}

/// Returns a reason why a tool with this name may be better forbidden.
pub(super) fn forbidden(tool: &str) -> Option<&'static str> {
    let words = words(tool);
    let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
    let hands_out = has(&["read", "get", "show", "export", "dump", "reveal", "fetch", "print", "view", "download"]);
    let takes_it_away = has(&["disable", "delete", "stop", "clear", "pause", "off", "purge", "erase"]);
    let everything = has(&["full", "all", "entire", "whole", "complete"]);
    if hands_out && has(&["private"]) && has(&["key", "keys"]) {
        Some("it seems to return a private key")
    } else if hands_out && has(&["password", "passwords", "passwd", "passphrase"]) {
        Some("it seems to return passwords")
    } else if hands_out && has(&["token", "tokens"]) && has(&["raw", "access", "refresh", "api", "bearer"]) {
        Some("it seems to return a token")
    } else if hands_out && has(&["secret", "secrets", "credentials"]) && !has(&["list", "metadata", "scanning"]) {
        Some("it seems to return secrets")
    } else if takes_it_away && has(&["audit", "auditlog"]) {
        Some("it seems to turn off logging")
    } else if has(&["export", "dump", "download"]) && everything && has(&["database", "db"]) {
        Some("it seems to return a whole database")
    } else if has(&["without", "skip", "bypass"]) && has(&["approval", "confirmation", "review", "authorization"]) {
        Some("its name suggests that it bypasses a check")
    } else {
        None
    }
}

/// Returns true if the name suggests a bulk operation.
pub(super) fn is_bulk(tool: &str) -> bool {
    words(tool).iter().any(|word| matches!(word.as_str(), "bulk" | "batch" | "all" | "mass"))
}

fn find(word: &str) -> Option<Verb> {
    let all = VERBS.iter().flat_map(|&(words, operation, risk)| {
        words.split_whitespace().map(move |word| Verb { word, operation, risk, is_noun_too: false })
    });
    let verb = all.into_iter().find(|verb| verb.word == word)?;
    Some(Verb { is_noun_too: NOUNS_TOO.split(' ').any(|noun| noun == word), ..verb })
}

/// Splits a name into words. `deleteRepo`, `delete_repo` and `delete-repo` have the same words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = '_';
    for c in name.chars() {
        let starts_hump = c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit());
        if starts_hump || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphanumeric(), words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        previous = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_names() {
        let check = |name: &str, expected: &str| {
            let found = verb(name)
                .map_or("-".to_owned(), |verb| format!("{} {} {}", verb.word, verb.operation, verb.risk.as_str()));
            assert_eq!(found, expected, "{name}");
        };
        check("list_projects", "list read low");
        check("alert-policy-delete", "delete destructive critical");
        check("linear_deleteIssue", "delete destructive critical");
        check("emails.send_external", "send write high");
        check("get_delete_status", "get read low");
        check("list_delete", "delete destructive critical");
        check("list_deploy_keys", "list read low");
        check("run_get", "get read low");
        check("send_list", "send write high");
        check("table_import_list", "list read low");
        check("deploy_plan_get", "get read low");
        check("post_delete", "delete destructive critical");
        check("get_or_create_note", "create write medium");
        check("bulk_export", "export read medium");
        check("execute_payment", "payment destructive critical");
        check("update_task_status", "update write medium");
        check("sequentialthinking", "-");
        check("", "-");
        check("HTTPGet", "-");
    }

    #[test]
    fn names_that_should_perhaps_not_be_called() {
        let check = |name: &str, expected: bool| assert_eq!(forbidden(name).is_some(), expected, "{name}");
        for bad in [
            "read_private_key",
            "read_password",
            "read_raw_access_token",
            "disable_audit_log",
            "disableAuditLog",
            "export_full_database_without_approval",
            "keyvault_secret_get",
        ] {
            check(bad, true);
        }
        for good in ["read_file", "create_private_key", "list_secrets", "get_page_token", "export_database", "get_key"]
        {
            check(good, false);
        }
    }

    #[test]
    fn no_verb_is_listed_twice() {
        let all: Vec<&str> = VERBS.iter().flat_map(|(words, _, _)| words.split_whitespace()).collect();
        let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(NOUNS_TOO.split(' ').all(|noun| distinct.contains(noun)));
    }
}
