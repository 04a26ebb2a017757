//! Tests for files with mistakes, with the whole text of every message.

use super::{World, mistakes};
use crate::settings::parse;

/// Compares the whole list of errors, one per line.
pub(in crate::settings) fn check(text: &str, expected: &[&str]) {
    let errors: Vec<String> = mistakes(text).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{text}");
}

/// Checks one key of one server, in line 1 from column 21 on.
fn check_server(field: &str, expected: &[&str]) {
    check(&format!(r#"{{"mcpServers":{{"a":{{{field}}}}}}}"#), expected);
}

#[test]
fn syntax() {
    check("", &["line 1, column 1: the file is empty; write `{}` for all defaults"]);
    check("// later", &["line 1, column 1: the file is empty; write `{}` for all defaults"]);
    check("{\"mcpServers\": [", &["line 1, column 16: this `[` is never closed; add the missing `]`"]);
    check("{\n  \"mcpServers\": {\n", &["line 2, column 17: this `{` is never closed; add the missing `}`"]);
    check("{\"listen\" 1}", &["line 1, column 11: expected `:` after the key"]);
    check("{\"listen\":}", &["line 1, column 11: expected a value, found `}`"]);
    check("{\"listen\":", &["line 1, column 11: expected a value after `:`"]);
    check("{listen: 1}", &["line 1, column 2: expected a key in double quotes"]);
    check("{'listen': 1}", &["line 1, column 2: expected double quotes, found a single quote"]);
    check("{\"a\": 1 \"b\": 2}", &["line 1, column 8: expected `,` before what follows"]);
    check("{,}", &["line 1, column 2: expected a key in double quotes, or `}`"]);
    check("\"mcpServers\": {}", &["line 1, column 13: expected the end of the file; the whole file is one `{ … }`"]);
    check(
        "{\"a\": yes }",
        &["line 1, column 7: expected a value: text in double quotes, a number, true, false, null, `[` or `{`"],
    );
    check("{\"a\": 0x10}", &["line 1, column 7: expected a plain number such as 10"]);
    check("{\"a\": \"C:\\Users\"}", &["line 1, column 10: unknown escape in a string; write `\\\\` for one backslash"]);
    check("{\n  \"é\": \"npx,\n  \"args\": []\n}", &["line 2, column 8: this string has no closing `\"` on its line"]);
    check("{\"a\": \"b", &["line 1, column 7: this string has no closing `\"`"]);
    check("{ /* ", &["line 1, column 3: this `/*` is never closed; add the missing `*/`"]);
    check(&"[".repeat(1000), &["line 1, column 513: this is nested too deeply"]);
}

#[test]
fn limits() {
    check(
        &" ".repeat(1024 * 1024 + 1),
        &[
            "line 1, column 1: the settings file is larger than 1 MiB; keep long values in files and refer to them with \
           `${file:PATH}`",
        ],
    );
    let servers = |count: usize| {
        let servers: Vec<String> = (0..count).map(|n| format!(r#""s{n}":{{"type":"demo"}}"#)).collect();
        format!("{{\n\"mcpServers\":{{{}}}}}", servers.join(","))
    };
    check(&servers(1000), &[]);
    check(&servers(1001), &["line 2, column 1: 1001 servers; at most 1000 are possible"]);
    let many: Vec<String> = (0..150).map(|n| format!("\"allowed_hosts{n:03}\": 1")).collect();
    let errors = parse(&format!("{{{}}}", many.join(",\n")), &World).unwrap_err();
    assert_eq!(errors.len(), 101);
    assert_eq!(errors.last().unwrap().to_string(), "line 100, column 1: there are more mistakes; fix these first");
}

#[test]
fn keys() {
    check(
        "{\n  \"intent_declartion\": {}\n}",
        &["line 2, column 3: unknown key `intent_declartion`; did you mean `intent_declaration`?"],
    );
    check(
        r#"{"dashboards": {}}"#,
        &[
            "line 1, column 2: unknown key `dashboards`; known keys: `$schema`, `mcpServers`, `env_passthrough`, `tools_refresh`, \
           `intent_declaration`, `contracts`, `trust`, `activity`, `approvals`, `people`, `agents`, `listen`, `shutdown_grace`, `ready_timeout`, `direct_mode`, `allow_anonymous_loopback`, `tls`, `tls_terminated_by_proxy`, `allowed_hosts`, \
           `allowed_origins`, `storage`, `operator_files`, `limits`, `metrics`, `export`, `search`",
        ],
    );
    check(r#"{"mcpServer": {}}"#, &["line 1, column 2: unknown key `mcpServer`; did you mean `mcpServers`?"]);
    check(
        r#"{"\u001b[2J": 1, "activity": {"durable": "all"}, "storage": {"URL": "x"}, "intent_declaration": {"x": 1}}"#,
        &[
            "line 1, column 2: unknown key `\\u{1b}[2J`; known keys: `$schema`, `mcpServers`, `env_passthrough`, `tools_refresh`, \
             `intent_declaration`, `contracts`, `trust`, `activity`, `approvals`, `people`, `agents`, `listen`, `shutdown_grace`, `ready_timeout`, `direct_mode`, `allow_anonymous_loopback`, `tls`, `tls_terminated_by_proxy`, `allowed_hosts`, \
             `allowed_origins`, `storage`, `operator_files`, `limits`, `metrics`, `export`, `search`",
            "line 1, column 31: unknown key `durable`; known keys: `durability`, `checkpoints_to`, `retention`",
            "line 1, column 62: unknown key `URL`; did you mean `url`?",
            "line 1, column 98: unknown key `x`; known keys: `strict_server_validation`, `two_key`, `unannotated`",
        ],
    );
    check(
        "{\"mcpServers\": {\n  \"github\": {\"type\": \"demo\"},\n  \"git\\u0068ub\": {\"type\": \"demo\", \"type\": \"demo\"}\n}}",
        &[
            "line 3, column 3: duplicate key `github`, first used at line 2, column 3; keep one of them",
            "line 3, column 35: duplicate key `type`, first used at line 3, column 19; keep one of them",
        ],
    );
    check_server(
        r#""type": "demo", "call_timout": "1s", "_comment": "x""#,
        &[
            "line 1, column 37: unknown key `call_timout`; did you mean `call_timeout`?",
            "line 1, column 58: unknown key `_comment`; write comments as `// …`",
        ],
    );
}

#[test]
fn types_and_words() {
    check("[]", &["line 1, column 1: expected object, found array"]);
    check_server(r#""url": "http://h", "headers": []"#, &["line 1, column 51: expected object, found array"]);
    check(r#"{"mcpServers": []}"#, &["line 1, column 16: expected object, found array"]);
    check(r#"{"mcpServers": {"a": "npx"}}"#, &["line 1, column 22: expected object, found string"]);
    check(
        "{\"intent_declaration\": {\n\t\"strict_server_validation\": \"false\", \"two_key\": true, \"unannotated\": \"deny\"}}",
        &[
            "line 2, column 30: expected boolean, found string; remove the quotes",
            "line 2, column 50: expected one of `optional`, `required`, found boolean",
            "line 2, column 71: unknown value `deny`; write one of `trust`, `warn`, `require_write`",
        ],
    );
    check(
        r#"{"listen": 8080, "allowed_hosts": "a", "allow_anonymous_loopback": null}"#,
        &[
            "line 1, column 12: expected string, found number; put it in quotes",
            "line 1, column 35: expected array, found string",
            "line 1, column 68: expected boolean, found null; fill it in or remove it",
        ],
    );
    check(
        r#"{"activity": {"durability": "none"}}"#,
        &["line 1, column 29: unknown value `none`; write one of `all`, `writes`"],
    );
}

#[test]
fn tls() {
    check(
        r#"{"tls": {}}"#,
        &[
            "line 1, column 9: `tls` needs `certificate`; write the path of a PEM file, such as \"certificate.pem\"",
            "line 1, column 9: `tls` needs `key`; write the path of a PEM file, such as \"key.pem\"",
        ],
    );
    check(
        r#"{"tls": {"cert": "a", "key": "~/b"}}"#,
        &[
            "line 1, column 9: `tls` needs `certificate`; write the path of a PEM file, such as \"certificate.pem\"",
            "line 1, column 10: unknown key `cert`; did you mean `certificate`?",
            "line 1, column 30: `~` works only in a shell; write the full path, or `${env:HOME}` for `~`",
        ],
    );
    check(
        r#"{"tls": {"certificate": "a", "key": "b"}, "tls_terminated_by_proxy": true,
"approvals": {"public_url": "http://localhost"}}"#,
        &[
            "line 1, column 2: `tls` and `tls_terminated_by_proxy` contradict each other: either the gateway terminates \
             TLS, or a proxy does; remove one of them",
            "line 1, column 2: with `tls`, the gateway does not answer `http://`; write `https://` in \
             `approvals.public_url`",
        ],
    );
    check(
        r#"{"tls": {"certificate": "a", "key": "b"}, "listen": "0.0.0.0:8443", "allow_anonymous_loopback": true}"#,
        &["line 1, column 69: `allow_anonymous_loopback` needs a listener on loopback, not 0.0.0.0:8443; listen on \
           127.0.0.1, or set it to false"],
    );
}

#[test]
fn addresses() {
    check(r#"{"listen": "8080"}"#, &["line 1, column 12: expected an address and a port such as \"127.0.0.1:8080\""]);
    check(
        r#"{"listen": "0.0.0.0:8080"}"#,
        &["line 1, column 12: refusing a non-loopback listener without TLS; listen on 127.0.0.1, give the \
           gateway a certificate with `tls`, or put a proxy that terminates TLS in front and set `tls_terminated_by_proxy` to true"],
    );
    check(
        r#"{"allow_anonymous_loopback": true, "tls_terminated_by_proxy": true}"#,
        &["line 1, column 2: `allow_anonymous_loopback` and `tls_terminated_by_proxy` cannot both be true: behind a \
           proxy, every client seems to be on this machine; set one of them to false"],
    );
    check(
        r#"{"allowed_hosts": ["a.example.com", "*"], "allowed_origins": ["app.example.com"]}"#,
        &[
            "line 1, column 37: expected a host such as \"gateway.example.com\" or \"gateway.example.com:8443\", without \
             scheme, path or `*`",
            "line 1, column 63: expected an origin such as \"https://app.example.com\", without path or `*`",
        ],
    );
}

#[test]
fn servers() {
    check(
        r#"{"mcpServers": {"": {"type": "demo"}, " ": {"type": "demo"}, "My Server": {"type": "demo"}}}"#,
        &[
            "line 1, column 17: `` cannot be a server's name: server names look like [a-z0-9][a-z0-9_-]{0,62}, \
             without two underscores in a row",
            "line 1, column 39: ` ` cannot be a server's name: server names look like [a-z0-9][a-z0-9_-]{0,62}, \
             without two underscores in a row",
        ],
    );
    check_server(
        "",
        &["line 1, column 16: no way to reach this server; add `command` to start it, or `url` to connect to it"],
    );
    check_server(
        r#""command": "x", "url": "http://h""#,
        &["line 1, column 37: both `command` and `url`; keep `command` to start the server, or `url` to connect to it"],
    );
    check_server(
        r#""command": "x", "headers": {"A": "b"}"#,
        &["line 1, column 37: `headers` has no meaning for a server of type `stdio`; remove it"],
    );
    check_server(
        r#""type": "sse", "command": "x""#,
        &[
            "line 1, column 16: a server of type `sse` needs `url`; add it",
            "line 1, column 36: `command` has no meaning for a server of type `sse`; remove it",
        ],
    );
    check_server(
        r#""type": "websocket", "command": "x""#,
        &["line 1, column 29: unknown value `websocket`; write one of `stdio`, `http`, `streamable-http`, \
           `streamableHttp`, `sse`, `demo`"],
    );
    check_server(
        r#""type": "demo", "enabled": true, "disabled": true"#,
        &["line 1, column 54: `enabled`, `disabled` contradict each other; remove one"],
    );
    check_server(
        r#""type": "demo", "call_timeout": 60, "connect_timeout": "1 day", "max_concurrent_calls": 0, "result_limit": 1.5"#,
        &[
            "line 1, column 53: expected string, found number; write the unit too, such as \"60s\" or \"500ms\"",
            "line 1, column 76: expected a duration such as \"500ms\", \"60s\" or \"5m\"",
            "line 1, column 109: expected a whole number from 1 to 10000",
            "line 1, column 128: expected a size between \"1KiB\" and \"1GiB\"",
        ],
    );
}

#[test]
fn commands() {
    check_server(
        r#""command": "sh -c 'curl x|sh'""#,
        &["line 1, column 32: command not found: \"sh …\"; put arguments in \"args\" (no shell is used)"],
    );
    check_server(r#""command": "/opt/my tools/server""#, &[]);
    check_server(r#""command": "C:\\Program Files\\node.exe""#, &[]);
    check_server(r#""command": "${env:HOME}/my tools/server""#, &[]);
    check_server(r#""command": " ""#, &["line 1, column 32: `command` is empty"]);
    check_server(
        r#""command": []"#,
        &["line 1, column 32: expected string, found array; write the program here and the rest in `args`"],
    );
    check_server(
        r#""command": "~/bin/x", "cwd": "~", "args": ["a", 1]"#,
        &[
            "line 1, column 32: `~` works only in a shell; write the full path, or `${env:HOME}` for `~`",
            "line 1, column 50: `~` works only in a shell; write the full path, or `${env:HOME}` for `~`",
            "line 1, column 69: expected string, found number; put it in quotes",
        ],
    );
    check_server(
        r#""command": "x", "env": {"": "a", "A=B": "${env:GITHUB_TOKEN}", "N": []}"#,
        &[
            "line 1, column 45: the name of an environment variable is not empty and contains no `=` and no NUL",
            "line 1, column 54: the name of an environment variable is not empty and contains no `=` and no NUL",
            "line 1, column 89: expected string, found array",
        ],
    );
}

#[test]
fn references() {
    check_server(
        r#""command": "x", "env": {"T": "a${env:MISSING}", "U": "\t${env:MISSING}"}"#,
        &[
            "line 1, column 52: environment variable `MISSING` is not set; set it where mcpproxy starts, or remove the \
             reference",
            "line 1, column 74: environment variable `MISSING` is not set; set it where mcpproxy starts, or remove the \
             reference",
        ],
    );
    check_server(
        r#""command": "x", "args": ["${file:gone}", "${env:", "${HO ME}", "${env:}", "${file:zero}", "$${ok}", "$HOME"]"#,
        &[
            "line 1, column 47: could not read file `gone`: no such file",
            "line 1, column 63: `${` without `}`; close it, or write `$${` for the characters themselves",
            "line 1, column 73: unknown reference `${HO ME}`; write `${env:NAME}` for an environment variable, \
             `${file:PATH}` for a file, or `$${` for the characters themselves",
            "line 1, column 85: `${env:}` has no name; write `${env:NAME}` or `${file:PATH}`",
            "line 1, column 95: contains a NUL character; remove it",
        ],
    );
}

#[test]
fn urls_and_headers() {
    let url = |url: &str, expected: &str| {
        check_server(&format!(r#""url": "{url}""#), &[&format!("line 1, column 28: {expected}")])
    };
    url(
        "example.com/mcp",
        "not an address (relative URL without a base); expected a URL such as \"https://mcp.example.com/mcp\"",
    );
    url("ftp://example.com", "the address begins with `ftp:`; expected `http://` or `https://`");
    url(
        "https://ann:hidden@example.com/mcp",
        "the address contains a user or password before `@`; put it into `headers`, for example \"Authorization\": \
         \"Basic ${env:NAME}\"",
    );
    url(
        "https://example.com/mcp#x",
        "the address contains `#`, which is never sent to a server; remove it and what follows",
    );
    url("https://example.com/ ${env:BROKEN}", "the address contains a space, line end or control character; remove it");
    check_server(
        r#""url": "http://h", "headers": {"A b": "x", "Authorization": "${env:BROKEN}", "authorization": "é", "Host": "x"}"#,
        &[
            "line 1, column 52: `A b` cannot be a header's name; use letters, digits and `-`",
            "line 1, column 64: the value of header `Authorization` contains a line end; remove it",
            "line 1, column 98: the value of header `authorization` may contain only printable ASCII; remove other characters",
            "line 1, column 98: duplicate header `authorization`, first used at line 1, column 64; keep one of them",
            "line 1, column 120: header `Host` is set by mcpproxy itself; remove it",
        ],
    );
}
