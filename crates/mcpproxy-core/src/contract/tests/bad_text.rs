//! Tests for files that cannot be parsed as contracts at all, with the whole text of every message.

use super::bad::{KNOWN, check, check_json};

const ANCHOR: &str = "anchors (`&`) and aliases (`*`) are not supported; repeat \
    the value, or quote text that begins with `&` or `*`";

#[test]
fn yaml_syntax() {
    check("tool: mail:send\n\triskLevel: low", &["line 2, column 1: found a tab; YAML is indented with spaces"]);
    check("tool: mail:send\nriskLevel:\tlow\n\tx: 1", &["line 3, column 1: found a tab; YAML is indented with spaces"]);
    check(
        "tool: mail: send",
        &["line 1, column 11: `: ` is not allowed here; quote text that contains `: `, or check the indentation"],
    );
    check(r#"tool: "mail:send"#, &["line 1, column 7: this text has no closing quote"]);
    check("tool: 'mail:send' x", &["line 1, column 19: found text after the closing quote; quote the whole text"]);
    check(
        "tool: mail:send\ndescription: \"C:\\Users\"",
        &["line 2, column 14: unknown escape in double quotes; write `\\\\` for one backslash, or use single quotes"],
    );
    check("tool: mail:send\npermissions: [a, b", &["line 2, column 14: error in `[ … ]`: expected `,` or `]`"]);
    check(
        "tool: mail:send\nrateLimit: {calls: 1, per: 1m",
        &["line 2, column 12: error in `{ … }`: expected `,` or `}`"],
    );
    check("tool: mail:send\npermissions: [a}", &["line 2, column 14: found `}`, but `[` is open"]);
    check(
        "tool: mail:send\n  riskLevel: low",
        &["line 2, column 12: `: ` is not allowed here; quote text that contains `: `, or check the indentation"],
    );
    check(
        "  tool: mail:send\nriskLevel: low",
        &["line 2, column 1: expected the end of the document; start another one with `---`"],
    );
    check(
        "tool: mail:send\nriskLevel",
        &["line 2, column 1: expected `key: value`; check the indentation, and that a `:` follows the key"],
    );
    check(
        "tool: mail:send\npermissions:\n- a\n  - b\n x: 1",
        &["line 5, column 3: `: ` is not allowed here; quote text that contains `: `, or check the indentation"],
    );
    check("tool: a\u{7f}", &["line 1, column 7: found U+007F, which YAML allows only as an escape in double quotes"]);
    check("tool: @mail", &["line 1, column 7: text cannot begin with this character; quote it"]);
    check("tool: `mail`", &["line 1, column 7: text cannot begin with this character; quote it"]);
    check("tool: mail:send]\n]", &["line 2, column 1: found a closing bracket without an opening one"]);
    check(
        "%YAML 1.2\n---\ntool: mail:send",
        &["line 1, column 1: directives (`%`) are not supported; remove the line"],
    );
    check(
        "tool: mail:send\ndescription: a\n# b\n  c",
        &["line 4, column 3: expected `key: value`; check the indentation, and that a `:` follows the key"],
    );
    check("tool: mail:send\nsideEffects: [a: b: c]", &["line 2, column 19: error in `{ … }`: expected `,` or `}`"]);
    check("- tool: mail:a\ntool: mail:b", &["line 2, column 1: the indentation does not match the lines before"]);
    check(
        "tool: mail:send\ndescription: |\n  a\n b",
        &["line 4, column 2: expected `key: value`; check the indentation, and that a `:` follows the key"],
    );
}

#[test]
fn yaml_that_is_not_read() {
    check(
        "tool: &t mail:send\ncategory: *t",
        &[&format!("line 1, column 7: {ANCHOR}"), &format!("line 2, column 11: {ANCHOR}")],
    );
    check("tool: *", &[&format!("line 1, column 7: {ANCHOR}")]);
    check("tool: mail:send\ncategory: *nobody", &[&format!("line 2, column 11: {ANCHOR}")]);
    check(
        "base: &base {riskLevel: low}\n---\ntool: mail:send\n<<: *base",
        &[
            &format!("line 1, column 1: unknown key `base`; {KNOWN}"),
            "line 1, column 1: `tool` is missing; write the tool that it is for, such as `tool: mail:send` or `tool: mail:*`",
            &format!("line 1, column 7: {ANCHOR}"),
            "line 4, column 1: merge keys (`<<`) are not supported; repeat the fields",
            &format!("line 4, column 5: {ANCHOR}"),
        ],
    );
    check(
        "tool: !!str mail:send\npermissions: !mine\n  - a",
        &[
            "line 1, column 7: tags (`!`) are not supported; remove the tag, and quote text",
            "line 2, column 14: tags (`!`) are not supported; remove the tag, and quote text",
        ],
    );
    check("tool: !x!y mail:send", &["line 1, column 7: tags (`!`) are not supported; quote text that begins with `!`"]);
    check(
        "tool: mail:send\n1: a\ntrue: b\n~: c\n\"2\": d",
        &[
            "line 2, column 1: `1` is not text, and keys must be text; quote it",
            "line 3, column 1: `true` is not text, and keys must be text; quote it",
            "line 4, column 1: `~` is not text, and keys must be text; quote it",
            &format!("line 5, column 1: unknown key `2`; {KNOWN}"),
        ],
    );
    check(
        "tool: mail:send\n[a]: b\n? {x: y}\n: c\n*a : d",
        &[
            "line 2, column 1: a list or an object cannot be a key; use text",
            "line 3, column 3: a list or an object cannot be a key; use text",
            &format!("line 5, column 1: {ANCHOR}"),
        ],
    );
    check(
        "tool: mail:send\nriskLevel: low\n\"riskLevel\": high\nrateLimit: {calls: 1, calls: 2, per: 1m}",
        &[
            "line 3, column 1: duplicate key `riskLevel`, first used at line 2, column 1; keep one of them",
            "line 4, column 23: duplicate key `calls`, first used at line 4, column 13; keep one of them",
        ],
    );
    check(
        "tool: mail:send\ninputSchema: {minimum: .inf, maximum: 1e999}",
        &[
            "line 2, column 24: JSON does not support this number; quote it if it is text",
            "line 2, column 39: this number is too large; quote it if it is text",
        ],
    );
}

#[test]
fn json_syntax() {
    check_json("", &["line 1, column 1: the file is empty; write `[]` for no contracts"]);
    check_json("// later", &["line 1, column 1: the file is empty; write `[]` for no contracts"]);
    check_json(r#"{"tool": "mail:send""#, &["line 1, column 1: this `{` is never closed; add the missing `}`"]);
    check_json(
        r#"{"tool": "mail:\ud800"}"#,
        &["line 1, column 16: unknown escape in a string; write `\\\\` for one backslash"],
    );
    check_json("{tool: 1}", &["line 1, column 2: expected a key in double quotes"]);
    check_json(
        r#"{"tool": "mail:send", "tool": "mail:b"}"#,
        &["line 1, column 23: duplicate key `tool`, first used at line 1, column 2; keep one of them"],
    );
    check_json(
        "{\"tool\": \"mail:send\"}\n{\"tool\": \"mail:b\"}",
        &["line 2, column 1: expected the end of the file; the whole file is one `{ … }`"],
    );
    check_json(
        "{\"tool\": \"mail:send\",\n \"inputSchema\": {\"minimum\": 01, \"maximum\": 1e999}}",
        &["line 2, column 30: expected `,` before what follows"],
    );
    check_json(
        "{\"tool\": \"mail:send\",\r\n \"é\": 1,\r\n\"inputSchema\": {\"é\": {\"a\": 1, \"a\": 2}}}",
        &[
            &format!("line 2, column 2: unknown key `é`; {KNOWN}"),
            "line 3, column 31: duplicate key `a`, first used at line 3, column 23; keep one of them",
        ],
    );
}

#[test]
fn shapes() {
    check("5", &["line 1, column 1: expected object, found number"]);
    check("mail:send", &["line 1, column 1: expected object, found string"]);
    check(
        "- 1\n- tool: mail:a\n- []",
        &["line 1, column 3: expected object, found number", "line 3, column 3: expected object, found array"],
    );
    check("contracts: {}", &["line 1, column 12: expected array, found object"]);
    check(
        "contracts: []\ntool: mail:a\nextra: 1",
        &[
            "line 2, column 1: unknown key `tool`; move it into the list of `contracts`",
            "line 3, column 1: unknown key `extra`; known keys: `$schema`, `contracts`",
        ],
    );
    check("$schema: 5\ncontracts: []", &["line 1, column 10: expected string, found number; put it in quotes"]);
    check_json("null", &["line 1, column 1: expected object, found null; fill it in or remove it"]);
    check_json(r#"{"contracts": null}"#, &["line 1, column 15: expected array, found null; fill it in or remove it"]);
    check(
        "{}",
        &[
            "line 1, column 1: `tool` is missing; write the tool that it is for, such as `tool: mail:send` or `tool: mail:*`",
        ],
    );
    check(
        "riskLevel: low",
        &[
            "line 1, column 1: `tool` is missing; write the tool that it is for, such as `tool: mail:send` or `tool: mail:*`",
        ],
    );
    check(
        "tool: mail:a\n---\nriskLevel: x\n---\ntool: mail:*b",
        &[
            "line 3, column 1: `tool` is missing; write the tool that it is for, such as `tool: mail:send` or `tool: mail:*`",
            "line 3, column 12: unknown value `x`; write one of `low`, `medium`, `high`, `critical`, `forbidden`",
            "line 5, column 7: `*` is allowed only at the end of the tool part, such as `mail:*` or `mail:emails.*`",
        ],
    );
}

#[test]
fn tools() {
    check("tool: 5", &["line 1, column 7: expected string, found number; put it in quotes"]);
    check("tool: null", &["line 1, column 7: expected string, found null; fill it in or remove it"]);
    check("tool: mail", &["line 1, column 7: expected `server:tool`, such as `mail:emails.send` or `mail:*`"]);
    check(
        "tool: '*:send'",
        &["line 1, column 7: `*` is allowed only at the end of the tool part, such as `mail:*` or `mail:emails.*`"],
    );
    check(
        "tool: mail:*.send",
        &["line 1, column 7: `*` is allowed only at the end of the tool part, such as `mail:*` or `mail:emails.*`"],
    );
    check(
        "tool: Mail:send",
        &["line 1, column 7: server names look like [a-z0-9][a-z0-9_-]{0,62}, without two underscores in a row"],
    );
    check("tool: mail:a b", &["line 1, column 7: tool names consist of letters, digits, `_`, `.` and `-`"]);
    check("tool: []", &["line 1, column 7: expected string, found array"]);
    check(
        "- tool: mail:a\n- tool: mail:*\n- tool: mail:a\n- tool: mail:*",
        &[
            "line 3, column 9: a contract for `mail:a` is already in `c.yaml`, line 1; keep one of them",
            "line 4, column 9: a contract for `mail:*` is already in `c.yaml`, line 2; keep one of them",
        ],
    );
}
