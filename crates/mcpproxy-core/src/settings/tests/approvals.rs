//! Tests for the `approvals` section.

use std::sync::Arc;

use super::World;
use super::bad::check;
use crate::Hints;
use crate::contract::{Contract, Effective, Written};
use crate::settings::{ApprovalSettings, Channel, Outside, parse};
use crate::{Assurance, RiskLevel};

fn check_approvals(fields: &str, expected: &[&str]) {
    check(&format!("{{\"approvals\": {{{fields}}}}}"), expected);
}

fn approvals(fields: &str) -> ApprovalSettings {
    parse(&format!("{{\"approvals\": {{{fields}}}}}"), &World).unwrap().approvals
}

#[test]
fn how_long_users_have() {
    let check = |key: &str, text: &str, expected: Option<&str>| {
        let errors: Vec<String> =
            expected.iter().map(|error| format!("line 1, column {}: {error}", 20 + key.len())).collect();
        let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
        check_approvals(&format!("\"{key}\": \"{text}\""), &errors);
    };
    let between = |min: &str, max: &str| format!("expected a duration between \"{min}\" and \"{max}\"");
    for (key, min, max, good, bad) in [
        ("wait", "0s", "10m", ["0s", "45s", "10m"], ["601s", "11m"]),
        ("expire", "1m", "24h", ["60s", "10m", "24h"], ["59s", "25h"]),
        ("headless_expire", "1m", "7d", ["1m", "24h", "7d"], ["0s", "8d"]),
    ] {
        for text in good {
            check(key, text, None);
        }
        for text in bad {
            check(key, text, Some(&between(min, max)));
        }
        for text in ["", "10", "soon", "-1s"] {
            check(key, text, Some("expected a duration such as \"45s\", \"10m\" or \"24h\""));
        }
    }
}

#[test]
fn where_users_reach_the_gateway() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let written = format!("\"public_url\": \"{text}\"");
        match expected {
            Ok(url) => assert_eq!(approvals(&written).public_url.as_deref(), Some(url), "{text}"),
            Err(error) => check_approvals(&written, &[&format!("line 1, column 30: {error}")]),
        }
    };
    let bad = "expected an address such as \"https://gateway.example.com\", without path or `*`";
    let clear = "users would send their passwords unencrypted; write `https://`, which a proxy in front can terminate, or \
                 `http://localhost`";
    check("https://Gateway.example.com/", Ok("https://gateway.example.com"));
    check("https://gateway.example.com:8443", Ok("https://gateway.example.com:8443"));
    check("http://localhost:9090", Ok("http://localhost:9090"));
    check("http://127.0.0.1:9090", Ok("http://127.0.0.1:9090"));
    check("http://[::1]:9090/", Ok("http://[::1]:9090"));
    for text in ["http://gateway.example.com", "http://localhost.example.com", "http://10.0.0.1:8080"] {
        check(text, Err(clear));
    }
    for text in
        ["", "gateway.example.com", "https://a/b", "https://u@a", "https://*.a", "ftp://a", "file:///", "https://a?b"]
    {
        check(text, Err(bad));
    }
}

#[test]
fn where_calls_are_confirmed() {
    /// Returns the channels without a risk level, and then for each level.
    fn channels(settings: &ApprovalSettings, effective: impl Fn(Contract) -> Effective) -> Vec<Channel> {
        let levels = [None].into_iter().chain(RiskLevel::ALL.map(Some));
        let written = |level: RiskLevel| Written { value: level, line: 1, column: 1 };
        let contracts = levels.map(|level| Contract { risk: level.map(written), ..Contract::default() });
        contracts.map(|contract| settings.channel(&effective(contract))).collect()
    }
    let check = |fields: &str, by_operator: [Channel; 6], by_server: [Channel; 6]| {
        let (settings, hints) = (approvals(fields), Hints::default());
        let found = channels(&settings, |contract| Effective::of(&[&Arc::new(contract)], None, hints));
        assert_eq!(found, by_operator, "by the operator: {fields}");
        // A server's level never gives a weaker channel than no level at all.
        let found = channels(&settings, |contract| Effective::of(&[], Some(&contract), hints));
        assert_eq!(found, by_server, "by the server: {fields}");
    };
    use Channel::{Form, Page};
    check("", [Page, Form, Form, Page, Page, Page], [Page; 6]);
    let high = [Form, Form, Form, Form, Page, Page];
    check(r#""channels": {"high": "form"}"#, high, high);
    check(r#""channels": {"medium": "page", "critical": "page"}"#, [Page; 6], [Page; 6]);
    let odd = [Form, Page, Page, Form, Page, Page];
    check(r#""channels": {"medium": "page", "high": "form"}"#, odd, odd);
    check_approvals(
        r#""channels": {"critical": "form", "high": "chat", "low": "page"}"#,
        &[
            "line 1, column 41: critical calls are never approved in a form; write `page` or remove the key",
            "line 1, column 57: unknown value `chat`; write one of `form`, `page`",
            "line 1, column 65: unknown key `low`; `medium` also applies to low risk, if a contract needs an approval",
        ],
    );
    assert_eq!((Form.least(), Page.least()), (Assurance::Form, Assurance::Session));
}

#[test]
fn how_users_get_to_know() {
    let check_notify =
        |fields: &str, expected: &[&str]| check_approvals(&format!("\"notify\": {{{fields}}}"), expected);
    let webhook = |url: &str, secret: &str| format!(r#""webhook": {{"url": "{url}", "secret": "{secret}"}}"#);
    let long = "0123456789abcdef";
    check_notify(&webhook("https://a.example.com/x?key=1", long), &[]);
    check_notify(&webhook("http://localhost:9/x", long), &[]);
    check_notify(
        &webhook("http://a.example.com/hidden", "short"),
        &[
            "line 1, column 46: approval requests would cross the network unencrypted; write `https://`",
            "line 1, column 87: a secret of fewer than 16 characters can be guessed; use a longer, random one",
        ],
    );
    check_notify(
        r#""webhook": {}"#,
        &["line 1, column 38: a webhook needs `url`; add it", "line 1, column 38: a webhook needs `secret`; add it"],
    );
    check_notify(
        r#""command": "notify-send hello""#,
        &["line 1, column 38: expected array, found string; write each argument by itself (no shell is used)"],
    );
    check_notify(
        r#""command": []"#,
        &["line 1, column 38: `command` is empty; write a program and its arguments, or remove the key"],
    );
    check_notify(
        r#""command": ["", 1]"#,
        &[
            "line 1, column 39: `command` is empty",
            "line 1, column 43: expected string, found number; put it in quotes",
        ],
    );
    let settings = format!("{{\"approvals\": {{\"notify\": {{{}}}}}}}", webhook("https://a.example.com/hidden", long));
    let settings = parse(&settings, &World).unwrap();
    assert_eq!(settings.inline_secrets(), ["approvals.notify.webhook.secret"]);
    assert!(!format!("{settings:?}").contains("hidden"), "{settings:?}");
    assert!(!format!("{settings:?}").contains(long), "{settings:?}");
}

/// Without the secrets, their length cannot be checked.
#[test]
fn a_secret_that_is_left_out_is_not_judged() {
    struct Left;
    impl Outside for Left {
        fn env(&self, _name: &str) -> Option<String> {
            Some("?".to_owned())
        }

        fn file(&self, _path: &str) -> Result<String, String> {
            Ok("?".to_owned())
        }

        fn stand_in(&self) -> Option<&str> {
            Some("?")
        }
    }
    let text = r#"{"approvals": {"notify": {"webhook": {"url": "${env:A}", "secret": "${file:b}"}}}}"#;
    assert!(parse(text, &Left).is_ok());
    assert!(parse(text, &World).is_err());
}
