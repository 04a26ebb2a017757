//! Tests for mistakes that concern one server, and for the variables that servers get from the gateway.

use super::{World, mistakes};
use crate::settings::{Mistake, Settings, TransportSettings, parse};

const TWO: &str = r#"{"mcpServers": {
  "good": {"type": "demo"},
  "bad": {"command": "x", "env": {"T": "${env:MISSING}"}, "call_timeout": "5s"},
  "off": {"url": "${env:MISSING}", "headers": {"A": "${file:gone}"}, "disabled": true}
}}"#;

const UNSET: &str = "environment variable `MISSING` is not set; set it where mcpproxy starts, or remove the reference";

fn find<'s>(settings: &'s Settings, name: &str) -> &'s crate::settings::ServerSettings {
    settings.servers.iter().find(|server| server.name.as_str() == name).unwrap()
}

#[test]
fn a_mistake_of_one_server_is_its_own() {
    let settings = parse(TWO, &World).unwrap();
    let mistake = Mistake { line: 3, column: 41, message: UNSET.to_owned() };
    assert_eq!(find(&settings, "good").transport, TransportSettings::Demo);
    let bad = find(&settings, "bad");
    assert_eq!(bad.transport, TransportSettings::Misconfigured { kind: "stdio", mistakes: vec![mistake] });
    assert_eq!((bad.enabled, bad.call_timeout.as_secs()), (true, 5));
    let names: Vec<&str> = settings.misconfigured().map(|(server, _)| server.name.as_str()).collect();
    assert_eq!(names, ["bad"]);
}

#[test]
fn a_disabled_server_is_not_resolved() {
    let settings = parse(TWO, &World).unwrap();
    let off = find(&settings, "off");
    assert_eq!((off.enabled, off.transport.kind(), off.transport.mistakes()), (false, "http", None));
    // Its shape is checked all the same, so that enabling it later holds no surprise.
    let off = parse(r#"{"mcpServers": {"off": {"enabled": false, "comand": "x"}, "on": {"type": "demo"}}}"#, &World);
    let off = off.unwrap();
    assert_eq!(find(&off, "off").transport.kind(), "unknown");
    assert!(!find(&off, "off").enabled);
}

#[test]
fn the_interval_for_reading_tools() {
    let read = |of_file: &str, of_server: &str| {
        let text = format!(r#"{{{of_file}"mcpServers": {{"a": {{"type": "demo"{of_server}}}}}}}"#);
        let settings = parse(&text, &World).map_err(|mistakes| mistakes[0].message.clone())?;
        let mistake = settings.misconfigured().next().map(|(_, mistakes)| mistakes[0].message.clone());
        mistake.map_or(Ok(find(&settings, "a").tools_refresh.as_millis()), Err)
    };
    assert_eq!(read("", ""), Ok(60_000));
    assert_eq!(read(r#""tools_refresh": "5m", "#, ""), Ok(300_000));
    assert_eq!(read(r#""tools_refresh": "5m", "#, r#", "tools_refresh": "1s""#), Ok(1_000));
    assert_eq!(read(r#""tools_refresh": "0s", "#, ""), Ok(0));
    assert_eq!(read("", r#", "tools_refresh": "0s""#), Ok(0));
    assert_eq!(read("", r#", "tools_refresh": "24h""#), Ok(86_400_000));
    let range = "expected \"0s\" to turn it off, or a duration between \"1s\" and \"24h\"";
    for (of_file, of_server) in [
        (r#""tools_refresh": "500ms", "#, ""),
        (r#""tools_refresh": "25h", "#, ""),
        ("", r#", "tools_refresh": "500ms""#),
        ("", r#", "tools_refresh": "25h""#),
    ] {
        let message = read(of_file, of_server).unwrap_err();
        assert!(message.contains(range), "{message}");
    }
}

#[test]
fn every_mistake_inside_a_server_is_its_own() {
    let check = |server: &str, kind: &str| {
        let text = format!(r#"{{"mcpServers": {{"good": {{"type": "demo"}}, "bad": {server}}}}}"#);
        let settings = parse(&text, &World).unwrap_or_else(|mistakes| panic!("{server}: {mistakes:?}"));
        assert_eq!(find(&settings, "good").transport, TransportSettings::Demo, "{server}");
        assert_eq!(find(&settings, "bad").transport.kind(), kind, "{server}");
        assert_eq!(settings.misconfigured().count(), 1, "{server}");
    };
    check(r#"{"url": "ftp://example.com"}"#, "http");
    check(r#"{"type": "sse", "url": "http://h", "headers": {"Host": "x"}}"#, "sse");
    check(r#"{"type": "demo", "comand": "x"}"#, "demo");
    check(r#"{"type": "demo", "call_timeout": 60}"#, "demo");
    check(r#"{}"#, "unknown");
    check(r#""npx""#, "unknown");
}

#[test]
fn what_makes_the_whole_file_meaningless() {
    let refused = |text: &str| parse(text, &World).unwrap_err().len();
    assert_eq!(refused(r#"{"mcpServers": {"a": {"type": "demo", "type": "demo"}}}"#), 1);
    assert_eq!(refused(r#"{"mcpServers": []}"#), 1);
    assert_eq!(refused(r#"{"mcpServers": {" ": {"type": "demo"}}}"#), 1);
    assert_eq!(refused(r#"{"mcpServer": {}}"#), 1);
    // Only the mistake of the file is reported, because nothing else of it counts.
    assert_eq!(refused(r#"{"listen": 1, "mcpServers": {"a": {"comand": "x"}}}"#), 1);
}

#[test]
fn one_server_keeps_a_bounded_number_of_mistakes() {
    let keys: Vec<String> = (0..500).map(|number| format!("\"key{number}\": 1")).collect();
    let text = format!(r#"{{"mcpServers": {{"a": {{{}}}}}}}"#, keys.join(","));
    assert_eq!(mistakes(&text).len(), 20);
}

#[test]
fn variables_that_are_passed_on() {
    let passed = |text: &str, name: &str| find(&parse(text, &World).unwrap(), name).env_passthrough.clone();
    let text = r#"{"env_passthrough": ["A", "B"], "mcpServers": {
        "one": {"command": "x"}, "two": {"command": "x", "env_passthrough": ["C", "A"]}, "demo": {"type": "demo"}}}"#;
    assert_eq!(passed(text, "one"), ["A", "B"]);
    assert_eq!(passed(text, "two"), ["C", "A", "B"]);
    assert!(passed(text, "demo").is_empty());
    let told = |text: &str| mistakes(text).into_iter().map(|mistake| mistake.message).collect::<Vec<_>>();
    assert_eq!(
        told(r#"{"env_passthrough": ["A*", "MCPPROXY_HOME"]}"#),
        [
            "`A*` cannot be a variable's name; write one whole name such as \"MY_CA_FILE\"",
            "`MCPPROXY_HOME` is mcpproxy's own variable and is never passed on; remove it",
        ]
    );
    assert_eq!(
        told(r#"{"mcpServers": {"a": {"url": "http://h", "env_passthrough": ["A"]}}}"#),
        ["`env_passthrough` has no meaning for a server of type `http`; remove it"]
    );
}
