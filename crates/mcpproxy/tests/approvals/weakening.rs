//! A change that weakens a contract, confirmed at a terminal.

use serde_json::json;

use crate::anna::{PASSWORD, code, make_anna, send, signed_in};
use crate::common::Serving;
use crate::common::person::Person;
use crate::folder;

/// A user confirms a reload that weakens a contract. Programs cannot.
#[test]
fn a_user_applies_what_weakens_a_contract() {
    const LIST: [&str; 3] = ["call", "tool-read", "demo:list_projects"];
    let folder = folder();
    folder.make("contracts");
    folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: forbidden\n");
    let serving = Serving::start(&folder);
    make_anna(&serving);
    folder.write("contracts/mine.yaml", "tool: demo:list_projects\nriskLevel: low\n");
    serving.wait("the line about the change", || {
        serving.has_said(
            "! Not applied, because it weakens contracts, policies or settings: demo:list_projects: riskLevel forbidden → low",
        )
    });
    let refused = folder.run(&["config", "apply"]);
    assert!(refused.starts_with("exit 3\n") && refused.contains("riskLevel forbidden → low"), "{refused}");
    let held = serving.admin("/api/v1/status")["settings"]["held"].clone();
    assert_eq!(held["needs_step_up"], json!(true), "{held}");
    let body = json!({"digest": held["digest"]}).to_string();
    let cookie_only = send(&serving, "/api/v1/config/apply", &signed_in(&serving), &body);
    assert!(cookie_only.starts_with("HTTP/1.1 403 ") && cookie_only.contains("page_key_required"), "{cookie_only}");
    assert!(!folder.run(&LIST).starts_with("exit 0\n"), "the tool is still forbidden");

    let mut anna = Person::runs(&folder.command(&["config", "apply"]));
    anna.sees("demo:list_projects: riskLevel forbidden → low");
    anna.sees("Name: ");
    anna.types("anna\n");
    anna.sees("Password: ");
    anna.types(&format!("{PASSWORD}\n"));
    anna.sees("Type apply to confirm: ");
    anna.types("apply\n");
    anna.sees("Code from your authenticator app: ");
    anna.types(&format!("{}\n", code()));
    anna.sees("Applied.");
    assert_eq!(anna.leaves(), Some(0), "{}", anna.screen());
    assert!(folder.run(&LIST).starts_with("exit 0\n"));
    assert!(serving.admin("/api/v1/status")["settings"]["held"].is_null());
    let settings = folder.json(&["activity", "list", "--type", "settings"]);
    let records = settings["activities"].as_array().unwrap();
    assert!(records.iter().any(|record| record["code"] == "weakening_held"), "{settings}");
    assert!(records.iter().any(|record| record["metadata"]["confirmed_by"] == "anna"), "{settings}");
}
