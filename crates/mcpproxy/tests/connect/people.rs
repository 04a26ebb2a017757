//! `connect` and the first start at a terminal.

use crate::common::Serving;
use crate::common::person::Person;
use crate::desk::Desk;

use insta::assert_snapshot;

#[test]
fn without_a_terminal_nothing_is_written() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    assert_snapshot!("no_terminal", desk.run(&["connect", "cursor"]));
    assert_eq!(desk.read(".cursor/mcp.json"), "{}");
    assert!(desk.valid_tokens().is_empty());
}

#[test]
fn a_person_is_asked() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    let ask = || Person::runs(&desk.command(&["connect", "cursor"]));
    let mut person = ask();
    person.sees("Write these changes? [y/N] ");
    person.types("n\n");
    assert_eq!(person.leaves(), Some(0));
    assert_eq!(desk.read(".cursor/mcp.json"), "{}");
    assert!(desk.valid_tokens().is_empty());

    // The file changes while the question is open.
    let mut person = ask();
    person.sees("Write these changes? [y/N] ");
    desk.write(".cursor/mcp.json", "{\"new\": 1}");
    person.types("y\n");
    assert_eq!(person.leaves(), Some(1));
    // The terminal wraps the message behind the path.
    let screen = person.screen().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains("changed after the preview. Nothing was written."), "{screen}");
    assert_eq!(desk.read(".cursor/mcp.json"), "{\"new\": 1}");
    assert!(desk.valid_tokens().is_empty());

    let mut person = ask();
    person.sees("Write these changes? [y/N] ");
    person.types("y\n");
    person.sees("Cursor: connected");
    assert_eq!(person.leaves(), Some(0));
    assert!(desk.read(".cursor/mcp.json").contains("mcpproxy"));
}

#[test]
fn a_token_that_the_user_creates_during_the_prompt_stays() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    let mut person = Person::runs(&desk.command(&["connect", "cursor"]));
    person.sees("Write these changes? [y/N] ");
    desk.run(&["token", "create", "cursor"]);
    person.types("y\n");
    assert_eq!(person.leaves(), Some(1));
    let screen = person.screen();
    assert!(screen.contains("A token for the agent `cursor` was created after the preview."), "{screen}");
    assert_eq!(desk.read(".cursor/mcp.json"), "{}");
    assert_eq!(desk.valid_tokens(), ["cursor"]);
    assert!(!desk.data.file("connect/cursor.json").exists());
}

#[test]
fn a_person_reads_what_no_difference_shows() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    let file = desk.home_file(".cursor/mcp.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut person = Person::runs(&desk.command(&["connect", "cursor"]));
    person.sees("its mode changes from 0644 to 0600.");
    person.sees("Write these changes? [y/N] ");
    person.types("y\n");
    assert_eq!(person.leaves(), Some(0));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_undo_that_was_overtaken_changes_nothing() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    let mut person = Person::runs(&desk.command(&["connect", "cursor", "--undo"]));
    person.sees("Write these changes? [y/N] ");
    desk.run(&["connect", "cursor", "--undo", "--yes"]);
    desk.run(&["connect", "cursor", "--yes"]);
    let connected = desk.read(".cursor/mcp.json");
    person.types("y\n");
    assert_eq!(person.leaves(), Some(1));
    let screen = person.screen();
    assert!(screen.contains("The connection of Cursor changed after the preview. Nothing was written."), "{screen}");
    assert_eq!(desk.read(".cursor/mcp.json"), connected);
    assert_eq!(desk.valid_tokens(), ["cursor"]);
}

#[test]
fn the_first_start_offers_the_next_step() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    let serve = || desk.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut person = Person::runs(&serve());
    person.sees("Found Cursor on this machine.");
    person.sees("connect cursor");
    person.sees("import cursor");
    crate::common::terminate(person.pid());
    assert_eq!(person.leaves(), Some(0));

    // Nobody is there to read it.
    let serving = Serving::start(&desk.data);
    assert!(!serving.has_said("Found "));
    drop(serving);

    // There are settings, so it is not the first start.
    desk.data.write("mcp_config.json", "{}");
    let mut person = Person::runs(&serve());
    person.sees("listens on http://");
    person.sees("Try in another terminal");
    crate::common::terminate(person.pid());
    person.leaves();
    assert!(!person.screen().contains("Found "), "{}", person.screen());
}
