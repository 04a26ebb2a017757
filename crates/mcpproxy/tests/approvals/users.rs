//! `users`: the operator lists users, invites one, and resets an account at a terminal.

use crate::anna::make_anna;
use crate::common::Serving;
use crate::common::person::Person;
use crate::folder;

#[test]
fn the_operator_resets_and_invites_at_a_terminal() {
    let folder = folder();
    let serving = Serving::start(&folder);
    assert!(folder.run(&["users", "list"]).contains("No users yet."));
    make_anna(&serving);
    let listed = folder.json(&["users", "list"]);
    let anna = &listed["users"][0];
    assert_eq!((anna["name"].as_str(), anna["kind"].as_str()), (Some("anna"), Some("local")));
    assert_eq!((anna["second_factor"].as_bool(), anna["password"].as_bool()), (Some(true), Some(true)));

    for command in ["reset", "invite"] {
        let refused = folder.command(&["users", command, "anna"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(3), "no terminal, no link");
        assert!(refused.stdout.is_empty());
    }
    let mut unknown = Person::runs(&folder.command(&["users", "reset", "ana"]));
    unknown.sees("No user is named `ana`.");
    unknown.sees("did you mean `anna`?");
    assert_eq!(unknown.leaves(), Some(1));

    let mut operator = Person::runs(&folder.command(&["users", "reset", "anna"]));
    operator.sees("removes password, second factors, recovery codes and sessions of `anna`");
    operator.sees("Type the name to reset the account: ");
    operator.types("y\n");
    operator.sees("nothing changed");
    assert_eq!(operator.leaves(), Some(3));

    let mut operator = Person::runs(&folder.command(&["users", "reset", "anna"]));
    operator.sees("Type the name to reset the account: ");
    operator.types("anna\n");
    operator.sees("/ui/setup/invite_");
    operator.sees("The running gateway records this in the activity log.");
    assert_eq!(operator.leaves(), Some(0));
    let listed = folder.json(&["users", "list"]);
    assert_eq!(listed["users"][0]["password"].as_bool(), Some(false));
    assert!(folder.run(&["users", "list"]).contains("reset, waits for its link"));

    let mut operator = Person::runs(&folder.command(&["users", "invite", "berta"]));
    operator.sees("Type the name to invite the user: ");
    operator.types("berta\n");
    operator.sees("/ui/setup/invite_");
    assert_eq!(operator.leaves(), Some(0));
    let is_recorded = |code: &str| {
        let log = folder.json(&["activity", "list", "--type", "auth"]);
        log["activities"].as_array().unwrap().iter().any(|record| record["code"] == code)
    };
    serving.wait("the records", || is_recorded("user_reset_by_operator") && is_recorded("user_invited_by_operator"));
}
