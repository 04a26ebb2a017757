//! Files that `import` cannot read, and a gateway that refuses: nothing changes.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use crate::common::Serving;
use crate::desk::{CURSOR, Desk, assert_no_secret};

#[test]
fn bad_files_change_nothing() {
    let desk = Desk::new();
    let check = |path: &Path, expected: &str| {
        let (exit, text) = desk.run(&["import", path.to_str().unwrap(), "--yes", "--remove-direct"]);
        assert!(exit != 0 && text.contains(expected), "{expected} in exit {exit}: {text}");
        assert!(text.contains("hint: "), "{text}");
        assert!(desk.has_nothing(), "{text}");
    };
    check(&desk.client("a.json", "{\"mcpServers\": {\"a\": }"), "a.json`: line 1, column");
    check(&desk.client("a.toml", "[mcp_servers.a\ncommand = 1"), "a.toml`: line 1, column");
    check(&desk.client("a.yaml", "extensions:\n  a: [1\n"), "a.yaml`: line");
    fs::write(desk.user.path().join("c.json"), b"{\n\"\xff\": 1}").unwrap();
    check(&desk.user.path().join("c.json"), "line 2 is not UTF-8");
    check(&desk.user.path().join("gone.json"), "gone.json` does not exist");
    fs::create_dir(desk.user.path().join("folder.json")).unwrap();
    check(&desk.user.path().join("folder.json"), "is not a file but a folder");
    symlink("loop.json", desk.user.path().join("loop.json")).unwrap();
    check(&desk.user.path().join("loop.json"), "is a broken symbolic link");
    if rustix::process::geteuid().is_root() {
        let foreign = desk.client("foreign.json", CURSOR);
        chown(&foreign, Some(4711), None).unwrap();
        check(&foreign, "belongs to another user (uid 4711");
    }
    // Nothing can be removed from this one, so nothing is imported from it either.
    let flow = "extensions: {a: {type: stdio, cmd: x, envs: {API_KEY: flow-secret}}, b: {type: builtin}}\n";
    check(&desk.client("flow.yaml", flow), "cannot edit without loss");
    assert_eq!(fs::read_to_string(desk.user.path().join("flow.yaml")).unwrap(), flow);

    let (exit, text) = desk.run(&["import", "curser"]);
    assert_eq!((exit, text.contains("did you mean `mcpproxy --home DATA import cursor`?")), (2, true), "{text}");
    let (exit, text) = desk.run(&["import", "zed"]);
    assert_eq!((exit, text.contains("Zed has no settings file here")), (1, true), "{text}");
    for empty in ["", "{}", "{\"mcpServers\": {}}", "// nothing\n"] {
        let path = desk.client("empty.json", empty);
        let (exit, text) = desk.run(&["import", path.to_str().unwrap(), "--yes"]);
        assert_eq!((exit, text.contains("Nothing to import from")), (0, true), "{empty}: {text}");
        assert!(desk.has_nothing());
    }
    // Our own settings are no source.
    desk.data.write("mcp_config.json", CURSOR);
    let own = desk.data.file("mcp_config.json");
    let (exit, text) = desk.run(&["import", own.to_str().unwrap(), "--yes", "--remove-direct"]);
    assert_eq!((exit, text.contains("These are the settings of mcpproxy itself.")), (2, true), "{text}");
    assert_eq!(desk.data.read("mcp_config.json"), CURSOR);
    // Our own file with a mistake is not touched.
    desk.data.write("mcp_config.json", "{ \"listen\": 1 }");
    let good = desk.client("good.json", CURSOR);
    let (exit, text) = desk.run(&["import", good.to_str().unwrap(), "--yes"]);
    assert_eq!((exit, desk.data.read("mcp_config.json").as_str()), (6, "{ \"listen\": 1 }"), "{text}");
    assert!(desk.secrets().is_empty());
}

#[test]
fn a_refused_reload_undoes_everything() {
    let desk = Desk::new();
    let settings = "{ \"mcpServers\": {} } // mine\n";
    desk.data.write("mcp_config.json", settings);
    let cursor = desk.client(".cursor/mcp.json", CURSOR);
    let _gateway = Serving::start(&desk.data);
    desk.data.make("contracts");
    desk.data.write("contracts/broken.yaml", "tool: [\n");
    let (exit, text) = desk.run(&["import", "cursor", "--yes", "--remove-direct"]);
    assert!(exit != 0 && text.contains("nothing was imported") && text.contains("broken.yaml"), "{text}");
    assert_no_secret(&text);
    assert_eq!(desk.data.read("mcp_config.json"), settings);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), CURSOR);
    assert!(desk.secrets().is_empty());
}
