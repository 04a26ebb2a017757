//! Commands that need no running gateway: their output and exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use common::Folder;
use insta::assert_snapshot;

#[test]
fn help_of_every_command() {
    check_help(&Folder::new(), &[]);
}

/// Compares the help of a command and of all its subcommands. Every command must show examples.
fn check_help(folder: &Folder, command: &[&str]) {
    let help = folder.run(&[command, &["--help"]].concat());
    assert!(help.contains("\nExamples:\n"), "`mcpproxy {}` shows no examples", command.join(" "));
    let name = format!("help_{}", command.join("_").replace('-', "_")).trim_end_matches('_').to_owned();
    assert_snapshot!(name, help.as_str());
    for subcommand in common::subcommands(&help) {
        check_help(folder, &[command, &[subcommand]].concat());
    }
}

#[test]
fn usage_errors() {
    let folder = Folder::new();
    assert_snapshot!("call_without_a_name", folder.run(&["call", "tool-read"]));
    assert_snapshot!("call_with_a_bad_name", folder.run(&["call", "tool-read", "delete_thing"]));
    assert_snapshot!("call_with_bad_json", folder.run(&["call", "tool-read", "fx:echo", "--args", "{bad"]));
    assert_snapshot!("call_with_bad_json_args", folder.run(&["call", "tool-read", "fx:echo", "--json_args", "[]"]));
    assert_snapshot!("call_with_two_names", folder.run(&["call", "tool-read", "fx:a", "--tool-name", "fx:b"]));
    assert_snapshot!("bad_sensitivity", folder.run(&["call", "tool-write", "fx:note", "--sensitivity", "secret"]));
    assert_snapshot!("bad_listen", folder.run(&["serve", "--listen", "8080"]));
    assert_snapshot!("open_listen", folder.run(&["serve", "--listen", "0.0.0.0:0"]));
    assert_snapshot!("add_without_anything", folder.run(&["servers", "add", "x"]));
    assert_snapshot!("bad_server_name", folder.run(&["servers", "add", "X Y", "--", "true"]));
    assert_snapshot!("bad_operations", folder.run(&["token", "create", "x", "--operations", "read,admin"]));
    assert_snapshot!("bad_approval_id", folder.run(&["call", "tool-read", "fx:echo", "--approval-id", "01JG2"]));
    assert_snapshot!("bad_state", folder.run(&["approvals", "list", "--state", "open"]));
    assert_snapshot!("bad_timeout", folder.run(&["approvals", "wait", "01JG2", "--timeout", "soon"]));
    assert_snapshot!(
        "dry_run_with_key",
        folder.run(&["call", "tool-read", "fx:a", "--dry-run", "--idempotency-key", "k"])
    );
    assert_snapshot!("bad_agent_name", folder.run(&["token", "create", "a b"]));
}

#[test]
fn without_a_gateway() {
    let folder = Folder::new();
    for (name, args) in [
        ("no_gateway_call", &["call", "tool-read", "fx:echo"][..]),
        ("no_gateway_tools", &["tools", "list"]),
        ("no_gateway_servers", &["servers", "list"]),
        ("no_gateway_contract", &["contract", "show", "fx:echo"]),
        ("no_gateway_approvals", &["approvals", "list"]),
        ("no_gateway_wait", &["approvals", "wait", "01JG2"]),
        // A pipe is no terminal, so this fails with or without a gateway.
        ("no_terminal_approve", &["approvals", "approve", "01JG2"]),
    ] {
        assert_snapshot!(name, folder.run(args));
    }
}

#[test]
fn config_check() {
    let folder = Folder::new();
    assert_snapshot!("config_missing", folder.run(&["config", "check"]));
    assert_snapshot!("config_file_missing", folder.run(&["config", "check", "gone.json"]));
    let check = |name: &str, text: &str| {
        folder.write("mcp_config.json", text);
        assert_snapshot!(name, folder.run(&["config", "check"]));
    };
    check(
        "config_good",
        "{\"mcpServers\": {\"a\": {\"command\": \"true\"}, \"b\": {\"command\": \"true\", \"enabled\": false}}}",
    );
    check("config_cut_off", "{\"mcpServers\": [");
    check("config_unknown_key", "{\n  \"intent_declartion\": {},\n  \"listen\": 8080\n}");
    check("config_open_listener", "{\"listen\": \"0.0.0.0:8080\"}");
    check(
        "config_missing_variable",
        "{\"mcpServers\": {\"a\": {\"command\": \"true\", \"env\": {\"T\": \"${env:NO_SUCH_VARIABLE}\"}}}}",
    );
    std::fs::write(folder.file("mcp_config.json"), b"{\n\"listen\": \"\xff\"}").unwrap();
    assert_snapshot!("config_not_utf8", folder.run(&["config", "check"]));
}

/// A complete contract, and policies with test cases.
const CONTRACT: &str = "\
tool: mail:send
riskLevel: high
operation: write
permissions: [emails:send]
sideEffects: [An e-mail is sent.]
auditEvent: email.sent
failureModes: [permission_denied, confirmation_required, invalid_recipient]
";
const POLICIES: &str = "\
@id(\"no-night-mail\")
@message(\"No mail at night\")
forbid (principal, action, resource in Server::\"mail\")
when { context.time.hour < 7 };

forbid (principal == Agent::\"laptop\", action, resource)
when { resource.riskRank >= 4 };
";

#[test]
fn contracts_and_policies_are_checked_with_the_settings() {
    let folder = Folder::new();
    folder.write("mcp_config.json", "{}");
    folder.make("contracts");
    folder.make("policies");
    folder.write("contracts/mail.yaml", CONTRACT);
    folder.write("contracts/.hidden.yaml", "nonsense: [");
    folder.write("policies/night.cedar", POLICIES);
    assert_snapshot!("config_with_contracts", folder.run(&["config", "check"]));
    assert_snapshot!("config_with_contracts_json", folder.run(&["config", "check", "-o", "json"]));
    folder.write("mcp_config.json", "{\"listn\": 1}");
    folder.write("contracts/mail.yaml", "tool: mail:send\nriskLevel: hgih\n");
    folder.write("policies/night.cedar", "forbid (principal, action, resource) when { resource.rsk == \"low\" };");
    assert_snapshot!("config_all_wrong", folder.run(&["config", "check"]));
}

#[test]
fn contract_lint_of_files() {
    let folder = Folder::new();
    let none: [&str; 2] = ["contract", "lint"];
    assert_snapshot!("lint_nothing", folder.run(&none));
    folder.make("contracts");
    folder.write("contracts/mail.yaml", CONTRACT);
    assert_snapshot!("lint_good", folder.run(&none));
    let doubtful = "# DRAFT: not read yet\ntool: mail:delete\nriskLevel: critical\n---\ntool: mail:list\ncategory: x\n";
    folder.write("contracts/doubtful.yaml", doubtful);
    assert_snapshot!("lint_doubtful", folder.run(&none));
    assert_snapshot!("lint_doubtful_json", folder.run(&["contract", "lint", "-o", "json"]));
    assert!(folder.run(&["contract", "lint", "--strict"]).starts_with("exit 1\n"));
    let wrong = "tool: mail:send\nriskLevel: hgih\npermisions: [a]\n";
    folder.write("wrong.yaml", wrong);
    let file = folder.file("wrong.yaml").display().to_string();
    assert_snapshot!("lint_wrong", folder.run(&["contract", "lint", &file]));
    assert_snapshot!("lint_wrong_yaml", folder.run(&["contract", "lint", &file, "-o", "yaml"]));
    assert_snapshot!("lint_missing", folder.run(&["contract", "lint", &format!("{file}.gone")]));
    folder.write("contracts/wrong.yaml", "tool: [\n");
    assert_snapshot!("lint_unreadable", folder.run(&none));
}

#[test]
fn policies_are_checked_and_tested() {
    let folder = Folder::new();
    assert_snapshot!("policies_none", folder.run(&["policy", "check"]));
    folder.make("policies");
    folder.write("policies/night.cedar", POLICIES);
    assert_snapshot!("policies_good", folder.run(&["policy", "check"]));
    assert_snapshot!("policies_good_json", folder.run(&["policy", "check", "-o", "json"]));
    folder.write("wrong.cedar", "permit (principal, action, resource);\nforbid (principal, action) when { x };\n");
    let wrong = folder.file("wrong.cedar").display().to_string();
    assert_snapshot!("policies_wrong", folder.run(&["policy", "check", &wrong]));
    assert_snapshot!("policies_missing", folder.run(&["policy", "check", &format!("{wrong}.gone")]));

    let cases = "\
- name: no mail at night
  tool: mail:send
  time: 03:00 sunday
  expect: deny
  policy: no-night-mail
- name: mail at noon
  tool: mail:send
  expect: allow
- name: the laptop is careful
  agent: laptop
  tool: { name: files:drop, risk: critical }
  expect: deny
";
    folder.write("cases.yaml", cases);
    let file = folder.file("cases.yaml").display().to_string();
    assert_snapshot!("cases_good", folder.run(&["policy", "test", &file]));
    folder.write("cases.yaml", &cases.replace("03:00", "13:00").replace("agent: laptop", "agent: phone"));
    assert_snapshot!("cases_failed", folder.run(&["policy", "test", &file]));
    assert_snapshot!("cases_failed_json", folder.run(&["policy", "test", &file, "-o", "json"]));
    folder.write("cases.yaml", "- name: a\n  tool: mail:send\n  expct: deny\n- tool: nothing\n  expect: no\n");
    assert_snapshot!("cases_wrong", folder.run(&["policy", "test", &file]));
    folder.write("cases.yaml", "- name: a\n - b: [\n");
    assert_snapshot!("cases_unreadable", folder.run(&["policy", "test", &file]));
    folder.write("cases.json", "{\"cases\": [{\"tool\": \"mail:send\", \"expect\": \"allow\"}]}");
    let json = folder.file("cases.json").display().to_string();
    let policies = folder.file("policies/night.cedar").display().to_string();
    assert_snapshot!("cases_json", folder.run(&["policy", "test", &json, "--policies", &policies]));
}

#[test]
fn schemas_of_contracts_and_policies() {
    let folder = Folder::new();
    let schema = folder.json(&["contract", "schema"]);
    assert!(schema.get("$schema").is_some(), "{schema}");
    let output = folder.command(&["policy", "schema"]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("entity Tool in [Server, Category]"));
    assert!(folder.json(&["policy", "schema"])["schema"].is_string());
}

/// The table is the checked-in file, and JSON has the same rows.
#[test]
fn the_decision_table() {
    let folder = Folder::new();
    let output = folder.command(&["policy", "table"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, include_str!("../../mcpproxy-core/decisions.txt"));
    let table = folder.json(&["policy", "table"]);
    let names: Vec<&String> = table.as_object().unwrap().keys().collect();
    assert_eq!(names, ["decisions", "contract", "user", "dry_run", "permissions"]);
    let expected = serde_json::json!({
        "variant": ["read", "write"],
        "declared": "destructive",
        "readOnlyHint": "any",
        "destructiveHint": "any",
        "strict_server_validation": "any",
        "two_key": "any",
        "unannotated": "any",
        "outcome": "deny INTENT_MISMATCH",
    });
    assert!(table["decisions"].as_array().unwrap().contains(&expected), "{table}");
}

#[test]
fn settings_with_secrets_are_ours_alone() {
    let folder = Folder::new();
    folder.write(
        "mcp_config.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"true\", \"env\": {\"API_TOKEN\": \"abc\"}}}}",
    );
    let check = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.file("mcp_config.json"), permissions).unwrap();
        assert_snapshot!(name, folder.run(&["config", "check"]));
    };
    check("secrets_readable", 0o644);
    let fixed = folder.run(&["config", "check", "--fix"]);
    assert!(fixed.starts_with("exit 0") && fixed.contains("Set mode 0600 on FOLDER/mcp_config.json."), "{fixed}");
    let mode = std::fs::metadata(folder.file("mcp_config.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!folder.run(&["config", "check", "--fix"]).contains("Set mode"));
    check("secrets_private", 0o600);
    folder.write("mcp_config.json", "{}");
    check("settings_writable", 0o666);
    check("settings_readable", 0o664);
    // Without a secret, only the permission to write is removed, and none is added.
    let fix = |mode: u32| {
        let path = folder.file("mcp_config.json");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let fixed = folder.run(&["config", "check", "--fix"]);
        assert!(fixed.starts_with("exit 0"), "{mode:o}: {fixed}");
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!([0o666, 0o664, 0o644, 0o600, 0o400].map(fix), [0o644, 0o644, 0o644, 0o600, 0o400]);
}

/// A block of VS Code as it is, with a key of another client and one that no client has.
#[test]
fn pasted_servers_are_checked() {
    let folder = Folder::new();
    folder.write(
        "mcp_config.json",
        "{\n  \"inputs\": [],\n  \"servers\": {\n    \"My Files\": {\"command\": \"true\", \"trust\": true}\n  }\n}\n",
    );
    assert_snapshot!("config_pasted", folder.run(&["config", "check"]));
    let warnings = &folder.json(&["config", "check"])["warnings"];
    assert_eq!(warnings.as_array().unwrap().len(), 2, "{warnings}");
    let removed = folder.run(&["servers", "remove", "my-files"]);
    assert!(removed.contains("removed my-files from FOLDER/mcp_config.json"), "{removed}");
    assert!(!folder.read("mcp_config.json").contains("My Files"));
}

#[test]
fn the_schema_is_json() {
    let folder = Folder::new();
    let schema = folder.json(&["config", "schema"]);
    assert!(schema.pointer("/properties/mcpServers").is_some());
}

#[test]
fn servers_are_added_and_removed() {
    let folder = Folder::new();
    let header = "Authorization=Bearer ${env:HOME}";
    assert_snapshot!(
        "add_stdio",
        folder.run(&["servers", "add", "time", "--env", "A=b=c", "--", "uvx", "mcp-server-time", "--utc"])
    );
    assert_snapshot!(
        "add_http",
        folder.run(&["servers", "add", "docs", "--url", "https://docs.example.com/mcp", "--header", header])
    );
    assert_snapshot!("added", folder.read("mcp_config.json"));
    let mode = std::fs::metadata(folder.file("mcp_config.json")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);

    assert_snapshot!("add_again", folder.run(&["servers", "add", "time", "--", "true"]));
    assert_snapshot!("add_bad_url", folder.run(&["servers", "add", "x", "--url", "ftp://example.com"]));
    assert_snapshot!("disable", folder.run(&["servers", "disable", "docs"]));
    assert_snapshot!("disabled", folder.read("mcp_config.json"));
    assert_snapshot!("remove", folder.run(&["servers", "remove", "docs"]));
    assert_snapshot!("remove_again", folder.run(&["servers", "remove", "docs"]));

    let text = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\" } // a\n  }\n}\n";
    folder.write("mcp_config.json", text);
    folder.run(&["servers", "add", "b", "--", "true"]);
    folder.run(&["servers", "remove", "b"]);
    assert_eq!(folder.read("mcp_config.json"), text);

    folder.write("mcp_config.json", "{\"mcpServers\": [");
    assert_snapshot!("add_to_a_bad_file", folder.run(&["servers", "add", "b", "--", "true"]));
    assert_eq!(folder.read("mcp_config.json"), "{\"mcpServers\": [");
}

#[test]
fn tokens() {
    let folder = Folder::new();
    let output = folder.command(&[
        "token",
        "create",
        "ci",
        "--servers",
        "a,b",
        "--operations",
        "write,read",
        "--grant",
        "files:*",
    ]);
    let output = { output }.output().unwrap();
    let token = String::from_utf8(output.stdout).unwrap();
    assert!(token.starts_with("mcp_") && token.ends_with('\n') && token.lines().count() == 1, "{token}");

    // A name may be the one of a server that is added later, so it is only told.
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, "note: There is no server `a` yet.\nnote: There is no server `b` yet.\n");
    let edited = folder.run(&["token", "edit", "ci", "--servers", "a,b,demo,demmo"]);
    assert!(edited.contains("note: There is no server `demmo` yet. Did you mean `demo`?\n"), "{edited}");
    assert!(!edited.contains("`demo` yet"), "{edited}");
    folder.run(&["token", "edit", "ci", "--servers", "a,b"]);
    let bare = folder.command(&["token", "create", "bare"]).output().unwrap();
    assert_snapshot!("token_without_grants", String::from_utf8(bare.stderr).unwrap());
    folder.run(&["token", "revoke", "bare"]);
    folder.command(&["token", "create", "nightly", "--headless"]).output().unwrap();
    let rows = folder.run(&["token", "list"]);
    let is_headless = |name: &str| rows.lines().find(|row| row.starts_with(name)).unwrap().contains("  yes  ");
    assert_eq!((is_headless("nightly"), is_headless("ci")), (true, false), "{rows}");
    folder.run(&["token", "revoke", "nightly"]);

    let mut listed = folder.json(&["token", "list"]);
    listed["tokens"].as_array_mut().unwrap().retain(|token| token["name"] == "ci");
    listed["tokens"][0]["created"] = "some time".into();
    assert_snapshot!("token_list", serde_json::to_string_pretty(&listed).unwrap());
    assert_snapshot!("token_twice", folder.run(&["token", "create", "ci"]));
    assert_snapshot!("token_revoke", folder.run(&["token", "revoke", "ci"]));
    assert_snapshot!("token_revoke_again", folder.run(&["token", "revoke", "ci"]));
    let listed = folder.json(&["token", "list"]);
    assert!(listed["tokens"].as_array().unwrap().iter().all(|token| token["revoked"].is_string()), "{listed}");
}

#[test]
fn a_broken_pipe_is_no_error() {
    let folder = Folder::new();
    let mut child =
        folder.command(&["config", "schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn nothing_waits_for_what_is_no_file() {
    let check = |name: &str, args: &[&str], make: &dyn Fn(&Folder)| {
        let folder = Folder::new();
        folder.write("mcp_config.json", "{\"mcpServers\": {}}");
        make(&folder);
        assert_snapshot!(name, folder.run(args));
    };
    let in_contracts = |folder: &Folder| {
        folder.make("contracts");
        folder.pipe("contracts/a.yaml");
    };
    check("pipe_check", &["config", "check"], &in_contracts);
    check("pipe_lint", &["contract", "lint"], &in_contracts);
    check("pipe_serve", &["serve", "--listen", "127.0.0.1:0"], &in_contracts);
    check("pipe_settings", &["config", "check"], &|folder| {
        folder.remove("mcp_config.json");
        folder.pipe("mcp_config.json");
    });
    check("folder_is_a_file", &["config", "check"], &|folder| folder.write("policies", ""));
    check("folder_is_open", &["config", "check"], &|folder| {
        folder.make("contracts");
        std::fs::set_permissions(folder.file("contracts"), std::fs::Permissions::from_mode(0o777)).unwrap();
    });
}

#[test]
fn grants_have_a_form() {
    let folder = Folder::new();
    assert_snapshot!("bad_grant", folder.run(&["token", "create", "a", "--grant", "a*b"]));
    for grant in ["", " files:read", "files:**", "ﬁles:*"] {
        let output = folder.run(&["token", "create", "a", "--grant", grant]);
        assert!(output.starts_with("exit 2\n"), "{grant:?}: {output}");
    }
    assert!(folder.run(&["token", "create", "a", "--grant", "files:*"]).starts_with("exit 0\n"));
}
