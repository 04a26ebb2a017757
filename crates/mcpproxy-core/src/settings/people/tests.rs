//! Tests for the `people` section.

use super::*;
use crate::settings::tests::bad::check;
use crate::settings::{Settings, Unresolved, parse};

const OIDC: &str = r#""issuer": "https://id.example.com", "client_id": "gate""#;

fn people(fields: &str) -> PeopleSettings {
    parse(&format!("{{\"people\": {{{fields}}}}}"), &Unresolved).unwrap().people
}

fn oidc(fields: &str) -> OidcSettings {
    people(&format!("\"oidc\": {{{OIDC}, {fields}}}")).oidc.unwrap()
}

#[test]
fn defaults() {
    assert_eq!(parse("{}", &Unresolved).unwrap().people, PeopleSettings::default());
    assert_eq!(people(""), PeopleSettings::default());
    let found = oidc(r#""allowed": {"emails": ["Anna@Example.com"]}"#);
    assert_eq!((found.groups_claim.as_str(), found.name.as_str(), found.acr), ("groups", "single sign-on", None));
    assert_eq!(found.allowed.emails, ["anna@example.com"]);
    assert!(found.client_secret.is_none() && found.admins.is_empty());
    let session = people(r#""session": {"idle": "1h", "max": "7d"}"#).session;
    assert_eq!((session.idle_ms(), session.max_ms()), (3_600_000, 7 * 86_400_000));
}

#[test]
fn mistakes_have_a_next_step() {
    let check_oidc = |fields: &str, expected: &str| {
        check(&format!("{{\"people\": {{\"oidc\": {{{OIDC}, {fields}}}}}}}"), &[expected]);
    };
    check(
        r#"{"people": {"password": false}}"#,
        &[
            "line 1, column 25: nobody could sign in: there is no identity provider; add `people.oidc`, or remove `password`",
        ],
    );
    let empty = "nobody may sign in, because `allowed` is empty; add `emails`, `domains` or `groups`, such as \
                 \"allowed\": {\"emails\": [\"anna@example.com\"]}";
    check_oidc(r#""name": "Example""#, &format!("line 1, column 21: {empty}"));
    check_oidc(r#""allowed": {}"#, &format!("line 1, column 90: {empty}"));
    check_oidc(r#""allowed": {"emails": []}"#, &format!("line 1, column 90: {empty}"));
    check_oidc(
        r#""allowed": {"groups": ["ops"]}, "admins": {"domains": ["*.example.com"]}"#,
        "line 1, column 134: expected a domain such as \"example.com\", without `@` or `*`",
    );
    check(
        r#"{"people": {"oidc": {"allowed": {"groups": ["ops"]}}}}"#,
        &[
            "line 1, column 21: an identity provider needs `issuer`; add it",
            "line 1, column 21: an identity provider needs `client_id`; add it",
        ],
    );
    check(
        r#"{"people": {"session": {"idle": "13h"}}}"#,
        &["line 1, column 24: `idle` is longer than `max`; write a shorter `idle`, or a longer `max`"],
    );
}

#[test]
fn issuers() {
    let issuer = |text: &str| {
        let allowed = r#""allowed": {"groups": ["a"]}"#;
        let file = format!("{{\"people\": {{\"oidc\": {{\"issuer\": \"{text}\", \"client_id\": \"a\", {allowed}}}}}}}");
        parse(&file, &Unresolved).map(|settings| settings.people.oidc.unwrap().issuer).ok()
    };
    for good in [
        "https://id.example.com",
        "https://id.example.com/",
        "https://id.example.com/realms/a",
        "http://localhost:3000",
        "http://127.0.0.1:1/x",
    ] {
        assert_eq!(issuer(good).as_deref(), Some(good));
    }
    for bad in [
        "",
        "id.example.com",
        "http://id.example.com",
        "https://u:p@id.example.com",
        "https://a/#b",
        "https://a/?b",
        "ftp://a",
    ] {
        assert_eq!(issuer(bad), None, "{bad}");
    }
}

#[test]
fn a_secret_in_the_file_is_named() {
    let text = |secret: &str| {
        format!(
            "{{\"people\": {{\"oidc\": {{{OIDC}, \"client_secret\": \"{secret}\", \"allowed\": {{\"groups\": [\"a\"]}}}}}}}}"
        )
    };
    let inline = |text: &str| parse(text, &Unresolved).unwrap().inline_secrets();
    assert_eq!(inline(&text("hunter2hunter2")), ["people.oidc.client_secret"]);
    assert!(inline(&text("${env:SECRET}")).is_empty());
    let shown = format!("{:?}", parse(&text("hunter2hunter2"), &Unresolved).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn selectors() {
    let selectors = Selectors {
        emails: vec!["anna@example.com".to_owned()],
        domains: vec!["corp.example".to_owned()],
        groups: vec!["Ops".to_owned()],
    };
    let check = |email: Option<&str>, groups: &[&str], expected: bool| {
        let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        assert_eq!(selectors.select(email, &groups), expected, "{email:?} {groups:?}");
    };
    check(Some("anna@example.com"), &[], true);
    check(Some("Anna@EXAMPLE.com"), &[], true);
    check(Some("berta@example.com"), &[], false);
    check(Some("x@corp.example"), &[], true);
    check(Some("x@sub.corp.example"), &[], false);
    check(Some("x@notcorp.example"), &[], false);
    check(Some("corp.example"), &[], false);
    check(Some("\"x@corp.example\"@evil.example"), &[], false);
    check(Some(""), &[], false);
    check(None, &[], false);
    check(None, &["Ops"], true);
    check(None, &["ops", "Ops2"], false);
    assert!(!Selectors::default().select(Some("a@b.example"), &["x".to_owned()]), "nobody is allowed by default");
}

#[test]
fn changes_that_let_in_more_users_are_weaker() {
    let base =
        people(&format!("\"oidc\": {{{OIDC}, \"allowed\": {{\"emails\": [\"a@x.example\", \"b@x.example\"]}}}}"));
    let check = |change: fn(&mut PeopleSettings), expected: &[&str], is_old_kept: bool| {
        let mut new = base.clone();
        change(&mut new);
        let keys: Vec<_> = new.weaker_than(&base).into_iter().map(|(key, ..)| key).collect();
        assert_eq!(keys, expected);
        let held = new.held(&base);
        assert_eq!(held == base, is_old_kept, "{held:?}");
        assert!(held.weaker_than(&base).is_empty());
    };
    check(|_| {}, &[], true);
    check(|new| new.oidc.as_mut().unwrap().allowed.groups.push("ops".to_owned()), &["people.oidc.allowed"], true);
    check(|new| new.oidc.as_mut().unwrap().admins.groups.push("ops".to_owned()), &["people.oidc.admins"], true);
    check(|new| new.oidc.as_mut().unwrap().issuer = "https://evil.example".to_owned(), &["people.oidc"], true);
    check(|new| new.oidc.as_mut().unwrap().acr = Some("x".to_owned()), &["people.oidc"], true);
    check(|new| new.session.idle *= 2, &["people.session"], true);
    // Stricter changes take effect at once, also beside weaker ones.
    check(|new| drop(new.oidc.as_mut().unwrap().allowed.emails.pop()), &[], false);
    check(|new| new.oidc = None, &[], false);
    check(|new| new.password = false, &[], false);
    let both = |new: &mut PeopleSettings| new.oidc.as_mut().unwrap().allowed.emails = vec!["c@x.example".to_owned()];
    check(both, &["people.oidc.allowed"], false);
    let none = Settings::default().people;
    assert_eq!(base.weaker_than(&none), [("people.oidc", "none", "set")]);
    assert_eq!(base.held(&none).oidc, None);
    let off = PeopleSettings { password: false, ..base.clone() };
    assert_eq!(base.weaker_than(&off), [("people.password", "false", "true")]);
}
