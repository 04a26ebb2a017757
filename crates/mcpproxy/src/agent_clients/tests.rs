//! Paths on every operating system, and the shape of every entry.

use std::collections::BTreeMap;

use super::*;

fn machine(os: Os, variables: &[(&str, &str)]) -> Machine {
    let home = match os {
        Os::Linux => "/home/kim",
        Os::Mac => "/Users/kim",
        Os::Windows => "C:\\Users\\kim",
    };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Machine { os, home: home.to_owned(), variables: variables.collect::<BTreeMap<_, _>>() }
}

fn config(id: &str, machine: &Machine) -> String {
    find(id).unwrap().config_path(machine).unwrap().display().to_string()
}

/// Lists the files of every client on one operating system.
fn files(os: Os) -> String {
    let machine = machine(os, &[]);
    let mut lines = Vec::new();
    for client in CLIENTS {
        lines.push(format!("{}: {}", client.id, config(client.id, &machine)));
        if let Permissions::Rules { files, .. } = &client.permissions {
            let rules = files.iter().map(|file| file.places.path(&machine).unwrap().display().to_string());
            lines.extend(rules.map(|path| format!("  rules: {path}")));
        }
    }
    lines.join("\n")
}

#[test]
fn files_on_every_operating_system() {
    insta::assert_snapshot!("linux", files(Os::Linux));
    insta::assert_snapshot!("macos", files(Os::Mac));
    insta::assert_snapshot!("windows", files(Os::Windows));
}

#[test]
fn variables_move_files() {
    let check = |id: &str, os: Os, variable: (&str, &str), path: &str| {
        assert_eq!(config(id, &machine(os, &[variable])), path, "{id} {variable:?}");
    };
    check("claude-code", Os::Linux, ("CLAUDE_CONFIG_DIR", "/work/c"), "/work/c/.claude.json");
    check("codex", Os::Linux, ("CODEX_HOME", "/work/codex"), "/work/codex/config.toml");
    check("codex", Os::Linux, ("CODEX_HOME", ""), "/home/kim/.codex/config.toml");
    check("codex", Os::Windows, ("CODEX_HOME", "D:\\codex\\"), "D:\\codex\\config.toml");
    check("gemini", Os::Mac, ("GEMINI_CLI_HOME", "/g"), "/g/.gemini/settings.json");
    check("qwen", Os::Linux, ("QWEN_HOME", "~/q"), "/home/kim/q/settings.json");
    check("goose", Os::Linux, ("GOOSE_PATH_ROOT", "/goose"), "/goose/config/config.yaml");
    check("zed", Os::Linux, ("XDG_CONFIG_HOME", "/x"), "/x/zed/settings.json");
    check("zed", Os::Linux, ("XDG_CONFIG_HOME", "relative"), "/home/kim/.config/zed/settings.json");
    check("zed", Os::Mac, ("XDG_CONFIG_HOME", "/x"), "/Users/kim/.config/zed/settings.json");
    check("vscode", Os::Windows, ("APPDATA", "E:\\Data"), "E:\\Data\\Code\\User\\mcp.json");
}

#[test]
fn every_row_is_complete() {
    for client in CLIENTS {
        assert!(find(client.id).is_some_and(|found| std::ptr::eq(found, client)), "{} is listed twice", client.id);
        assert!(client.restart.ends_with('.') && client.check.ends_with('.'), "{}", client.id);
        for os in [Os::Linux, Os::Mac, Os::Windows] {
            let machine = machine(os, &[]);
            assert!(!client.config.places.paths(&machine).is_empty(), "{}: no file on {os:?}", client.id);
            assert!(!client.folders.paths(&machine).is_empty(), "{}: no folder on {os:?}", client.id);
        }
    }
}

#[test]
fn entries_over_http_carry_address_and_token_and_entries_over_stdio_neither() {
    let values = EntryValues {
        url: "http://127.0.0.1:8080/mcp".to_owned(),
        token: "mcp_secret".to_owned(),
        program: "/opt/mcpproxy".to_owned(),
        arguments: vec!["stdio".to_owned()],
    };
    for client in CLIENTS {
        if let Some(http) = &client.http {
            let text = http.fill(&values).to_string();
            assert!(text.contains("\"http://127.0.0.1:8080/mcp\"") && text.contains("\"Bearer mcp_secret\""), "{text}");
        }
        let text = client.stdio.fill(&values).to_string();
        assert!(text.contains("/opt/mcpproxy") && text.contains("\"stdio\"") && !text.contains("mcp_secret"), "{text}");
    }
}

#[test]
fn a_client_is_found_by_file_folder_or_program() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().display().to_string();
    let path = folder.path().join("bin").display().to_string();
    let machine = Machine { os: Os::Linux, home, variables: BTreeMap::from([("PATH".to_owned(), format!(":{path}"))]) };
    let ids = || installed(&machine).iter().map(|client| client.id).collect::<Vec<_>>();
    assert!(ids().is_empty(), "{:?}", ids());
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(folder.path().join("bin/qwen"), "").unwrap();
    std::fs::create_dir(folder.path().join(".cursor")).unwrap();
    std::fs::write(folder.path().join(".claude.json"), "{}").unwrap();
    assert_eq!(ids(), ["claude-code", "cursor", "qwen"]);
}

#[test]
fn the_file_that_exists_wins() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine { os: Os::Linux, home: folder.path().display().to_string(), variables: BTreeMap::new() };
    let place = folder.path().join(".config/opencode");
    assert_eq!(config("opencode", &machine), place.join("opencode.json").display().to_string());
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("opencode.jsonc"), "{}").unwrap();
    assert_eq!(config("opencode", &machine), place.join("opencode.jsonc").display().to_string());
}
