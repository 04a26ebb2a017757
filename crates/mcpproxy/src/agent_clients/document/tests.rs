//! Edits of real-looking files: what changes, what stays, and what is refused.

use serde_json::json;

use super::masked::masked;
use super::*;

fn path(keys: &[&str]) -> KeyPath {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn set(keys: &[&str], value: Value) -> Edit {
    Edit::Set { path: path(keys), value }
}

fn add(keys: &[&str], values: &[&str]) -> Edit {
    Edit::AddToList { path: path(keys), values: path(values) }
}

fn edited(text: &str, format: FileFormat, edit: Edit) -> String {
    apply(text, format, &[edit]).unwrap()
}

const JSON: &str = "// mine\n{\n\t\"a\": 1, // one\n\t/* servers */\n\t\"mcpServers\": {\n\t\t\"x\": {\"command\": \"x\"},\n\t},\n\t\"z\": [1, 2]\n}";
const TOML: &str =
    "# mine\nmodel = \"o3\" # best\n\n[mcp_servers.x]\ncommand = 'x'\n\n# end\n[tui]\ntheme = \"dark\"\n";
const YAML: &str = "# mine\nGOOSE_MODE: auto\nextensions:\n  # the clock\n  time:\n    cmd: uvx\n    args: [a, b]\n\n# end\nother: |\n  mcpproxy:\n    no: yes\n";

#[test]
fn an_entry_is_added_and_removed_and_everything_else_stays() {
    let cases = [
        (JSON, FileFormat::Json, "mcpServers"),
        (TOML, FileFormat::Toml, "mcp_servers"),
        (YAML, FileFormat::Yaml, "extensions"),
    ];
    for (text, format, servers) in cases {
        let entry = json!({"url": "http://127.0.0.1:8080/mcp", "headers": {"Authorization": "Bearer t"}, "on": true});
        let with = edited(text, format, set(&[servers, "mcpproxy"], entry.clone()));
        insta::assert_snapshot!(format!("added_{servers}"), with);
        assert_eq!(get(&read(&with, format).unwrap(), &path(&[servers, "mcpproxy"])), Some(&entry));
        assert_eq!(edited(&with, format, set(&[servers, "mcpproxy"], entry)), with, "nothing to do");
        let other = edited(&with, format, set(&[servers, "mcpproxy"], json!({"url": "u"})));
        insta::assert_snapshot!(format!("replaced_{servers}"), other);
        let without = edited(&with, format, Edit::Remove { path: path(&[servers, "mcpproxy"]) });
        assert_eq!(without, text, "{format:?}");
    }
}

#[test]
fn tables_are_created() {
    let check = |text: &str, format: FileFormat, expected: &str| {
        assert_eq!(edited(text, format, set(&["s", "m"], json!({"u": 1}))), expected, "{text:?}");
    };
    check("", FileFormat::Json, "{\n  \"s\": {\n    \"m\": {\n      \"u\": 1\n    }\n  }\n}\n");
    check("", FileFormat::Toml, "[s.m]\nu = 1\n");
    check("", FileFormat::Yaml, "s:\n  m:\n    u: 1\n");
    check("# only a comment\n", FileFormat::Yaml, "# only a comment\ns:\n  m:\n    u: 1\n");
    check("s: {} # none\n", FileFormat::Yaml, "s: # none\n  m:\n    u: 1\n");
    check("s:\na: 1\n", FileFormat::Yaml, "s:\n  m:\n    u: 1\na: 1\n");
    check("---\na: 1", FileFormat::Yaml, "---\na: 1\ns:\n  m:\n    u: 1\n");
    check("s:\n    x:\n        u: 2\n", FileFormat::Yaml, "s:\n    x:\n        u: 2\n    m:\n      u: 1\n");
}

#[test]
fn lists_get_what_they_lack() {
    let json = "{\n  \"p\": {\n    \"allow\": [\n      \"Bash(ls)\", // safe\n      \"a\"\n    ]\n  }\n}\n";
    let with = edited(json, FileFormat::Json, add(&["p", "allow"], &["a", "b"]));
    assert_eq!(with, json.replace("\"a\"\n", "\"a\",\n      \"b\"\n"));
    let back = Edit::RemoveFromList { path: path(&["p", "allow"]), values: path(&["b"]) };
    assert_eq!(edited(&with, FileFormat::Json, back), json);

    let yaml = "user:\n  always_allow:\n  # safe\n  - x\n  ask_before: []\n";
    let with = edited(yaml, FileFormat::Yaml, add(&["user", "always_allow"], &["x", "m__read"]));
    assert_eq!(with, "user:\n  always_allow:\n  # safe\n  - x\n  - m__read\n  ask_before: []\n");
    let back = Edit::RemoveFromList { path: path(&["user", "always_allow"]), values: path(&["m__read"]) };
    assert_eq!(edited(&with, FileFormat::Yaml, back), yaml);
    let with = edited(yaml, FileFormat::Yaml, add(&["user", "ask_before"], &["w"]));
    assert_eq!(with, yaml.replace("ask_before: []", "ask_before:\n    - w"));
    let with = edited(yaml, FileFormat::Yaml, add(&["user", "never_allow"], &[]));
    assert_eq!(with, format!("{yaml}  never_allow: []\n"));
}

#[test]
fn line_endings_and_the_byte_order_mark_stay() {
    for (text, format) in [(JSON, FileFormat::Json), (TOML, FileFormat::Toml), (YAML, FileFormat::Yaml)] {
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let edit = || set(&["s", "mcpproxy"], json!({"u": "v"}));
        let with = edited(&windows, format, edit());
        let expected = format!("\u{feff}{}", edited(text, format, edit()).replace('\n', "\r\n"));
        assert_eq!(with, expected, "{format:?}");
        let without = edited(&with, format, Edit::Remove { path: path(&["s"]) });
        assert_eq!(without, windows, "{format:?}");
    }
    // Mixed endings stay mixed, and new lines end like the first one.
    let mixed = "{\r\n  \"a\": 1,\n  \"b\": 2\r\n}\n";
    let with = edited(mixed, FileFormat::Json, set(&["c"], json!(3)));
    assert_eq!(with, "{\r\n  \"a\": 1,\n  \"b\": 2,\r\n  \"c\": 3\r\n}\n");
}

#[test]
fn bad_files_are_refused() {
    let check = |text: &str, format: FileFormat, expected: &str| {
        let refused = apply(text, format, &[set(&["s", "m"], json!({"u": 1}))]).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{text:?}: {refused}");
    };
    check("{\n  \"a\": 1\n  \"b\": 2\n}", FileFormat::Json, "line 2, column 9: ");
    check("{\n\"s\": {", FileFormat::Json, "line 2, column 7: ");
    check("[]", FileFormat::Json, "`the whole file` is not a table");
    check("{\"s\": []}", FileFormat::Json, "`s` is not a table");
    check("{\"s\": {}, \"s\": {}}", FileFormat::Json, "the key `s` occurs twice");
    check("{\"s\": {\"m\": 1, \"\\u006d\": 2}}", FileFormat::Json, "the key `m` occurs twice");
    check("a = 1\nb = \n", FileFormat::Toml, "line 2, ");
    check("a = 1\na = 2\n", FileFormat::Toml, "line 2, column 1: duplicate key");
    check("s = 1\n", FileFormat::Toml, "`s` is not a table");
    check("a: 1\nb: [\n", FileFormat::Yaml, "line ");
    check("s: {}\ns: {}\n", FileFormat::Yaml, "line 2, ");
    check("s: {x: {u: 2}}\n", FileFormat::Yaml, "the file is written in a way");
    check("- s\n", FileFormat::Yaml, "`the whole file` is not a table");
    // Two equal keys elsewhere are none of our business.
    assert!(apply("{\"x\": 1, \"x\": 2}", FileFormat::Json, &[set(&["s"], json!(1))]).is_ok());
}

#[test]
fn a_reference_to_a_secret_is_shown() {
    let shown = Shown { paths: vec![path(&["a"])], texts: Vec::new() };
    let check = |value: &str, expected: &str| {
        let text = |value: &str| format!("{{\n  \"a\": {{\n    {value}\n  }}\n}}\n");
        assert_eq!(masked(&text(value), FileFormat::Json, &shown), text(expected));
    };
    for line in [
        r#""API_KEY": "${file:secrets/x.API_KEY}","#,
        r#""url": "https://h/mcp?api_key=${file:secrets/x.key}&page=2""#,
        r#""args": ["--token", "${file:secrets/x.token}"]"#,
        r#""args": ["--token", "${file:secrets/x.token}", "--api-key", "${file:secrets/x.api-key}", "-v"]"#,
        "\"args\": [\n\"--password\",\n\"${file:secrets/x.password}\"\n]",
    ] {
        check(line, line);
    }
    check(r#""API_KEY": "${file:secrets/x.API_KEY}hunter2""#, r#""API_KEY": "***""#);
    check(r#""API_KEY": "$${hunter2}""#, r#""API_KEY": "***""#);
    for hidden in [
        "\"args\": [\n\"--password\",\n\"~hunter2\"\n]",
        "\"args\": [\n\"--password\",\n\"~hunter2${file:secrets/x.y}\"\n]",
        "\"args\": [\n\"--password\",\n\"~hunter2\", \"${file:secrets/x.y}\"\n]",
        r#""args": ["--token", "${file:secrets/x.token", "--token", "hunter2}"]"#,
    ] {
        let text = format!("{{\"a\": {{\n{hidden}\n}}}}\n");
        let text = masked(&text, FileFormat::Json, &shown);
        assert!(text.contains("args") && !text.contains("hunter2"), "{text}");
    }
    let mixed = r#"{"a": {"url": "https://h/mcp?api_key=${file:secrets/x.key}&token=hunter2"}}"#;
    assert!(!masked(mixed, FileFormat::Json, &shown).contains("hunter2"));
}

#[test]
fn values_of_others_are_masked() {
    let shown = Shown { paths: vec![path(&["s", "mcpproxy"])], texts: path(&["ours"]) };
    let check = |text: &str, format: FileFormat, expected: &str| {
        assert_eq!(masked(text, format, &shown), expected, "{format:?}");
    };
    check(
        "{\"s\": {\"x\": {\"env\": {\"K\": \"hunter2\"}, \"args\": [\"--pin\", \"77\"]}, \"mcpproxy\": {\"url\": \"u\"}}}",
        FileFormat::Json,
        "{\"s\": {\"x\": {\"env\": {\"K\": \"***\"}, \"args\": [\"***\", \"***\"]}, \"mcpproxy\": {\"url\": \"u\"}}}",
    );
    check(
        "[s.x]\ncommand = \"hunter2\" # c\nenv = { K = \"k\" }\n[s.mcpproxy]\nurl = \"u\"\n",
        FileFormat::Toml,
        "[s.x]\ncommand = \"***\" # c\nenv = { K = \"***\" }\n[s.mcpproxy]\nurl = \"u\"\n",
    );
    check(
        "s:\n  x:\n    on: true\n    envs:\n      K: hunter2\n    args:\n      - --pin\n    t: |\n      hunter2\n  mcpproxy:\n    uri: u\n",
        FileFormat::Yaml,
        "s:\n  x:\n    on: true\n    envs:\n      K: ***\n    args:\n      - ***\n    t: ***\n      ***\n  mcpproxy:\n    uri: u\n",
    );
    check("{\"l\": [\"theirs\", \"ours\"]}", FileFormat::Json, "{\"l\": [\"***\", \"ours\"]}");
    check("l:\n- theirs\n- ours\n", FileFormat::Yaml, "l:\n- ***\n- ours\n");
    assert_eq!(masked("{\"broken\": \"hunter2\"", FileFormat::Json, &shown), "***");
    let token = "{\"s\": {\"mcpproxy\": {\"headers\": {\"Authorization\": \"Bearer mcp_0123456789abcdef\"}}}}";
    assert!(
        !masked(token, FileFormat::Json, &shown).contains("0123"),
        "the token is masked even where values are shown"
    );
}
