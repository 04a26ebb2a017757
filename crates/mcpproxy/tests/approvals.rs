//! Calls that need an approval, with a running gateway: requesting, showing, deciding at a terminal, and making the
//! call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on stops"
)]

#[path = "approvals/anna.rs"]
mod anna;
mod common;
#[path = "approvals/review.rs"]
mod review;
#[path = "approvals/users.rs"]
mod users;
#[path = "approvals/weakening.rs"]
mod weakening;

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::Stdio;

use anna::{PASSWORD, approve, code, make_anna, send, signed_in};
use common::person::Person;
use common::{Folder, Serving, steady, wait};
use insta::assert_snapshot;
use serde_json::{Value, json};

const DELETE: [&str; 5] = ["call", "tool-destructive", "demo:delete_user", "--args", "{\"userId\": \"u_max\"}"];
const SHARE: [&str; 5] = [
    "call",
    "tool-write",
    "demo:share_file_link",
    "--args",
    "{\"fileId\": \"f_report\", \"email\": \"eve@example.com\"}",
];

const BULK: &str = "{\"templateId\": \"tmpl_newsletter_q3\", \"segmentId\": \"seg_active_customers\"}";

fn folder() -> Folder {
    holding("0s")
}

/// Creates a folder whose gateway holds calls for this time.
fn holding(wait: &str) -> Folder {
    let folder = Folder::new();
    let settings = json!({"mcpServers": {"demo": {"type": "demo"}}, "approvals": {"wait": wait}});
    folder.write("mcp_config.json", &settings.to_string());
    folder
}

/// Makes a call that needs an approval. Returns the id of the approval request.
fn asks(folder: &Folder, call: &[&str]) -> String {
    let output = folder.command(call).args(["-o", "json"]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(output.status.code(), Some(4), "{answer}");
    answer["structuredContent"]["error"]["details"]["approval_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_user_approves_in_a_terminal() {
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    let asked = folder.run(&[&DELETE[..], &["--reason", "It's time"]].concat());
    assert_snapshot!("asked", steady(&asked));
    let id = asks(&folder, &DELETE);
    assert!(asked.contains(&id), "the same call is the same question");
    serving.wait("the line of the question", || {
        serving.has_said(
            "✋ approval needed: agent local wants demo:delete_user (critical, says the server) http://localhost:",
        )
    });

    let mut anna = approve(&folder, &id[..20]);
    anna.sees("demo:delete_user");
    anna.sees("Name: ");
    assert!(anna.has_echo());
    anna.types("anna\n");
    anna.sees("Password: ");
    wait("no echo", || !anna.has_echo());
    anna.types("not my password\n");
    anna.sees("Wrong name or password.");
    anna.sees("Name: ");
    anna.types("anna\n");
    anna.sees("Password: ");
    anna.types(&format!("{PASSWORD}\n"));
    anna.sees("userId: \"u_max\"");
    anna.sees("Type approve or deny: ");
    anna.types("yes\n");
    anna.sees("Type `approve` or `deny`.");
    anna.sees("Type approve or deny: ");
    anna.types("approve\n");
    anna.sees("Code from your authenticator app: ");
    anna.types("000000\n");
    anna.sees("The code is wrong or already used");
    anna.sees("Code from your authenticator app: ");
    anna.types(&format!("{}\n", code()));
    anna.sees("The agent can make this call once");
    assert_eq!(anna.leaves(), Some(0), "{}", anna.screen());
    assert!(anna.has_echo(), "the terminal is as it was");
    let screen = anna.screen();
    assert!(!screen.contains(PASSWORD) && !screen.contains("not my password"), "{screen}");
    serving
        .wait("the line of the decision", || serving.has_said("✓ approved by anna: demo:delete_user for agent local"));

    assert!(folder.run(&["approvals", "wait", &id]).starts_with("exit 0\n"));
    let other = folder.run(&[&DELETE[..4], &["{\"userId\": \"u_ines\"}", "--approval-id", &id]].concat());
    assert!(other.starts_with("exit 3\n") && other.contains("(approval_args_mismatch)"), "{other}");
    let again = [&DELETE[..], &["--approval-id", &id]].concat();
    assert_snapshot!("made", folder.run(&again));
    let twice = folder.run(&again);
    assert!(twice.starts_with("exit 3\n") && twice.contains("(approval_already_used)"), "{twice}");
    let shown = folder.json(&["approvals", "show", &id]);
    assert_eq!((shown["state"].as_str(), shown["decided_by"].as_str()), (Some("consumed"), Some("anna")), "{shown}");
    assert_eq!(approve_late(&folder, &id), Some(3));
}

/// The approver sees sensitive values unmasked. Every other output masks them.
#[test]
fn nothing_is_masked_for_the_approver() {
    let folder = folder();
    let contract = "tool: demo:share_file_link\nriskLevel: high\nsensitive: [/email]\n";
    folder.make("contracts");
    folder.write("contracts/share.yaml", contract);
    let serving = Serving::start(&folder);
    make_anna(&serving);
    let to = |email: &str| format!("{{\"fileId\": \"f_report\", \"email\": \"{email}\"}}");
    let (boss, eve) = (to("boss@example.com"), to("eve@evil.example\\u202e"));
    let share = |args: &str| SHARE[..4].iter().map(ToString::to_string).chain([args.to_owned()]).collect::<Vec<_>>();
    let decide = |id: &str, word: &str| {
        let mut anna = approve(&folder, id);
        anna.sees("Name: ");
        assert!(!anna.screen().contains("email"), "nothing before somebody is signed in: {}", anna.screen());
        anna.types("anna\n");
        anna.sees("Password: ");
        anna.types(&format!("{PASSWORD}\n"));
        anna.sees("Type approve or deny: ");
        anna.types(&format!("{word}\n"));
        let exit = anna.leaves();
        (exit, anna.screen())
    };
    let first = share(&boss);
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let id = asks(&folder, &first);
    let (exit, screen) = decide(&id, "approve");
    assert_eq!(exit, Some(0), "{screen}");
    assert!(screen.contains("    email: \"boss@example.com\"\n"), "{screen}");
    let made = folder.run(&[&first[..], &["--approval-id", &id]].concat());
    assert!(made.starts_with("exit 0\n"), "{made}");

    let second = share(&eve);
    let second: Vec<&str> = second.iter().map(String::as_str).collect();
    let id = asks(&folder, &second);
    let shown = folder.run(&["approvals", "show", &id]);
    assert!(shown.contains("  ~ email: \"***\" (hidden; differs from the last approved call)\n"), "{shown}");
    assert!(shown.contains("    fileId: \"f_report\"\n") && !shown.contains("evil"), "{shown}");
    let rest = folder.json(&["approvals", "show", &id]);
    let change = rest["changes"].as_array().unwrap().iter().find(|one| one["pointer"] == "email").unwrap();
    let expected = json!({"pointer": "email", "change": "changed", "hidden": true, "before": null, "after": "***"});
    assert_eq!(*change, expected);
    let (exit, screen) = decide(&id, "deny");
    assert_eq!(exit, Some(3), "{screen}");
    let row =
        "  ~ email: \"eve@evil.example\\u{202e}\" (differs from the last approved call, whose value is not stored)\n";
    assert!(screen.contains(row) && !screen.contains('\u{202e}'), "{screen}");
    assert_eq!(folder.json(&["approvals", "show", &id])["state"], "denied");
    let again = share(&boss);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let shown = folder.run(&["approvals", "show", &asks(&folder, &again)]);
    assert!(shown.contains("    email: \"***\"\n"), "{shown}");
}

/// Tries to approve a closed request. The command refuses before it prompts for a name or password.
fn approve_late(folder: &Folder, id: &str) -> Option<i32> {
    let mut anna = approve(folder, id);
    anna.sees("already");
    let exit = anna.leaves();
    assert!(!anna.screen().contains("Name: "), "{}", anna.screen());
    exit
}

#[test]
fn without_an_account_nobody_is_asked_for_a_name() {
    let folder = folder();
    let _serving = Serving::start(&folder);
    let id = asks(&folder, &DELETE);
    let mut person = approve(&folder, &id);
    assert_eq!(person.leaves(), Some(3), "{}", person.screen());
    person.sees("No approver account exists yet");
    person.sees("open the setup link that");
    assert!(!person.screen().contains("Name: "), "{}", person.screen());
}

#[test]
fn a_user_can_leave_a_request_undecided() {
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    let id = asks(&folder, &DELETE);
    // Each way leaves the password prompt, while the terminal has no echo.
    for way in ["\u{3}", "\u{4}", "\n", "SIGTERM"] {
        let mut anna = approve(&folder, &id);
        anna.sees("Name: ");
        anna.types("anna\n");
        anna.sees("Password: ");
        wait("no echo", || !anna.has_echo());
        match way {
            "SIGTERM" => common::terminate(anna.pid()),
            keys => anna.types(keys),
        }
        assert_eq!(anna.leaves(), Some(3), "{way:?}: {}", anna.screen());
        anna.sees("You made no decision");
        assert!(anna.has_echo(), "{way:?}");
    }
    assert_eq!(folder.json(&["approvals", "show", &id])["state"], "pending");
}

#[test]
fn approving_needs_a_terminal() {
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    let id = asks(&folder, &DELETE);
    let args = ["approvals", "approve", &id];
    assert_snapshot!("no_terminal", steady(&folder.run(&args)));
    let answers = format!("anna\n{PASSWORD}\n{}\n", code());
    // A pipe instead of a terminal, with all the expected input.
    let mut child =
        folder.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _nobody_reads = child.stdin.take().unwrap().write_all(answers.as_bytes());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
    // Only input or only output is a terminal, and environment variables contain the password.
    for redirect in ["< /dev/null", "> out.txt", "2>&1 | cat; exit ${PIPESTATUS[0]}"] {
        let script = format!("cd '{}' && \"$0\" approvals approve {id} {redirect}", folder.path().display());
        let mut command = std::process::Command::new("bash");
        let program = folder.command(&[]);
        command.args(["-c", &script]).arg(program.get_program()).env("MCPPROXY_HOME", folder.path());
        for name in ["PASSWORD", "MCPPROXY_PASSWORD", "MCPPROXY_TOTP", "SSH_ASKPASS", "SUDO_ASKPASS"] {
            command.env(name, PASSWORD);
        }
        let mut person = Person::runs(&command);
        person.sees("a user factor is required; approvals cannot be given non-interactively");
        assert_eq!(person.leaves(), Some(3), "{redirect}: {}", person.screen());
    }
    for option in ["--password", "--totp", "--name", "--yes"] {
        assert!(folder.run(&[&args[..], &[option, "x"]].concat()).starts_with("exit 2\n"), "{option}");
    }
    assert_eq!(folder.json(&["approvals", "show", &id])["state"], "pending");
}

#[test]
fn what_the_commands_print() {
    let folder = folder();
    let serving = Serving::start(&folder);
    assert_snapshot!("none", folder.run(&["approvals", "list"]));
    assert_snapshot!("none_at_all", folder.run(&["approvals", "list", "--state", "all"]));
    assert_snapshot!("no_grants", folder.run(&["approvals", "grants"]));
    assert_snapshot!("unknown", folder.run(&["approvals", "show", "01ZZ"]));
    assert_snapshot!("unknown_grant", folder.run(&["approvals", "revoke", "01ZZ"]));
    let reason = ["--reason", "Because\u{1b}[2J", "--sensitivity", "private"];
    let id = asks(&folder, &[&SHARE[..], &reason].concat());
    let dated = |text: &str| -> String {
        let text = steady(text);
        let is_fact = |line: &str| line.starts_with("Asked ") || line.starts_with("Expires ");
        text.lines().filter(|line| !is_fact(line)).map(|line| format!("{line}\n")).collect()
    };
    assert_snapshot!("show", dated(&folder.run(&["approvals", "show", &id])));
    let listed = folder.run(&["approvals", "list"]);
    let row = listed.lines().find(|line| line.contains(&id)).unwrap();
    assert!(row.contains("… pending") && row.contains("▲ high") && row.contains("demo:share_file_link"), "{listed}");
    assert_eq!(folder.json(&["approvals", "list"])["approvals"][0]["id"], id.as_str());
    assert!(folder.run(&["approvals", "list", "--agent", "nobody"]).contains("No call waits for an approval."));
    assert!(folder.run(&["approvals", "list", "-o", "yaml"]).contains("share_file_link"));
    assert_snapshot!("wait", steady(&folder.run(&["approvals", "wait", &id[..22], "--timeout", "0s"])));
    assert_snapshot!("deny", steady(&folder.run(&["approvals", "deny", &id, "--comment", "Ask Anna\u{202e}"])));
    assert_snapshot!("deny_again", steady(&folder.run(&["approvals", "deny", &id])));
    assert_snapshot!("wait_denied", steady(&folder.run(&["approvals", "wait", &id])));
    let again = [&SHARE[..], &reason, &["--approval-id", &id]].concat();
    assert_snapshot!("denied", steady(&folder.run(&again)));
    serving.wait("the line of the decision", || serving.has_said("✗ denied by admin key: demo:share_file_link"));
    let activity = folder.run(&["activity", "list", "--type", "approval"]);
    for step in ["requested", "denied"] {
        let mut rows = activity.lines().filter(|row| row.contains("share_file_link (approval)"));
        assert!(rows.any(|row| row.contains(step)), "{step}: {activity}");
    }
}

#[test]
fn dry_runs_and_repeats() {
    let folder = folder();
    let _serving = Serving::start(&folder);
    let bulk = ["call", "tool-destructive", "demo:emails.bulk_send", "--args", BULK];
    assert_snapshot!("dry_run_required", steady(&folder.run(&bulk)));
    let note = ["call", "tool-write", "demo:create_note", "--args", "{\"projectId\": \"p_website\", \"title\": \"a\"}"];
    let named = [&note[..], &["--idempotency-key", "k1"]].concat();
    let first = folder.run(&named);
    assert_snapshot!("first", first);
    assert_snapshot!("replayed", steady(&folder.run(&named)));
    let other = [&note[..4], &["{\"projectId\": \"p_website\", \"title\": \"b\"}", "--idempotency-key", "k1"]].concat();
    assert_snapshot!("conflict", folder.run(&other));
    assert_snapshot!("dry_run", folder.run(&[&note[..], &["--dry-run"]].concat()));
}

#[test]
fn a_call_that_is_held_says_where_to_decide() {
    let folder = holding("1s");
    let serving = Serving::start(&folder);
    make_anna(&serving);
    assert_snapshot!("held", steady(&folder.run(&SHARE)));
}

#[test]
fn a_call_that_nobody_can_approve_is_not_held() {
    let folder = holding("10m");
    let _serving = Serving::start(&folder);
    assert_snapshot!("nobody_can_approve", steady(&folder.run(&SHARE)));
}

#[test]
fn grants_are_listed_and_taken_back() {
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    let from = asks(&folder, &SHARE);
    let schema = json!({"properties": {"email": {"pattern": "@example\\.com$"}}});
    let wanted = json!({"from": from, "schema": schema, "minutes": 5, "uses": 2, "totp": code()});
    let answer = send(&serving, "/api/v1/grants", &signed_in(&serving), &wanted.to_string());
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let listed = folder.json(&["approvals", "grants"])["grants"][0].clone();
    let id = listed["id"].as_str().unwrap();
    // The approval covers the first call, and the standing approval the next one.
    let next = SHARE.map(|word| word.replace("eve@", "bob@"));
    for call in [SHARE, next.each_ref().map(String::as_str)] {
        let made = folder.run(&call);
        assert!(made.starts_with("exit 0\n"), "{made}");
    }
    let table = folder.run(&["approvals", "grants"]);
    let row = table.lines().find(|line| line.starts_with(&id[..15])).unwrap();
    for cell in ["active", "local", "1 of 2", "anna", "demo:share_file_link", r#""email":{"pattern":"***"}"#] {
        assert!(row.contains(cell), "{cell}: {table}");
    }
    assert_snapshot!("revoke", steady(&folder.run(&["approvals", "revoke", id])));
    assert_snapshot!("revoke_again", steady(&folder.run(&["approvals", "revoke", id])));
    assert_snapshot!("no_grants_left", folder.run(&["approvals", "grants"]));
    assert_eq!(folder.json(&["approvals", "grants", "--all"])["grants"][0]["state"], "revoked");
    asks(&folder, &SHARE);
}

#[test]
fn the_first_user_is_invited_by_serve_alone() {
    let folder = folder();
    let is_link = |serving: &Serving<'_>| {
        let port = serving.address.rsplit_once(':').unwrap().1;
        serving.said_word(&format!("http://localhost:{port}/ui/setup/"))
    };
    let serving = Serving::start(&folder);
    let first = is_link(&serving).unwrap();
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(&folder);
    let second = is_link(&serving).unwrap();
    assert_ne!(first.rsplit_once('/'), second.rsplit_once('/'), "each start has its own");
    make_anna(&serving);
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(&folder);
    assert_eq!(is_link(&serving), None);
    assert!(serving.has_said("Approvals    http://localhost:"), "where users decide");
}

#[test]
fn watching_shows_each_request_and_its_end() {
    let folder = folder();
    let serving = Serving::start(&folder);
    let mut watching = folder.command(&["approvals", "list", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    let id = asks(&folder, &SHARE);
    let row = lines.next().unwrap();
    assert!(row.starts_with(&id[..15]) && row.contains("… pending") && row.ends_with("demo:share_file_link"), "{row}");
    let below = lines.next().unwrap();
    assert!(below.contains("left: http://localhost:") && below.ends_with(&id), "{below}");

    // `approvals wait` survives a restart of the gateway, and so does the approval request.
    let mut waiting =
        folder.command(&["approvals", "wait", &id, "--timeout", "60s"]).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(&folder);
    assert!(folder.run(&["approvals", "deny", &id[..24]]).starts_with("exit 0\n"));
    let row = lines.next().unwrap();
    assert!(row.starts_with(&id[..15]) && row.contains("✗ denied"), "{row}");
    assert_eq!(waiting.wait().unwrap().code(), Some(3));
    common::terminate(watching.id());
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    drop(serving);
}

/// Without an approver, `stdio` prints the setup link on standard error, which is the client's log of the server.
/// Standard output carries only messages.
#[test]
fn stdio_says_on_standard_error_what_serve_says() {
    let folder = folder();
    let mut command = folder.command(&["stdio"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "call_tool_destructive", "arguments": {"name": "demo:delete_user", "args": {"userId": "u_max"}},
    }});
    let mut input = child.stdin.take().unwrap();
    write!(input, "{hello}\n{ready}\n{call}\n").unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let answer = lines.find(|line| line.contains("\"id\":2")).unwrap();
    let lock: Value = serde_json::from_str(&folder.read("gateway.lock")).unwrap();
    let port = lock["address"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    assert!(answer.contains(&format!("http://localhost:{port}/ui/approvals/")), "{answer}");
    // The gateway prints a request while the agent already reads its answer, so wait for the line before the end.
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains('✋') && stderr.read_line(&mut said).unwrap() > 0 {}
    drop(input);
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let link = format!("http://localhost:{port}/ui/setup/invite_");
    assert_eq!((said.matches(&link).count(), said.matches('✋').count()), (2, 1), "{said}");
    assert!(!answer.contains("/ui/setup/") && answer.contains("No approver account exists yet"), "{answer}");
}
