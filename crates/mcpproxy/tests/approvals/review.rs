//! A server whose definitions wait for a user, reviewed at a terminal.

use crate::anna::{PASSWORD, make_anna};
use crate::common::person::Person;
use crate::common::{Folder, Serving};
use crate::folder;

/// Adds the demo server under another name, as a program.
fn add(name: &str) -> Vec<String> {
    let program = assert_cmd::cargo::cargo_bin!("mcpproxy").display().to_string();
    let words = ["servers", "add", name, "--", &program, "demo-server", "--without-contracts"];
    words.map(str::to_owned).to_vec()
}

fn run(folder: &Folder, args: &[String]) -> String {
    folder.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn sign_in(person: &mut Person) {
    person.sees("Name: ");
    person.types("anna\n");
    person.sees("Password: ");
    person.types(&format!("{PASSWORD}\n"));
}

/// Users learn what to do about a tool that waits. Agents get the code only.
fn check_next_steps(folder: &Folder) {
    let hint = "hint: review it: mcpproxy --home FOLDER servers review office";
    let waits = "`office:list_projects` waits for a review, so agents do not see it.";
    let called = folder.run(&["call", "tool-read", "office:list_projects"]);
    assert!(called.contains(&format!("{waits} (")) && called.contains(hint), "{called}");
    let shown = folder.run(&["tools", "show", "office:list_projects"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains(waits) && shown.contains(hint), "{shown}");
    let searched = folder.run(&["tools", "search", "list projects"]);
    assert!(searched.contains("demo:list_projects"), "{searched}");
    assert!(
        searched.contains("definitions wait for review: mcpproxy --home FOLDER servers review office"),
        "{searched}"
    );
    let missing = folder.run(&["tools", "show", "office:none"]);
    assert!(!missing.contains("waits") && missing.contains("tools list"), "{missing}");
}

/// Ctrl-C decides nothing, and leaves the cursor at the start of a line.
fn leave_with_ctrl_c(folder: &Folder) {
    let mut anna = Person::runs(folder.command(&["servers", "review", "office"]).env("NO_COLOR", "1"));
    anna.sees("or quit? ");
    anna.types("\u{3}");
    anna.sees("\r\nerror: You made no decision, so nothing changed.");
    assert_eq!(anna.leaves(), Some(3), "{}", anna.screen());
}

#[test]
fn a_user_reviews_a_server_that_a_script_added() {
    const CALL: [&str; 3] = ["call", "tool-read", "office:list_projects"];
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    assert_eq!(
        folder.run(&["servers", "review", "demo"]),
        "exit 0\n--- stdout\nnothing waits for review at demo\n--- stderr\n"
    );
    let unknown = folder.run(&["servers", "review", "dmo"]);
    assert!(unknown.starts_with("exit 1\n") && unknown.contains("did you mean `demo`?"), "{unknown}");

    let added = run(&folder, &add("office"));
    assert!(added.contains("wait for review: mcpproxy --home FOLDER servers review office"), "{added}");
    serving.wait("the line", || serving.has_said("! office is new: "));
    assert!(!folder.run(&CALL).starts_with("exit 0\n"), "agents do not see its tools");
    let list = folder.run(&["servers", "list"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(list.contains("servers review office"), "{list}");
    check_next_steps(&folder);
    let status = folder.run(&["status"]);
    assert!(status.contains("review_waiting office") && status.contains("Reviews "), "{status}");
    let count = folder.json(&["servers", "review", "office"])["entries"].as_array().unwrap().len();

    // Programs can read, and cannot decide.
    let read = folder.run(&["servers", "review", "office"]);
    assert!(read.contains("office is new: ") && read.contains("tool list_projects: "), "{read}");
    assert!(read.starts_with("exit 0\n") && read.contains("To decide, run this in a terminal:\n"), "{read}");
    let refused = folder.run(&["servers", "review", "office", "--accept-all", "--yes"]);
    assert!(refused.starts_with("exit 3\n") && refused.contains("cannot be accepted"), "{refused}");
    let wrong = folder.run(&["servers", "review", "office", "--accept", "list_project"]);
    assert!(wrong.starts_with("exit 2\n") && wrong.contains("did you mean `list_projects`?"), "{wrong}");

    leave_with_ctrl_c(&folder);
    let mut anna =
        Person::runs(folder.command(&["servers", "review", "office"]).env("COLUMNS", "60").env("NO_COLOR", "1"));
    anna.sees("office is new: ");
    anna.sees("or quit? ");
    anna.types("each\n");
    anna.sees("or quit? ");
    anna.types("reject\n");
    anna.sees("or quit? ");
    anna.types("accept all\n");
    anna.sees(&format!("Sign in to accept {} and reject 1.", count - 1));
    sign_in(&mut anna);
    anna.sees(&format!("accepted {}, rejected 1", count - 1));
    assert_eq!(anna.leaves(), Some(0), "{}", anna.screen());
    for line in anna.screen().lines() {
        assert!(line.chars().count() <= 60 || !line.contains(' '), "{line}\n{}", anna.screen());
    }
    assert!(folder.run(&CALL).starts_with("exit 0\n"));
    let status = folder.run(&["status"]);
    assert!(status.contains("none waiting, 1 rejected") && !status.contains("review_waiting"), "{status}");
    let review = folder.run(&["servers", "review", "office"]);
    assert!(review.contains("nothing waits for review at office"), "{review}");
    assert!(review.contains("1 definition is rejected. See them with:\n"), "{review}");

    // A rejection can be taken back, on purpose and by a user.
    let read = folder.run(&["servers", "review", "office", "--rejected"]);
    assert!(read.contains(", and rejected\n") && read.contains("Rejected by anna on "), "{read}");
    assert!(read.contains("To decide, run this in a terminal:\n"), "{read}");
    assert!(read.contains("  mcpproxy --home FOLDER servers review office --rejected\n"), "{read}");
    assert!(read.contains("/ui/servers/office/review?of=rejected\n"), "{read}");
    let entry = folder.json(&["servers", "review", "office", "--rejected"])["entries"][0].clone();
    assert_eq!((entry["reason"].as_str(), entry["rejected_by"].as_str()), (Some("rejected"), Some("anna")), "{entry}");
    let name = entry["name"].as_str().filter(|name| !name.is_empty()).or(entry["kind"].as_str()).unwrap();
    let refused = folder.run(&["servers", "review", "office", "--accept", name]);
    assert!(refused.starts_with("exit 3\n"), "{refused}");
    let mut anna = Person::runs(folder.command(&["servers", "review", "office", "--rejected"]).env("NO_COLOR", "1"));
    anna.sees("accept, skip or quit? ");
    anna.types("accept\n");
    anna.sees("Sign in to accept 1.");
    sign_in(&mut anna);
    anna.sees("accepted 1");
    assert_eq!(anna.leaves(), Some(0), "{}", anna.screen());
    let review = folder.run(&["servers", "review", "office", "--rejected"]);
    assert!(review.contains("nothing that it lists is rejected at office"), "{review}");
    let status = folder.run(&["status"]);
    assert!(!status.contains("rejected"), "{status}");
}

/// A draft of a server whose tools nobody has read would be empty, and read as complete.
#[test]
fn a_draft_has_only_reviewed_tools() {
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    run(&folder, &add("office"));
    serving.wait("the line", || serving.has_said("! office is new: "));
    let draft = ["contract", "draft", "office"];
    let refused = folder.run(&draft);
    assert!(refused.starts_with("exit 1\n--- stdout\n--- stderr\n"), "{refused}");
    assert!(refused.contains("no tool of the server is accepted yet; 26 wait for review\n"), "{refused}");
    assert!(refused.contains("hint: review them with `mcpproxy --home FOLDER servers review office`"), "{refused}");
    let path = folder.file("office.yaml").display().to_string();
    assert!(folder.run(&["contract", "draft", "office", "--to", &path]).starts_with("exit 1\n"));
    assert!(!folder.file("office.yaml").exists(), "nothing is written");

    let accept = ["servers", "review", "office", "--accept", "list_projects"];
    let mut anna = Person::runs(folder.command(&accept).env("NO_COLOR", "1"));
    sign_in(&mut anna);
    anna.sees("accepted 1");
    assert_eq!(anna.leaves(), Some(0), "{}", anna.screen());
    let drafted = folder.run(&draft);
    assert!(drafted.starts_with("exit 0\n") && drafted.contains("tool: office:list_projects\n"), "{drafted}");
    assert_eq!(drafted.matches("tool: office:").count(), 1, "{drafted}");
    let note = "note: 25 tools wait for review, not in the draft:\n  mcpproxy --home FOLDER servers review office\n";
    assert!(drafted.contains(note), "{drafted}");
    assert_eq!(folder.json(&draft)["waiting"], 25);
}

/// A server that a script adds while no gateway runs must not count as chosen by the operator at the next start.
#[test]
fn a_server_that_a_script_added_waits_also_after_a_start() {
    let folder = folder();
    let added = run(&folder, &add("office"));
    assert!(added.contains("servers review office"), "{added}");
    let serving = Serving::start(&folder);
    serving.wait("the line", || serving.has_said("! office is new: "));
    let hidden = folder.run(&["tools", "list", "--server", "office"]);
    assert!(hidden.contains("No tool is accepted yet.\n"), "{hidden}");
    assert!(hidden.contains("definitions wait for review: mcpproxy --home FOLDER servers review office"), "{hidden}");
    let searched = folder.run(&["tools", "search", "list projects", "--server", "office"]);
    assert!(
        searched.contains("definitions wait for review: mcpproxy --home FOLDER servers review office"),
        "{searched}"
    );
}

/// The person at the terminal has just chosen the server, and nobody could sign in yet.
#[test]
fn a_server_that_a_person_adds_needs_no_review() {
    let folder = folder();
    let _serving = Serving::start(&folder);
    let args = add("office");
    let mut person = Person::runs(&folder.command(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    person.sees("office is ready: ");
    assert_eq!(person.leaves(), Some(0), "{}", person.screen());
    assert!(!person.screen().contains("review"), "{}", person.screen());
    assert!(folder.run(&["call", "tool-read", "office:list_projects"]).starts_with("exit 0\n"));
}

/// Once there are users, an agent with a shell must not be able to choose a server. Only a user can.
#[test]
fn a_user_signs_in_to_add_a_server_without_a_review() {
    let folder = folder();
    let serving = Serving::start(&folder);
    make_anna(&serving);
    let person = |name: &str| Person::runs(&folder.command(&add(name).iter().map(String::as_str).collect::<Vec<_>>()));

    let mut anna = person("office");
    anna.sees("without a review?");
    anna.types("y\n");
    sign_in(&mut anna);
    anna.sees("office is ready: ");
    assert_eq!(anna.leaves(), Some(0), "{}", anna.screen());
    assert!(folder.run(&["call", "tool-read", "office:list_projects"]).starts_with("exit 0\n"));

    let mut later = person("bureau");
    later.sees("without a review?");
    later.types("\n");
    later.sees("wait for review");
    assert_eq!(later.leaves(), Some(0), "{}", later.screen());
    assert!(!folder.run(&["call", "tool-read", "bureau:list_projects"]).starts_with("exit 0\n"));
    let settings = folder.read("mcp_config.json");
    assert_eq!(settings.matches("\"first_sight\": \"review\"").count(), 1, "{settings}");

    // The consent of a later day counts, also for a server that waited before.
    assert!(folder.run(&["servers", "remove", "office"]).starts_with("exit 0\n"));
    assert!(folder.run(&["servers", "remove", "bureau"]).starts_with("exit 0\n"));
    let script = run(&folder, &add("annex"));
    assert!(script.contains("wait for review"), "{script}");
    assert!(folder.run(&["servers", "remove", "annex"]).starts_with("exit 0\n"));
    let mut again = person("annex");
    again.sees("without a review?");
    again.types("y\n");
    sign_in(&mut again);
    again.sees("annex is ready: ");
    assert_eq!(again.leaves(), Some(0), "{}", again.screen());
    assert!(folder.run(&["call", "tool-read", "annex:list_projects"]).starts_with("exit 0\n"));

    // A disabled server has a next step, too.
    assert!(folder.run(&["servers", "disable", "annex"]).starts_with("exit 0\n"));
    let hint = "hint: enable it: mcpproxy --home FOLDER servers enable annex";
    for args in [&["tools", "show", "annex:list_projects"][..], &["call", "tool-read", "annex:list_projects"]] {
        let refused = folder.run(args);
        assert!(refused.contains("The server of `annex:list_projects` is disabled."), "{refused}");
        assert!(refused.contains(hint), "{refused}");
    }
    let searched = folder.run(&["tools", "search", "list projects", "--server", "annex"]);
    assert!(
        searched.contains("annex is disabled. To enable it: mcpproxy --home FOLDER servers enable annex"),
        "{searched}"
    );
    let restarted = folder.run(&["servers", "restart", "annex"]);
    assert!(restarted.contains("hint: enable it with `mcpproxy --home FOLDER servers enable annex`"), "{restarted}");
}
