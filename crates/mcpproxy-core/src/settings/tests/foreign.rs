//! Tests for pasted blocks of other clients, one real-looking file for each.

use super::{World, mistakes};
use crate::settings::{Settings, ToolFilter, TransportSettings, parse, server_keys, translate};

fn read(text: &str) -> Settings {
    parse(text, &World).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

fn warnings(settings: &Settings) -> Vec<String> {
    settings.warnings.iter().map(ToString::to_string).collect()
}

/// Names with their titles.
fn names(settings: &Settings) -> Vec<(&str, Option<&str>)> {
    settings.servers.iter().map(|server| (server.name.as_str(), server.title.as_deref())).collect()
}

/// Shows a transport with everything that `Debug` hides.
fn shown(settings: &Settings, name: &str) -> String {
    let server = settings.servers.iter().find(|server| server.name.as_str() == name).unwrap();
    let pairs = |pairs: &[(String, crate::settings::Secret)]| {
        pairs.iter().map(|(name, value)| format!(" {name}={}", value.expose())).collect::<String>()
    };
    match &server.transport {
        TransportSettings::Stdio { command, args, env, cwd } => {
            let cwd = cwd.as_ref().map(|cwd| format!(" in {cwd}")).unwrap_or_default();
            format!("{command} {}{}{cwd}", args.join(" "), pairs(env))
        }
        TransportSettings::Http { url, headers } => format!("http {url}{}", pairs(headers)),
        TransportSettings::Sse { url, headers } => format!("sse {url}{}", pairs(headers)),
        TransportSettings::Demo => "demo".to_owned(),
        TransportSettings::Misconfigured { mistakes, .. } => {
            mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
    }
}

const APPROVALS: &str = "has no effect: contracts and policies decide which calls need an approval";

#[test]
fn claude_desktop() {
    let settings = read(include_str!("clients/claude_desktop.json"));
    assert_eq!(names(&settings), [("filesystem", None), ("github", Some("GitHub")), ("my-files", Some("My Files"))]);
    assert_eq!(
        shown(&settings, "github"),
        "docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN registry.example/github/github-mcp-server \
         GITHUB_PERSONAL_ACCESS_TOKEN=ghp_hidden"
    );
    assert_eq!(shown(&settings, "my-files"), "npx files http://reference.invalid/");
    assert!(!settings.servers[2].enabled);
    assert_eq!(warnings(&settings), [format!("line 11, column 7: `alwaysAllow` (github) {APPROVALS}")]);
}

#[test]
fn cursor() {
    let settings = read(include_str!("clients/cursor.json"));
    assert_eq!(shown(&settings, "sentry"), "http https://mcp.sentry.dev/mcp");
    assert_eq!(
        shown(&settings, "postgres"),
        "uvx postgres-mcp --home=/home/ann /home/ann/db MODE=restricted DATABASE_URL=postgres://ann:hidden@db"
    );
    assert_eq!(
        shown(&settings, "project"),
        "line 12, column 47: `${workspaceFolder}` has a meaning only in an editor; write the value itself, or \
         `${env:NAME}`"
    );
    assert_eq!(warnings(&settings), [format!("line 10, column 7: `autoApprove` (postgres) {APPROVALS}")]);
    // A secret in the file of variables is not in the settings.
    assert!(settings.inline_secrets().is_empty());
}

#[test]
fn vscode() {
    let settings = read(include_str!("clients/vscode.json"));
    assert_eq!(names(&settings), [("github", Some("GitHub")), ("playwright-mcp", Some("Playwright MCP"))]);
    assert_eq!(
        shown(&settings, "github"),
        "line 10, column 45: `${input:github-pat}` asks for a value in VS Code, but the gateway cannot ask; write \
         `${env:NAME}` or `${file:PATH}` instead"
    );
    assert_eq!(shown(&settings, "playwright-mcp"), "npx @playwright/mcp@latest PORT=8931 HEADLESS=true");
    assert_eq!(
        warnings(&settings),
        [
            "line 3, column 3: `inputs` has no effect: the gateway does not prompt for values; write `${env:NAME}` or \
             `${file:PATH}` instead of `${input:…}`",
            "line 11, column 7: `gallery` (github) has no effect here",
            "line 12, column 7: `version` (github) has no effect here",
            "line 19, column 7: `dev` (playwright-mcp) has no effect here",
        ]
    );
}

#[test]
fn windsurf() {
    let settings = read(include_str!("clients/windsurf.json"));
    assert_eq!(shown(&settings, "figma"), "http http://127.0.0.1:3845/mcp X-Key=ghp_hidden");
    let linear = &settings.servers[1];
    assert_eq!(linear.tools, ToolFilter { include: None, exclude: vec!["delete_issue".to_owned()] });
    assert_eq!(settings.warnings, []);
}

/// A server that one key limits stays limited, whatever another key says.
#[test]
fn the_stricter_of_two_keys_counts() {
    let settings = read(
        r#"{"mcpServers": {
            "a": {"command": "x", "isActive": true, "enabled": false},
            "b": {"command": "x", "enabled": false, "isActive": true},
            "c": {"command": "x", "excludeTools": ["drop"], "disabledTools": ["delete"]},
            "d": {"command": "x", "includeTools": ["read", "list"], "enabled_tools": ["read"]},
            "e": {"command": "x", "includeTools": [], "include_tools": ["read"]},
            "f": {"command": "x", "include_tools": ["read"], "includeTools": []}
        }}"#,
    );
    let enabled: Vec<bool> = settings.servers.iter().map(|server| server.enabled).collect();
    assert_eq!(enabled, [false, false, true, true, true, true]);
    let left_out = |index: usize, tool: &str| settings.servers[index].tools.left_out(tool).is_some();
    assert_eq!((left_out(2, "drop"), left_out(2, "delete"), left_out(2, "read")), (true, true, false));
    assert_eq!((left_out(3, "read"), left_out(3, "list"), left_out(3, "other")), (false, true, true));
    assert_eq!((left_out(4, "read"), left_out(5, "read")), (true, true), "an empty list offers no tool");
}

#[test]
fn zed() {
    let settings = read(include_str!("clients/zed.json"));
    assert_eq!(names(&settings), [("mcp-server-context7", None), ("old-style", None), ("remote", None)]);
    assert_eq!(shown(&settings, "old-style"), "uvx time TZ=UTC");
    assert_eq!(shown(&settings, "remote"), "http https://mcp.example.com/mcp A=b");
    assert_eq!(
        warnings(&settings),
        [
            "line 3, column 30: `source` (mcp-server-context7) has no effect here",
            "line 4, column 92: `settings` (old-style) has no effect here",
        ]
    );
}

#[test]
fn gemini() {
    let settings = read(include_str!("clients/gemini.json"));
    assert_eq!(shown(&settings, "docs"), "http https://docs.example.com/mcp Authorization=Bearer ghp_hidden");
    assert_eq!(shown(&settings, "python"), "python -m server in /srv/server");
    let timeouts: Vec<u64> = settings.servers.iter().map(|server| server.call_timeout.as_secs()).collect();
    assert_eq!(timeouts, [600, 15]);
    assert_eq!(settings.servers[0].tools.left_out("search"), None);
    assert!(settings.servers[0].tools.left_out("read").is_some());
    assert!(settings.servers[0].tools.left_out("delete").is_some());
    // One warning for the key, however many servers have it.
    assert_eq!(warnings(&settings), [format!("line 7, column 7: `trust` (docs, python) {APPROVALS}")]);
}

#[test]
fn opencode_and_cline() {
    let settings = read(include_str!("clients/opencode.json"));
    assert_eq!(names(&settings), [("local-one", Some("local one")), ("remote-one", None)]);
    assert_eq!(shown(&settings, "local-one"), "bun x server A=1");
    assert_eq!(shown(&settings, "remote-one"), "http https://mcp.example.com");
    assert_eq!(settings.servers[0].call_timeout.as_secs(), 5);
    assert_eq!(
        warnings(&settings),
        [
            "line 10, column 91: `oauth` (remote-one) has no effect: the gateway signs in only where a server asks for it and \
          a user agrees"
        ]
    );
    let settings = read(include_str!("clients/cline.json"));
    assert_eq!(shown(&settings, "weather"), "http https://weather.example.com/mcp");
    assert_eq!(shown(&settings, "news"), "sse https://news.example.com/sse");
    assert_eq!(settings.servers[0].call_timeout.as_secs(), 60);
    assert_eq!(
        warnings(&settings),
        [
            format!("line 4, column 7: `autoApprove` (weather, news) {APPROVALS}"),
            "line 10, column 15: `timeout` (news) has no effect: it is no time up to 24 hours".to_owned(),
        ]
    );
}

#[test]
fn several_sections_and_names_that_collide() {
    let text = r#"{
  "servers": {"GitHub": {"type": "demo"}, "github": {"type": "demo"}},
  "listen": "127.0.0.1:0",
  "mcpServers": {"GITHUB": {"type": "demo"}, "x": {"type": "demo", "title": "Mine"}, "my files": {"type": "demo"}, "my/files": {"type": "demo"}, "y": {"type": "demo"}},
  "mcp": {"y": {"type": "demo"}}
}"#;
    let settings = read(text);
    assert_eq!(
        names(&settings),
        [
            ("github-3", Some("GitHub")),
            ("github", None),
            ("github-2", Some("GITHUB")),
            ("x", Some("Mine")),
            ("my-files", Some("my files")),
            ("my-files-2", Some("my/files")),
            ("y", None),
            ("y-2", Some("y")),
        ]
    );
    // Servers that would have the same name do not run.
    let running: Vec<&str> = settings
        .servers
        .iter()
        .filter(|server| server.transport.mistakes().is_none())
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(running, ["x"]);
    assert_eq!(
        shown(&settings, "github-2"),
        "line 4, column 18: several servers would be called `github` here, so none of them runs: `GITHUB`, `GitHub`, \
         `github`. Give each server a different name."
    );
    assert_eq!(
        shown(&settings, "my-files"),
        "line 4, column 86: several servers would be called `my-files` here, so none of them runs: `my files`, \
         `my/files`. Give each server a different name."
    );
    assert_eq!(
        shown(&settings, "y-2"),
        "line 5, column 11: two sections have a server `y`; keep one of them, or rename one"
    );
    assert_eq!(settings.warnings, []);
    let keys: Vec<String> =
        server_keys(text).iter().map(|key| format!("{}.{}={}", key.section, key.key, key.name)).collect();
    assert_eq!(
        keys,
        [
            "servers.GitHub=github-3",
            "servers.github=github",
            "mcpServers.GITHUB=github-2",
            "mcpServers.x=x",
            "mcpServers.my files=my-files",
            "mcpServers.my/files=my-files-2",
            "mcpServers.y=y",
            "mcp.y=y-2",
        ]
    );
    assert!(server_keys("{").is_empty());
    assert!(server_keys("[]").is_empty());
}

/// A server that runs as `github` never hands its name, and with it its contracts, to a pasted one.
#[test]
fn a_pasted_server_never_takes_a_name() {
    for pasted in [
        r#"{"mcpServers": {"github": {"command": "mine"}, "GitHub": {"command": "theirs"}}}"#,
        r#"{"mcpServers": {"GitHub": {"command": "mine"}, "github": {"command": "theirs"}}}"#,
        r#"{"servers": {"GitHub": {"command": "theirs"}}, "mcpServers": {"github": {"command": "mine"}}}"#,
    ] {
        let settings = read(pasted);
        let mut found: Vec<(&str, Option<&str>)> = Vec::new();
        for (server, mistakes) in settings.misconfigured() {
            assert!(mistakes[0].message.contains("would be called `github` here"), "{mistakes:?}");
            found.push((server.name.as_str(), server.title.as_deref()));
        }
        found.sort_unstable();
        assert_eq!(found, [("github", None), ("github-2", Some("GitHub"))], "{pasted}");
    }
}

/// Goose writes empty lists for everything that a server does not have.
#[test]
fn an_entry_of_goose_over_http() {
    let text = r#"{"mcpServers": {"docs": {"type": "streamable_http", "name": "docs", "uri": "https://h/mcp", "envs": {},
        "env_keys": [], "headers": {}, "cmd": "", "args": [], "timeout": 300}}}"#;
    let settings = read(text);
    assert_eq!(shown(&settings, "docs"), "http https://h/mcp");
    let process = read(
        &text
            .replace("\"uri\": \"https://h/mcp\"", "\"uri\": \"\"")
            .replace("\"cmd\": \"\"", "\"cmd\": \"x\"")
            .replace("streamable_http", "stdio"),
    );
    assert_eq!(shown(&process, "docs"), "x ");
}

#[test]
fn headers_from_variables_that_are_none() {
    let text = r#"{"mcpServers": {
  "a": {"url": "http://h", "env_http_headers": ["X-Key"]},
  "b": {"url": "http://h", "env_http_headers": {"X-A": 5, "X-B": "X} ${file:docs.key", "X-C": "GITHUB_TOKEN"}},
  "c": {"url": "http://h", "bearer_token_env_var": "${file:docs.key}"}
}}"#;
    let settings = read(text);
    assert_eq!(shown(&settings, "a"), "http http://h");
    assert_eq!(shown(&settings, "b"), "http http://h X-C=ghp_hidden");
    assert_eq!(shown(&settings, "c"), "http http://h");
    let no_variable = "has no effect: it must name an environment variable, such as `MY_TOKEN`";
    assert_eq!(
        warnings(&settings),
        [
            "line 2, column 28: `env_http_headers` (a) has no effect: write an object of header names and variables, \
             such as `{\"X-Key\": \"MY_KEY\"}`"
                .to_owned(),
            format!("line 3, column 49: `env_http_headers` (b, b) {no_variable}"),
            format!("line 4, column 28: `bearer_token_env_var` (c) {no_variable}"),
        ]
    );
}

/// Counts secrets wherever they stand, also in a server that does not run.
#[test]
fn secrets_in_the_file_are_counted() {
    let settings = read(
        r#"{"mcpServers": {
            "args": {"command": "x", "args": ["--token", "abc", "--verbose"]},
            "url": {"url": "https://h/s/N2E5ZjQ0YzItM2Q0/mcp?key=a"},
            "broken": {"comand": "x", "env": {"API_KEY": "a"}},
            "off": {"command": "x", "env": {"API_KEY": "a"}, "enabled": false},
            "fine": {"command": "x", "args": ["--token", "${env:HOME}", "$${a}"], "env": {"API_KEY": "${file:docs.key}"}}
        }}"#,
    );
    assert_eq!(
        settings.inline_secrets(),
        [
            "mcpServers.args.args.1",
            "mcpServers.url.url",
            "mcpServers.url.url?key",
            "mcpServers.broken.env.API_KEY",
            "mcpServers.off.env.API_KEY",
        ]
    );
}

#[test]
fn keys_that_no_client_uses_are_mistakes() {
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(mistakes(text).iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
    };
    check(
        r#"{"mcpServers": {"A B": {"comand": "x"}}}"#,
        &[
            "line 1, column 17: no way to reach this server; add `command` to start it, or `url` to connect to it",
            "line 1, column 25: unknown key `comand`; did you mean `command`?",
        ],
    );
    check(r#"{"servers": []}"#, &["line 1, column 13: expected object, found array"]);
    check(r#"{"mcpServers": {}, "mcp": 1}"#, &["line 1, column 27: expected object, found number"]);
    check(
        r#"{"mcpServers": {"a": {"httpUrl": "ftp://x"}}}"#,
        &["line 1, column 34: the address begins with `ftp:`; expected `http://` or `https://`"],
    );
    check(
        r#"{"mcpServers": {"a": {"command": "x", "envFile": "gone.env"}}}"#,
        &["line 1, column 50: could not read file `gone.env`: no such file"],
    );
    check(
        r#"{"mcpServers": {"a": {"command": "x", "envFile": "docs.key"}}}"#,
        &["line 1, column 50: line 1 of `docs.key` is not `NAME=VALUE`; correct it"],
    );
    check(
        r#"{"mcpServers": {"a": {"command": "x", "includeTools": "read"}}}"#,
        &["line 1, column 55: expected array, found string"],
    );
}

#[test]
fn two_names_for_one_thing() {
    let settings = read(r#"{"mcpServers": {"a": {"serverUrl": "http://first", "url": "http://second"}}}"#);
    assert_eq!(shown(&settings, "a"), "http http://first");
    assert_eq!(
        warnings(&settings),
        ["line 1, column 52: `url` (a) is given twice under different names; the first counts"]
    );
    let settings = read(r#"{"mcpServers": {"a": {"url": "http://first", "httpUrl": "http://second"}}}"#);
    assert_eq!(shown(&settings, "a"), "http http://first");
    assert_eq!(
        warnings(&settings),
        ["line 1, column 46: `httpUrl` (a) has no effect, because another key says the same"]
    );
}

#[test]
fn entries_of_codex_are_translated() {
    let servers = serde_json::json!({
        "Figma": {
            "url": "https://mcp.figma.com/mcp",
            "bearer_token_env_var": "FIGMA_TOKEN",
            "http_headers": { "X-Region": "us" },
            "env_http_headers": { "X-Key": "FIGMA_KEY" },
            "tool_timeout_sec": 45.5,
            "startup_timeout_sec": 20,
            "default_tools_approval_mode": "auto",
            "tools": { "search": { "approval_mode": "approve" } }
        },
        "shell": {
            "command": "npx", "args": ["shell"], "env_vars": ["LOCAL", { "name": "OTHER" }],
            "enabled_tools": ["run"], "disabled_tools": ["rm"]
        }
    });
    let (translated, found) = translate(servers.as_object().unwrap());
    let definitions: Vec<(&str, &str, &serde_json::Value)> =
        translated.iter().map(|one| (one.name.as_str(), one.original.as_str(), &one.definition)).collect();
    assert_eq!(
        definitions,
        [
            (
                "figma",
                "Figma",
                &serde_json::json!({
                    "title": "Figma",
                    "url": "https://mcp.figma.com/mcp",
                    "headers": {
                        "X-Region": "us", "Authorization": "Bearer ${env:FIGMA_TOKEN}", "X-Key": "${env:FIGMA_KEY}"
                    },
                    "call_timeout": "45500ms",
                    "connect_timeout": "20s"
                })
            ),
            (
                "shell",
                "shell",
                &serde_json::json!({
                    "command": "npx", "args": ["shell"], "env_passthrough": ["LOCAL", "OTHER"],
                    "include_tools": ["run"], "exclude_tools": ["rm"]
                })
            ),
        ]
    );
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [format!("`default_tools_approval_mode` (figma) {APPROVALS}"), format!("`tools` (figma) {APPROVALS}")]
    );
}

#[test]
fn many_servers_and_keys_take_bounded_time() {
    // All of these names have the same slug.
    let letters = (0..20_000).filter_map(|number| char::from_u32(0x4e00 + number));
    let servers: Vec<String> = letters.map(|letter| format!(r#""{letter}":{{}}"#)).collect();
    let text = format!(r#"{{"servers": {{{}}}}}"#, servers.join(","));
    assert_eq!(
        mistakes(&text).iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["line 1, column 2: 20000 servers; at most 1000 are possible"]
    );
    assert_eq!(server_keys(&text).len(), 1000);
    let keys: Vec<String> = (0..60_000).map(|number| format!(r#""k{number}":0"#)).collect();
    let text = format!(r#"{{"mcpServers": {{"a": {{{}}}}}}}"#, keys.join(","));
    assert_eq!(mistakes(&text).len(), 20);
}
