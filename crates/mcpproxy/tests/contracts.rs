//! Contracts and policies with a running gateway: output of the commands, and reloads of changed files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{Folder, PATIENCE, Serving, steady, wait};
use insta::assert_snapshot;
use serde_json::{Value, json};

const LIST: [&str; 3] = ["call", "tool-read", "demo:list_projects"];

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write(
        "mcp_config.json",
        "{\"mcpServers\": {\"demo\": {\"type\": \"demo\"}}, \"approvals\": {\"wait\": \"0s\"}}",
    );
    folder.make("contracts");
    folder.make("policies");
    folder
}

/// Creates a folder whose gateway applies every change at once.
fn applying() -> Folder {
    let folder = folder();
    let settings = json!({
        "mcpServers": {"demo": {"type": "demo"}},
        "approvals": {"wait": "0s"},
        "contracts": {"weakening": "apply"},
    });
    folder.write("mcp_config.json", &settings.to_string());
    folder
}

/// Returns the error code of a call, or `ok` for a result.
fn outcome(folder: &Folder, args: &[&str]) -> String {
    let output = folder.command(args).args(["-o", "json"]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let error = answer.pointer("/structuredContent/error/code").and_then(Value::as_str);
    match (output.status.code(), error) {
        (Some(0), None) => "ok".to_owned(),
        (code, error) => format!("{} {}", code.unwrap_or(-1), error.unwrap_or("?")),
    }
}

#[test]
fn what_the_commands_show() {
    let folder = folder();
    let contract = "\
tool: demo:create_note
riskLevel: medium
inputSchema:
  properties:
    title: { type: string, maxLength: 10, description: Keep it short. }
---
tool: demo:get_help_article
riskLevel: forbidden
---
tool: demo:nothing
riskLevel: low
";
    folder.write("contracts/mine.yaml", contract);
    folder.write(
        "policies/mine.cedar",
        "@id(\"no-links\")\n@message(\"Links are made by hand\")\nforbid (principal, action, resource == Tool::\"demo:create_download_link\");\n\
         forbid (principal == Agent::\"other\", action, resource);\n",
    );
    let serving = Serving::start(&folder);
    assert_snapshot!("coverage", folder.run(&["contract", "coverage"]));
    assert_snapshot!("show", folder.run(&["contract", "show", "demo:create_note"]));
    assert_snapshot!("show_json", folder.run(&["contract", "show", "demo:create_note", "-o", "json"]));
    assert_snapshot!("show_forbidden", folder.run(&["contract", "show", "demo:get_help_article"]));
    assert_snapshot!("show_unknown", folder.run(&["contract", "show", "demo:create_nots"]));
    assert_snapshot!("show_far", folder.run(&["contract", "show", "other:x"]));
    assert_snapshot!("lint", folder.run(&["contract", "lint"]));
    assert_snapshot!("tools_show_forbidden", folder.run(&["tools", "show", "demo:get_help_article"]));
    let hidden = folder.run(&["tools", "search", "help article"]);
    assert!(!hidden.contains("get_help_article"), "{hidden}");

    let long = "{\"projectId\": 7, \"title\": \"much too long for this\", \"text\": \"\"}";
    assert_snapshot!("call_bad_arguments", folder.run(&["call", "tool-write", "demo:create_note", "--args", long]));
    let long = "{\"projectId\": \"p_website\", \"title\": \"much too long for this\", \"body\": \"\"}";
    assert_snapshot!("call_contract_schema", folder.run(&["call", "tool-write", "demo:create_note", "--args", long]));
    let link = "{\"fileId\": \"f_1\"}";
    let explained = ["policy", "explain", "demo:create_download_link", "--variant", "write", "--args", link];
    assert_snapshot!("explain_policies", folder.run(&explained));
    assert_snapshot!("call_policy", folder.run(&["call", "tool-write", "demo:create_download_link", "--args", link]));
    assert_snapshot!(
        "call_confirmation",
        steady(&folder.run(&["call", "tool-destructive", "demo:delete_user", "--args", "{\"userId\": \"u_max\"}"]))
    );
    let forbidden = ["policy", "explain", "demo:get_help_article", "--variant", "read"];
    assert_snapshot!("explain_forbidden", folder.run(&forbidden));
    // The command waits until a file that was just written is active.
    folder.write("contracts/new.yaml", "tool: demo:nowhere\nriskLevel: low\n");
    let found = folder.json(&["contract", "lint"]);
    let subjects: Vec<&Value> = found["findings"].as_array().unwrap().iter().map(|one| &one["subject"]).collect();
    assert_eq!(subjects, ["demo:nothing", "demo:nowhere"], "{found}");
    let gone = folder.run(&["call", "tool-read", "demo:get_help_article", "--args", "{}"]);
    let never = folder.run(&["call", "tool-read", "demo:get_help_articlf", "--args", "{}"]);
    assert_eq!(gone.replace("get_help_article", "X"), never.replace("get_help_articlf", "X"));
    assert_eq!(
        serving.admin("/api/v1/contracts/demo/create_note"),
        folder.json(&["contract", "show", "demo:create_note"])
    );
}

#[test]
fn drafts() {
    let folder = folder();
    let _serving = Serving::start(&folder);
    let output = folder.command(&["contract", "draft", "demo"]).output().unwrap();
    let draft = String::from_utf8(output.stdout).unwrap();
    assert!(draft.starts_with("# DRAFT"), "{draft}");
    assert_snapshot!("draft", draft);
    assert_snapshot!("draft_unknown", folder.run(&["contract", "draft", "nothing"]));
    let path = folder.file("draft.yaml").display().to_string();
    let to = ["contract", "draft", "demo", "--to", &path];
    assert_snapshot!("draft_to", folder.run(&to));
    assert_eq!(folder.read("draft.yaml"), draft);
    assert_snapshot!("draft_to_again", folder.run(&to));
    let in_force = folder.file("contracts/demo.yaml").display().to_string();
    assert_snapshot!("draft_in_force", folder.run(&["contract", "draft", "demo", "--to", &in_force]));
    let lint = folder.command(&["contract", "lint", "-o", "json"]).output().unwrap();
    let lint: Value = serde_json::from_slice(&lint.stdout).unwrap();
    let codes: Vec<&Value> = lint["findings"].as_array().unwrap().iter().map(|finding| &finding["code"]).collect();
    assert_eq!((&lint["errors"], codes.contains(&&json!("C019"))), (&json!(0), true), "{lint}");
    assert_eq!(lint["servers_checked"], true);
}

#[test]
fn files_are_taken_over_while_the_gateway_runs() {
    let folder = applying();
    let serving = Serving::start(&folder);
    let error = || serving.admin("/api/v1/status")["settings"]["error"].clone();
    let becomes = |expected: &str| wait(expected, || outcome(&folder, &LIST) == expected);
    assert_eq!(outcome(&folder, &LIST), "ok");

    folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: high\n");
    becomes("4 confirmation_required");
    folder.write("contracts/bad.yaml", "tool: demo:create_note\nriskLevl: low\n");
    wait("the error", || error().is_string());
    assert_snapshot!("bad_contract", error().as_str().unwrap().replace(&folder.path().display().to_string(), "FOLDER"));
    assert_eq!(outcome(&folder, &LIST), "4 confirmation_required", "a bad file changes nothing");
    let settings = folder.json(&["activity", "list", "--type", "settings", "--status", "error"]);
    assert!(settings["activities"][0]["message"].as_str().unwrap().contains("contracts/bad.yaml:2:1"), "{settings}");
    folder.remove("contracts/bad.yaml");
    wait("the good files", || error().is_null());
    folder.remove("contracts/mine.yaml");
    becomes("ok");

    let policy = "@id(\"none\")\nforbid (principal, action, resource in Server::\"demo\");\n";
    folder.write("policies/mine.cedar", policy);
    becomes("3 policy_violation");
    folder.write("policies/mine.cedar", "forbid (principal, action, resource in Server::\"demo\"");
    wait("the error", || error().is_string());
    assert!(error().as_str().unwrap().contains("policies/mine.cedar:1:"), "{}", error());
    assert_eq!(outcome(&folder, &LIST), "3 policy_violation", "a bad file changes nothing");
    folder.remove("policies/mine.cedar");
    becomes("ok");
    assert!(error().is_null());
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn what_forbids_does_not_vanish() {
    let folder = applying();
    let high = "tool: demo:list_projects\nriskLevel: high\n";
    folder.write("contracts/mine.yaml", high);
    folder.write("policies/mine.cedar", "forbid (principal, action, resource == Tool::\"demo:create_note\");\n");
    let serving = Serving::start(&folder);
    let error = || serving.admin("/api/v1/status")["settings"]["error"].clone();
    let fails = |expected: &str| {
        wait(expected, || error().as_str().is_some_and(|error| error.contains(expected)));
        assert_eq!(outcome(&folder, &LIST), "4 confirmation_required", "{expected}");
    };
    let is_good = || wait("the good files", || error().is_null());

    for name in ["contracts", "policies"] {
        folder.rename(name, "away");
        fails(&format!("{name}/ is gone. Its previous "));
        folder.link(name, "/nonexistent");
        fails(&format!("{name}: broken symbolic link"));
        folder.remove(name);
        fails(&format!("{name}/ is gone"));
        folder.rename("away", name);
        is_good();
    }
    for emptied in ["", " \n", "# nothing any more\n"] {
        folder.write("contracts/mine.yaml", emptied);
        fails("contracts/mine.yaml has no contracts any more. Its previous contracts remain active.");
        folder.write("contracts/mine.yaml", high);
        is_good();
    }
    folder.write("policies/mine.cedar", "// nothing any more\n");
    fails("policies/mine.cedar has no policies any more");
    folder.remove("policies/mine.cedar");
    is_good();
    folder.pipe("contracts/pipe.yaml");
    fails("contracts/pipe.yaml: not a regular file but a pipe");
    folder.remove("contracts/pipe.yaml");
    is_good();
    folder.remove("contracts/mine.yaml");
    folder.link("contracts/mine.yaml", "gone.yaml");
    fails("contracts/mine.yaml: broken symbolic link");
    folder.remove("contracts/mine.yaml");
    wait("the contract to be removed", || outcome(&folder, &LIST) == "ok");
    assert!(error().is_null());
    assert_eq!(serving.stop(), Some(0));
}

/// A start without the files of the last run is refused, until somebody accepts it.
#[test]
fn a_start_misses_the_files_of_the_last_run() {
    let folder = folder();
    folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: forbidden\n");
    assert_eq!(Serving::start(&folder).stop(), Some(0));
    folder.rename("contracts", "away");
    let refused = folder.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(refused.starts_with("exit 6\n"), "{refused}");
    let parts = ["contracts/mine.yaml", "demo:list_projects: contract removed", "serve --accept-removed"];
    for part in parts {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    for (args, code) in [(["config", "check"].as_slice(), 6), (&["doctor"], 1), (&["status"], 7)] {
        let told = folder.command(args).env("COLUMNS", "500").output().unwrap();
        assert_eq!(told.status.code(), Some(code), "{args:?}");
        let told = [told.stdout, told.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        let lines = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(parts.iter().all(|part| lines.contains(part)), "{args:?}: {told}");
    }
    folder.rename("away", "contracts");
    assert!(folder.run(&["config", "check"]).starts_with("exit 0\n"), "nothing is missing");
    let serving = Serving::start(&folder);
    assert_ne!(outcome(&folder, &LIST), "ok", "the contract is back");
    assert_eq!(serving.stop(), Some(0));
    // An edit is applied by a restart, and told.
    folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: low\n");
    let serving = Serving::start(&folder);
    assert!(serving.has_said("! 1 change allows more than in the last run:"));
    wait("the record", || {
        let records = folder.json(&["activity", "list", "--type", "settings"]);
        records["activities"].as_array().unwrap().iter().any(|record| record["code"] == "weaker_at_start")
    });
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn what_does_not_count_is_told() {
    let folder = folder();
    folder.write("contracts/B.YAML", "tool: demo:list_projects\nriskLevel: high\n");
    folder.write("contracts/README", "");
    let told = "contracts/: ignored: B.YAML. Only files that end in .yaml, .yml or .json are read.";
    let serving = Serving::start(&folder);
    assert!(serving.has_said(&format!("WARN {told}")));
    folder.make("policies/team");
    wait("the warning", || serving.has_said("WARN policies/: ignored: team/."));
    for args in [["config", "check"], ["contract", "lint"]] {
        let output = folder.run(&args);
        assert!(output.starts_with("exit 0") && output.contains(&format!("note: {told}\n")), "{output}");
    }
    for args in [["config", "check"], ["policy", "check"]] {
        let output = folder.run(&args);
        assert!(output.starts_with("exit 0") && output.contains("note: policies/: ignored: team/."), "{output}");
    }
}

/// The files of the folder are not in force as a whole, and every command that reads them says so.
#[test]
fn commands_say_that_a_change_waits() {
    let folder = folder();
    folder.write("contracts/mine.yaml", "tool: demo:list_projects\n# Kept.\nriskLevel: high\ncategory: a\n");
    let policy = "@id(\"none\")\nforbid (principal, action, resource == Tool::\"demo:create_note\");\n";
    folder.write("policies/mine.cedar", policy);
    let serving = Serving::start(&folder);
    let live = ["contract", "diff", "live", &folder.file("contracts").display().to_string()].map(str::to_owned);
    let live: Vec<&str> = live.iter().map(String::as_str).collect();
    assert_eq!(folder.run(&live), "exit 0\n--- stdout\nNo differences.\n--- stderr\n");
    let checked = folder.run(&["config", "check"]);
    assert!(!checked.contains("wait"), "{checked}");
    let replayed = folder.run(&["policy", "replay"]);
    assert!(!replayed.contains("wait"), "{replayed}");
    assert!(!folder.run(&["contract", "show", "demo:list_projects"]).contains("wait"));

    folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: low\ncategory: a\n");
    folder.remove("policies/mine.cedar");
    wait("the changes", || {
        let held = serving.admin("/api/v1/status")["settings"]["held"]["changes"].clone();
        held.as_array().is_some_and(|held| held.len() == 2)
    });
    let apply = "mcpproxy --home FOLDER config apply";
    let says = |args: &[&str], code: i32, parts: &[&str]| {
        let output = folder.run(args);
        assert!(output.starts_with(&format!("exit {code}\n")), "{output}");
        for part in parts.iter().chain([&apply]) {
            assert!(output.contains(part), "{part}: {output}");
        }
        output
    };
    says(&live, 1, &["2 changes wait for a user,\nso the files of the folder are not all in force\n"]);
    says(&["config", "check"], 0, &["note: 2 changes wait for a user. To confirm:\n"]);
    says(
        &["policy", "replay", "--policies", &folder.file("policies").display().to_string()],
        0,
        &[
            "compared with the files of the folder.\n",
            "2 changes wait for a user.\nReplay compares with the files in the folder, not with the files in force.\n",
        ],
    );
    let shown = says(
        &["contract", "show", "demo:list_projects"],
        0,
        &["operator, contracts/mine.yaml, before the change that waits\n", "a change of this contract waits"],
    );
    assert!(shown.contains("operator, contracts/mine.yaml:3") && !shown.contains("mine.yaml:2"), "{shown}");
    assert_eq!(folder.json(&["config", "check"])["held"], 2);
    assert_eq!(serving.stop(), Some(0));
}

/// A refused file has the same exit code as in `config check` and `serve`.
#[test]
fn an_invalid_file_cannot_be_applied() {
    let folder = folder();
    let _serving = Serving::start(&folder);
    folder.write("contracts/bad.yaml", "tool: demo:create_note\nriskLevl: low\n---\ntool: demo\n");
    for args in [["config", "apply"], ["config", "check"]] {
        let refused = folder.run(&args);
        assert!(refused.starts_with("exit 6\n"), "{refused}");
        let lines = refused.lines().filter(|line| line.starts_with("FOLDER/contracts/bad.yaml:")).count();
        assert_eq!(lines, 2, "one line for each mistake: {refused}");
    }
}

#[test]
fn a_bad_contract_stops_the_start() {
    let folder = folder();
    folder.write("contracts/bad.yaml", "tool: demo\n");
    assert_snapshot!(folder.run(&["serve", "--listen", "127.0.0.1:0"]));
}

#[test]
fn every_call_sees_one_generation_while_files_change() {
    let folder = applying();
    let _serving = Serving::start(&folder);
    let is_done = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut counted = BTreeMap::<String, usize>::new();
                    // The timeout ends this thread if the main thread fails.
                    let start = Instant::now();
                    while !is_done.load(Ordering::Relaxed) && start.elapsed() < 4 * PATIENCE {
                        *counted.entry(outcome(&folder, &LIST)).or_default() += 1;
                    }
                    counted
                })
            })
            .collect();
        for _ in 0..3 {
            folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: critical\n");
            wait("the contract", || outcome(&folder, &LIST) == "4 confirmation_required");
            folder.write("contracts/mine.yaml", "tool: demo:list_pro");
            folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: low\n");
            wait("the other contract", || outcome(&folder, &LIST) == "ok");
        }
        is_done.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::<String, usize>::new();
        for (code, count) in callers.into_iter().flat_map(|caller| caller.join().unwrap()) {
            *all.entry(code).or_default() += count;
        }
        all
    });
    let codes: Vec<&str> = counted.keys().map(String::as_str).collect();
    assert_eq!(codes, ["4 confirmation_required", "ok"], "{counted:?}");
}
