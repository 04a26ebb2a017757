//! Files that `connect` cannot edit: a clear error, and nothing changes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::PathBuf;

use insta::assert_snapshot;

use crate::desk::Desk;

/// Connects and checks that nothing changed: no file, no token, no record.
fn refused(desk: &Desk, name: &str, client: &str) {
    let before = desk.files();
    let output = desk.run(&["connect", client, "--yes"]);
    assert!(output.starts_with("exit 1\n"), "{name}: {output}");
    assert!(output.contains("\nhint: "), "{name}: {output}");
    assert_snapshot!(name, output);
    assert_eq!(desk.files(), before, "{name}");
    assert!(desk.valid_tokens().is_empty(), "{name}");
    assert!(!desk.data.file(&format!("connect/{client}.json")).exists(), "{name}");
}

#[test]
fn broken_files() {
    let check = |name: &str, client: &str, file: &str, text: &str| {
        let desk = Desk::new();
        desk.write(file, text);
        refused(&desk, name, client);
    };
    check("broken_json", "cursor", ".cursor/mcp.json", "{\n  \"mcpServers\": {\n    \"a\": {}\n  \n}");
    check("broken_toml", "codex", ".codex/config.toml", "model = \"o3\"\n[mcp_servers.a\ncommand = 'a'\n");
    check("broken_yaml", "goose", ".config/goose/config.yaml", "a: 1\nextensions: [\n");
    check("list_as_servers", "cursor", ".cursor/mcp.json", "{\"mcpServers\": []}");
    check("duplicate_table", "cursor", ".cursor/mcp.json", "{\"mcpServers\": {}, \"mcpServers\": {}}");
    check("duplicate_toml", "codex", ".codex/config.toml", "[mcp_servers.a]\nx = 1\n[mcp_servers.a]\nx = 2\n");
    check("flow_yaml", "goose", ".config/goose/config.yaml", "extensions: {a: {cmd: a}}\n");
}

#[test]
fn files_that_are_no_text_files() {
    let desk = Desk::new();
    fs::create_dir_all(desk.home_file(".cursor/mcp.json")).unwrap();
    refused(&desk, "folder_for_a_file", "cursor");

    let desk = Desk::new();
    desk.write(".cursor", "");
    desk.write("bin/cursor", "");
    let output = desk.run(&["connect", "cursor", "--yes"]);
    assert!(output.starts_with("exit 1\n"), "{output}");

    let desk = Desk::new();
    fs::create_dir_all(desk.home_file(".cursor")).unwrap();
    use rustix::fs::{CWD, FileType, mknodat};
    mknodat(CWD, desk.home_file(".cursor/mcp.json"), FileType::Fifo, 0o600.into(), 0).unwrap();
    refused(&desk, "pipe", "cursor");

    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "");
    fs::write(desk.home_file(".cursor/mcp.json"), b"{\n\"a\": \"\xff\"}").unwrap();
    refused(&desk, "not_utf8", "cursor");

    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "");
    let file = fs::OpenOptions::new().write(true).open(desk.home_file(".cursor/mcp.json")).unwrap();
    file.set_len(33 * 1024 * 1024).unwrap();
    let output = desk.run(&["connect", "cursor", "--yes"]);
    assert!(output.starts_with("exit 1\n") && output.contains("is larger than 32 MiB"), "{output}");
}

#[test]
fn files_that_cannot_be_written() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    fs::set_permissions(desk.home_file(".cursor/mcp.json"), Permissions::from_mode(0o444)).unwrap();
    refused(&desk, "read_only_file", "cursor");

    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    fs::set_permissions(desk.home_file(".cursor"), Permissions::from_mode(0o555)).unwrap();
    refused(&desk, "read_only_folder", "cursor");
    fs::set_permissions(desk.home_file(".cursor"), Permissions::from_mode(0o755)).unwrap();

    // Only root can give a file away.
    if rustix::process::geteuid().is_root() {
        let desk = Desk::new();
        desk.write(".cursor/mcp.json", "{}");
        chown(desk.home_file(".cursor/mcp.json"), Some(12_345), None).unwrap();
        refused(&desk, "file_of_another_user", "cursor");
    }
}

#[test]
fn a_second_file_that_fails_undoes_the_first() {
    let desk = Desk::new();
    desk.write(".claude.json", "{}");
    desk.write(".claude/settings.json", "{\"permissions\": {\"allow\": \"all\"}}");
    let before = desk.files();
    let output = desk.run(&["connect", "claude-code", "--permissions", "--yes"]);
    assert!(output.starts_with("exit 1\n") && output.contains("`permissions.allow` is not a list"), "{output}");
    assert_eq!(desk.files(), before);
    assert!(desk.valid_tokens().is_empty());
}

/// Creates a file that can be read but not replaced, even by root. Its path has almost the longest length that the
/// kernel accepts, 4095 bytes, so a temporary file with a longer name cannot be created beside it.
fn file_without_room_beside(desk: &Desk) -> PathBuf {
    const FOLDER_LENGTH: usize = 4088;
    let mut folder = desk.home_file("").canonicalize().unwrap();
    let left = |folder: &PathBuf| FOLDER_LENGTH - folder.as_os_str().len() - 1;
    while left(&folder) > 220 {
        folder.push("d".repeat(200));
    }
    folder.push("d".repeat(left(&folder)));
    fs::create_dir_all(&folder).unwrap();
    assert!(fs::write(folder.join("0123456789"), "").is_err());
    fs::write(folder.join("s"), "{}").unwrap();
    folder.join("s")
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let desk = Desk::new();
    let rules = file_without_room_beside(&desk);
    let rules_before = fs::read_to_string(&rules).unwrap();
    desk.write(".claude.json", "{ \"theme\": \"dark\" }");
    fs::set_permissions(desk.home_file(".claude.json"), Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(desk.home_file(".claude")).unwrap();
    symlink(&rules, desk.home_file(".claude/settings.json")).unwrap();
    let before = desk.read(".claude.json");
    let output = desk.run(&["connect", "claude-code", "--permissions", "--yes"]);
    assert!(output.starts_with("exit 1\n") && output.contains("could not write"), "{output}");
    assert_eq!((desk.read(".claude.json"), fs::read_to_string(&rules).unwrap()), (before.clone(), rules_before));
    let mode = fs::metadata(desk.home_file(".claude.json")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o644);
    assert!(desk.valid_tokens().is_empty());
    assert!(!desk.data.file("connect/claude-code.json").exists());
    assert_eq!(fs::read_dir(desk.data.file("connect/backups")).unwrap().count(), 0, "no backup stays");

    // A client that was connected before stays connected as before.
    assert!(desk.run(&["connect", "claude-code", "--yes"]).starts_with("exit 0\n"));
    let (text, record) = (desk.read(".claude.json"), desk.data.read("connect/claude-code.json"));
    assert!(desk.run(&["connect", "claude-code", "--permissions", "--yes"]).starts_with("exit 1\n"));
    assert_eq!((desk.read(".claude.json"), desk.data.read("connect/claude-code.json")), (text, record));
    assert_eq!(desk.valid_tokens(), ["claude-code"]);
    assert!(desk.run(&["connect", "claude-code", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(desk.read(".claude.json"), before);
}

#[test]
fn symbolic_links() {
    let desk = Desk::new();
    fs::create_dir_all(desk.home_file(".cursor")).unwrap();
    symlink(desk.home_file("nowhere.json"), desk.home_file(".cursor/mcp.json")).unwrap();
    refused(&desk, "dangling_link", "cursor");

    let desk = Desk::new();
    fs::create_dir_all(desk.home_file(".cursor")).unwrap();
    symlink("b", desk.home_file(".cursor/mcp.json")).unwrap();
    symlink("mcp.json", desk.home_file(".cursor/b")).unwrap();
    refused(&desk, "link_loop", "cursor");

    let desk = Desk::new();
    desk.write("dotfiles/mcp.json", "{ }");
    fs::create_dir_all(desk.home_file(".cursor")).unwrap();
    symlink(desk.home_file("dotfiles/mcp.json"), desk.home_file(".cursor/mcp.json")).unwrap();
    let output = desk.run(&["connect", "cursor", "--yes"]);
    assert!(
        output.contains("HOME/.cursor/mcp.json` is a symbolic link. Its target is `HOME/dotfiles/mcp.json`"),
        "{output}"
    );
    assert!(desk.home_file(".cursor/mcp.json").is_symlink());
    assert!(desk.read("dotfiles/mcp.json").contains("mcpproxy"));
    desk.run(&["connect", "cursor", "--undo", "--yes"]);
    assert_eq!(desk.read("dotfiles/mcp.json"), "{ }");
    assert!(desk.home_file(".cursor/mcp.json").is_symlink());
}

#[test]
fn wrong_arguments() {
    let desk = Desk::new();
    assert_snapshot!("unknown_client", desk.run(&["connect", "emacs"]));
    assert_snapshot!("no_client", desk.run(&["connect", "--yes"]));
    assert_snapshot!("undo_without_a_client", desk.run(&["connect", "--undo"]));
    assert_snapshot!("not_installed", desk.run(&["connect", "zed", "--yes"]));
    assert_snapshot!("undo_of_nothing", desk.run(&["connect", "zed", "--undo", "--yes"]));
    assert!(desk.run(&["connect", "zed", "--all"]).starts_with("exit 2\n"));
    assert!(desk.run(&["connect", "zed", "--undo", "--permissions"]).starts_with("exit 2\n"));
}

#[test]
fn files_with_a_token_are_private_until_undo() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.write(".cursor/permissions.json", "{}");
    let mode = |name: &str| fs::metadata(desk.home_file(name)).unwrap().permissions().mode() & 0o7777;
    let set = |name: &str, mode: u32| fs::set_permissions(desk.home_file(name), Permissions::from_mode(mode)).unwrap();
    set(".cursor/mcp.json", 0o640);
    set(".cursor/permissions.json", 0o644);
    fs::create_dir_all(desk.home_file(".codex")).unwrap();
    let output = desk.run(&["connect", "cursor", "codex", "--permissions", "--yes"]);
    assert!(
        output.contains("`HOME/.cursor/mcp.json` holds a token, so its mode changes from 0640 to 0600."),
        "{output}"
    );
    let modes = || (mode(".cursor/mcp.json"), mode(".cursor/permissions.json"));
    // The rules hold no token.
    assert_eq!((modes(), mode(".codex/config.toml")), ((0o600, 0o644), 0o600));

    // The first mode is not forgotten when the client is connected again, with a file that somebody changed.
    let changed = desk.read(".cursor/mcp.json").replacen('{', "{\"theme\": \"dark\",", 1);
    desk.write(".cursor/mcp.json", &changed);
    desk.run(&["token", "revoke", "cursor"]);
    assert!(desk.run(&["connect", "cursor", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(modes(), (0o600, 0o644));
    assert!(desk.run(&["connect", "cursor", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(modes(), (0o640, 0o644));

    // A file that somebody opened to others later becomes private again. Undo restores the later mode.
    desk.run(&["connect", "cursor", "--yes"]);
    let text = desk.read(".cursor/mcp.json");
    set(".cursor/mcp.json", 0o644);
    let output = desk.run(&["connect", "cursor", "--yes"]);
    assert!(output.contains("so its mode changes from 0644 to 0600."), "{output}");
    assert_eq!((mode(".cursor/mcp.json"), desk.read(".cursor/mcp.json")), (0o600, text));
    assert!(desk.run(&["connect", "cursor", "--yes"]).contains("Cursor: already connected"));
    desk.run(&["connect", "cursor", "--undo", "--yes"]);
    assert_eq!(mode(".cursor/mcp.json"), 0o644);
}

#[test]
fn the_data_folder_keeps_everything_private() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    let mode = |name: &str| fs::metadata(desk.data.file(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode("connect/backups/cursor-1-mcp.json"), mode("connect/cursor.json"), mode("connect")),
        (0o600, 0o600, 0o700)
    );
}

#[test]
fn two_connects_at_once_lose_nothing() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{ \"a\": 1 }");
    desk.write(".codex/config.toml", "a = 1\n");
    let before = desk.files();
    let start = |client: &str| {
        let mut command = desk.command(&["connect", client, "--yes"]);
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let running = [start("cursor"), start("cursor"), start("codex"), start("cursor")];
    for (child, client) in running.into_iter().zip(["cursor", "cursor", "codex", "cursor"]) {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        // One may find that another was faster. It says so, and writes nothing.
        let is_late = told.contains("changed after the preview") || told.contains("already has an entry");
        assert!(output.status.success() || (client == "cursor" && is_late), "{client}: {told}");
    }
    assert_eq!(desk.valid_tokens(), ["codex", "cursor"]);
    let token = desk.token(".cursor/mcp.json");
    assert_eq!(desk.read(".cursor/mcp.json").matches("mcpproxy\"").count(), 1);
    assert!(desk.run(&["connect", "cursor", "--yes"]).contains("already connected"));
    assert_eq!(desk.token(".cursor/mcp.json"), token);
    assert!(desk.run(&["connect", "--all", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(desk.files(), before);
}
