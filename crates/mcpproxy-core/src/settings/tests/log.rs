//! Tests for the `storage` and `activity` sections.

use std::time::Duration;

use super::World;
use super::bad::check;
use crate::settings::{Outside, Retention, StorageUrl, parse};

fn storage(url: &str) -> String {
    format!(r#"{{"storage": {{"url": "{url}"}}}}"#)
}

/// Checks the URL, and whether the file counts as one with a secret in it.
fn check_storage(url: &str, expected: &str, is_inline: bool) {
    let settings = parse(&storage(url), &World).unwrap_or_else(|errors| panic!("{url}: {errors:?}"));
    let read = match settings.storage.url.as_ref().unwrap() {
        StorageUrl::Sqlite(path) => format!("sqlite {path}"),
        StorageUrl::Postgres(url) => format!("postgres {}", url.expose()),
    };
    assert_eq!(read, expected, "{url}");
    let secrets: &[&str] = if is_inline { &["storage.url"] } else { &[] };
    assert_eq!(settings.inline_secrets(), secrets, "{url}");
    let printed = format!("{:?}", settings.storage);
    assert!(!printed.contains("hidden") && !printed.contains("secret"), "{printed}");
}

#[test]
fn databases() {
    check_storage("sqlite:log.db", "sqlite log.db", false);
    check_storage("sqlite:/var/lib/log.db", "sqlite /var/lib/log.db", false);
    check_storage("sqlite:///var/lib/log.db", "sqlite /var/lib/log.db", false);
    check_storage("sqlite:${env:HOME}/log.db", "sqlite /home/ann/log.db", false);
    for url in [
        "postgres://db/log",
        "postgresql://ann@db.example.com:5433/log?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        "postgres://ann:@db/log",
        "postgres://[::1]:5432/log",
        "postgres:///log?host=/run/postgresql",
        "postgres://%2Frun%2Fpostgresql/log",
        "postgres://db?dbname=log&user=ann&port=5433&application_name=mcpproxy&options=-c%20x=y",
    ] {
        check_storage(url, &format!("postgres {url}"), false);
    }
}

#[test]
fn passwords_of_databases() {
    for url in [
        "postgres://ann:secret@db/log",
        "postgres://ann:sec@ret@db/log",
        "postgres://:secret@db/log",
        "postgres:///log?host=/run&password=secret",
        "postgres:///log?pass%77ord=secret",
    ] {
        check_storage(url, &format!("postgres {url}"), true);
    }
    check_storage("postgres://ann:${env:GITHUB_TOKEN}@db/log", "postgres postgres://ann:ghp_hidden@db/log", false);
    check_storage("postgres://ann:${file:docs.key}@db/log", "postgres postgres://ann:doc-hidden@db/log", false);
    check_storage("postgres:///log?password=${file:docs.key}", "postgres postgres:///log?password=doc-hidden", false);
    // A reference does not hide a password next to it.
    check_storage("postgres://ann:secret@db/${env:GITHUB_TOKEN}", "postgres postgres://ann:secret@db/ghp_hidden", true);
    check_storage(
        "postgres://ann:secret${file:docs.key}@db/log",
        "postgres postgres://ann:secretdoc-hidden@db/log",
        true,
    );
}

/// Leaves references unresolved, as commands outside the gateway do.
struct Leaving;

impl Outside for Leaving {
    fn env(&self, _name: &str) -> Option<String> {
        Some("http://left.invalid/".to_owned())
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Ok("http://left.invalid/".to_owned())
    }

    fn stand_in(&self) -> Option<&str> {
        Some("http://left.invalid/")
    }
}

#[test]
fn an_address_whose_references_are_left_is_not_judged() {
    for url in ["${env:DATABASE_URL}", "postgres://ann:${env:PASSWORD}@db/log", "sqlite:${file:path}"] {
        let settings = parse(&storage(url), &Leaving).unwrap();
        let left = match settings.storage.url.as_ref().unwrap() {
            StorageUrl::Sqlite(path) => path,
            StorageUrl::Postgres(url) => url.expose(),
        };
        assert!(left.contains("http://left.invalid/"), "{left}");
        assert_eq!(settings.inline_secrets(), [""; 0], "{url}");
    }
    assert!(parse(&storage("mysql://db/log"), &Leaving).is_err());
    assert!(parse(&storage("${env:GITHUB_TOKEN}"), &World).is_err());
}

#[test]
fn bad_databases() {
    let bad = |url: &str, expected: &str| check(&storage(url), &[&format!("line 1, column 21: {expected}")]);
    let forms = "expected `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; remove `storage` for a file in \
                 the data folder";
    for url in ["", "log.db", "mysql://ann:hidden@db/log", "postgres:log", "postgres:/log", "POSTGRES://db/log"] {
        bad(url, forms);
    }
    for url in ["sqlite:", "sqlite://"] {
        bad(url, "`sqlite:` without a path; write `sqlite:PATH`");
    }
    for url in [
        "postgres://ann:hidden@db",
        "postgresql://db/",
        "postgres://",
        "postgres:///?host=/run",
        "postgres://db?dbname=",
    ] {
        bad(url, "the address names no database; write it at the end, as in `postgres://USER@HOST/DATABASE`");
    }
    let signs = "write `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, and in a password `%2F` for `/`, `%3F` for `?`, \
                 `%23` for `#`, `%40` for `@`";
    bad("postgres://ann:hid/den@db/log", &format!("not an address (invalid port number); {signs}"));
    bad("postgres://ann@/log?host=/run", &format!("not an address (empty host); {signs}"));
    bad(
        "postgres://ann:1/hidden@db/log",
        "the name of the database contains `/` or `@`; write `%2F` for `/` and `%40` for `@`, also in a password",
    );
    bad("postgres://db/log#1", "the address contains `#`, and what follows would be ignored; write `%23` for it");
    bad(
        "postgres://ann:${env:BROKEN}@db/log",
        "the address contains a space, line end or control character; remove it, or write `%20` for a space",
    );
    bad("postgres://db/log?sslmod=require", "unknown option after `?` in the address; did you mean `sslmode`?");
    bad(
        "postgres://db/log?hidden=1",
        "unknown option after `?` in the address; known options: `host`, `port`, `dbname`, `user`, `password`, `sslmode`, \
         `sslrootcert`, `sslcert`, `sslkey`, `application_name`, `options`",
    );
    bad(
        "postgres://db/log?sslmode=hidden",
        "unknown `sslmode` in the address; write one of `disable`, `allow`, `prefer`, `require`, `verify-ca`, `verify-full`",
    );
    bad("postgres://db/log?port=hidden", "`port` in the address is not a port");
    check(r#"{"storage": {"url": 5}}"#, &["line 1, column 21: expected string, found number; put it in quotes"]);
}

fn activity(fields: &str) -> String {
    format!(r#"{{"activity": {{{fields}}}}}"#)
}

#[test]
fn retention() {
    let day = Duration::from_secs(24 * 60 * 60);
    let default = Retention { payloads: Some(90 * day), payload_bytes: Some(4_294_967_296), records: None };
    assert_eq!(Retention::default(), default);
    let good = |fields: &str, expected: Retention| {
        let settings = parse(&activity(&format!(r#""retention": {{{fields}}}"#)), &World);
        assert_eq!(settings.map(|settings| settings.activity.retention), Ok(expected), "{fields}");
    };
    good("", default);
    good(r#""payloads": "1h""#, Retention { payloads: Some(Duration::from_secs(3600)), ..default });
    good(r#""payloads": "forever""#, Retention { payloads: None, ..default });
    good(r#""payload_bytes": "forever""#, Retention { payload_bytes: None, ..default });
    good(r#""payload_bytes": "2 TB""#, Retention { payload_bytes: Some(2_000_000_000_000), ..default });
    good(r#""payload_bytes": 1048576"#, Retention { payload_bytes: Some(1_048_576), ..default });
    good(r#""records": "90d""#, Retention { records: Some(90 * day), ..default });
    good(r#""records": "forever""#, default);
    good(
        r#""payloads": "24h", "records": "1d", "payload_bytes": "1024TiB""#,
        Retention { payloads: Some(day), payload_bytes: Some(1 << 50), records: Some(day) },
    );
    good(r#""payloads": "36500d""#, Retention { payloads: Some(36_500 * day), ..default });
}

#[test]
fn bad_retention() {
    let bad = |fields: &str, expected: &[&str]| check(&activity(fields), expected);
    bad(r#""retention": "90d""#, &["line 1, column 28: expected object, found string"]);
    bad(
        r#""retension": {}, "checkpoint_to": "x", "retention": {"payload": "1d", "bytes": 1, "age": 1}"#,
        &[
            "line 1, column 15: unknown key `retension`; did you mean `retention`?",
            "line 1, column 32: unknown key `checkpoint_to`; did you mean `checkpoints_to`?",
            "line 1, column 68: unknown key `payload`; did you mean `payloads`?",
            "line 1, column 85: unknown key `bytes`; did you mean `payload_bytes`?",
            "line 1, column 97: unknown key `age`; known keys: `payloads`, `payload_bytes`, `records`",
        ],
    );
    bad(
        r#""retention": {"payloads": "59m", "payload_bytes": "1023KiB", "records": "23h"}"#,
        &[
            "line 1, column 41: expected an age between \"1h\" and \"36500d\", or \"forever\"",
            "line 1, column 65: expected a size between \"1MiB\" and \"1024TiB\", or \"forever\"",
            "line 1, column 87: expected an age between \"1d\" and \"36500d\", or \"forever\"",
        ],
    );
    bad(
        r#""retention": {"payloads": 90, "payload_bytes": 4.5, "records": "never"}"#,
        &[
            "line 1, column 41: expected string, found number; write the unit too, such as \"90d\" or \"12h\"",
            "line 1, column 62: expected a size between \"1MiB\" and \"1024TiB\", or \"forever\"",
            "line 1, column 78: expected an age such as \"90d\" or \"12h\", or \"forever\"",
        ],
    );
    bad(
        r#""retention": {"payloads": "36501d", "payload_bytes": "much"}"#,
        &[
            "line 1, column 41: expected an age between \"1h\" and \"36500d\", or \"forever\"",
            "line 1, column 68: expected a size such as \"10GiB\", a number of bytes, or \"forever\"",
        ],
    );
    let shorter = "arguments and results cannot outlive their records: make `records` longer or `payloads` shorter";
    bad(
        r#""retention": {"payloads": "31d", "records": "30d"}"#,
        &[&format!("line 1, column 59: `records` is shorter than `payloads`; {shorter}")],
    );
    bad(
        r#""retention": {"records": "400d", "payloads": "forever"}"#,
        &[&format!("line 1, column 40: `records` is shorter than `payloads`; {shorter}")],
    );
    bad(
        r#""retention": {"records": "30d"}"#,
        &[&format!(
            "line 1, column 40: `records` is shorter than `payloads`, which is \"90d\" without the key; {shorter}"
        )],
    );
}

#[test]
fn checkpoints() {
    let bad = |to: &str, expected: &str| {
        check(&activity(&format!(r#""checkpoints_to": {to}"#)), &[&format!("line 1, column 33: {expected}")])
    };
    bad(r#""""#, "`checkpoints_to` is empty");
    bad(r#"" ""#, "`checkpoints_to` is empty");
    bad(r#""~/x""#, "`~` works only in a shell; write the full path, or `${env:HOME}` for `~`");
    bad("null", "expected string, found null; fill it in or remove it");
    let settings = parse(&activity(r#""checkpoints_to": "copies/log.txt""#), &World).unwrap();
    assert_eq!(settings.activity.checkpoints_to.as_deref(), Some("copies/log.txt"));
}
