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
const VERBS: [(&str, Variant, RiskLevel); 7] = [
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
         upsert replace apply sync fork clone close lock unlock subscribe unsubscribe click press fill \
         navigate archive restore increment mute",
        Write,
        Medium,
    ),
    // Changes a state that others rely on, reaches people, runs code, or publishes.
    (
        "change share invite publish deploy notify post reply forward announce release submit \
         merge push approve execute exec run eval install trigger disable rotate",
        Write,
        High,
    ),
    // Leaves the company. Nobody can take it back.
    ("send broadcast tweet", Write, Critical),
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
        let operation = found.iter().map(|verb| verb.operation).max()?;
        let strictest = found.into_iter().max_by_key(|verb| (verb.risk, verb.operation))?;
        return Some(Verb { operation, ..strictest });
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
        (false, false) => {
            let is_stricter = (last.risk, last.operation) > (first.risk, first.operation);
            let stricter = if is_stricter { last } else { first };
            // `cancel_scheduled_send` has the risk of sending, and still cancels something.
            Some(Verb { operation: first.operation.max(last.operation), ..stricter })
        }
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
    bulk(tool).is_some()
}

/// The size of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bulk {
    /// Many things at once, such as all rows of a table.
    Many,
    /// A few things that the agent names.
    Several,
}

pub(super) fn bulk(tool: &str) -> Option<Bulk> {
    let words = words(tool);
    let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
    if has(&["bulk", "mass"]) { Some(Bulk::Many) } else { has(&["batch", "all"]).then_some(Bulk::Several) }
}

/// Returns true if the tool only sets a reminder, which nobody but its user sees. The name must say nothing else.
pub(super) fn is_reminder(tool: &str) -> bool {
    let words = words(tool);
    matches!(words.as_slice(), [verb, noun] if matches!(verb.as_str(), "create" | "add" | "set") && noun == "reminder")
}

/// A delicate subject of a tool, whatever the verb: the least risk level, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) least: RiskLevel,
    pub(super) reason: &'static str,
}

/// Verbs that change something existing, and verbs that make or remove a key.
const MODIFY: [&str; 11] =
    ["update", "change", "set", "edit", "modify", "patch", "put", "replace", "rename", "merge", "upsert"];
const HANDLE_KEYS: [&str; 12] = [
    "create", "add", "generate", "rotate", "revoke", "delete", "remove", "update", "import", "export", "issue",
    "register",
];

/// Returns the delicate subject of a tool. Most subjects are delicate only for a tool that changes something. Passwords
/// and keys are delicate for one that reads them too.
pub(super) fn subject(tool: &str) -> Option<Subject> {
    let words = words(tool);
    let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
    let changes = verb(tool).is_some_and(|verb| verb.operation != Read);
    if changes && has(&["permission", "permissions", "acl", "acls", "role", "roles", "privilege", "privileges"]) {
        Some(Subject { least: Critical, reason: "it changes permissions" })
    } else if changes && has(&["payment", "payments", "payout", "payouts"]) {
        Some(Subject { least: Critical, reason: "it is about payments" })
    } else if (changes || has(&["sign", "accept"])) && has(&["contract", "contracts", "agreement", "agreements"]) {
        Some(Subject { least: Critical, reason: "it is about contracts" })
    } else if changes && has(&["password", "passwords", "passwd", "passphrase", "secret", "secrets", "credentials"]) {
        Some(Subject { least: High, reason: "it changes passwords or secrets" })
    } else if has(&HANDLE_KEYS)
        && verb(tool).is_none_or(|verb| verb.operation != Read)
        && has(&["key", "keys", "apikey"])
    {
        Some(Subject { least: High, reason: "it makes or removes keys" })
    } else if has(&["password", "passwords", "passwd", "passphrase"])
        || has(&["key", "keys", "apikey"]) && has(&["api", "access", "private", "secret", "ssh", "signing"])
    {
        Some(Subject { least: High, reason: "it handles passwords or keys" })
    } else if has(&MODIFY) && changes && has(&["customer", "customers", "account", "accounts", "patient", "employee"]) {
        Some(Subject { least: High, reason: "it changes data of customers or accounts" })
    } else {
        None
    }
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
        check("emails.send_external", "send write critical");
        check("get_delete_status", "get read low");
        check("list_delete", "delete destructive critical");
        check("list_deploy_keys", "list read low");
        check("run_get", "get read low");
        check("send_list", "send write critical");
        check("change_project_status", "change write high");
        check("table_import_list", "list read low");
        check("deploy_plan_get", "get read low");
        check("post_delete", "delete destructive critical");
        check("cancel_scheduled_send", "send destructive critical");
        check("clear_or_send", "send destructive critical");
        check("get_or_create_note", "create write medium");
        check("bulk_export", "export read medium");
        check("execute_payment", "payment destructive critical");
        check("update_task_status", "update write medium");
        check("sequentialthinking", "-");
        check("", "-");
        check("HTTPGet", "-");
    }

    #[test]
    fn delicate_subjects() {
        let check = |name: &str, expected: &str| {
            let found = subject(name).map_or("-".to_owned(), |it| format!("{} {}", it.least.as_str(), it.reason));
            assert_eq!(found, expected, "{name}");
        };
        check("change_permissions", "critical it changes permissions");
        check("list_permissions", "-");
        check("create_payment_link", "critical it is about payments");
        check("get_payment", "-");
        check("sign_contract", "critical it is about contracts");
        check("send_contract", "critical it is about contracts");
        check("reset_password", "high it changes passwords or secrets");
        check("generate_api_key", "high it makes or removes keys");
        check("get_api_key", "high it handles passwords or keys");
        check("list_passwords", "high it handles passwords or keys");
        check("find_password", "high it handles passwords or keys");
        check("change_api_key_permissions", "critical it changes permissions");
        check("press_key", "-");
        check("list_keys", "-");
        check("update_customer_data", "high it changes data of customers or accounts");
        check("create_customer_request", "-");
        check("update_task_status", "-");
    }

    #[test]
    fn reminders_and_bulk_operations() {
        assert!(is_reminder("create_reminder") && is_reminder("setReminder"));
        assert!(
            !is_reminder("reminders_create") && !is_reminder("send_reminder") && !is_reminder("create_reminder_list")
        );
        assert_eq!(
            (bulk("bulk_export"), bulk("batch_update"), bulk("get_item")),
            (Some(Bulk::Many), Some(Bulk::Several), None)
        );
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
