//! A home folder with clients, and a data folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Folder, Serving};

/// Every client, with a folder that shows that it is installed.
pub(crate) const CLIENTS: [(&str, &str); 11] = [
    ("claude-code", ".claude"),
    ("claude-desktop", ".config/Claude"),
    ("cursor", ".cursor"),
    ("vscode", ".config/Code/User"),
    ("codex", ".codex"),
    ("gemini", ".gemini"),
    ("opencode", ".config/opencode"),
    ("qwen", ".qwen"),
    ("windsurf", ".codeium/windsurf"),
    ("zed", ".config/zed"),
    ("goose", ".config/goose"),
];

pub(crate) struct Desk {
    home: TempDir,
    pub(crate) data: Folder,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), data: Folder::new() }
    }

    pub(crate) fn home_file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.home_file(name).parent().unwrap()).unwrap();
        fs::write(self.home_file(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home_file(name)).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.data.command(args);
        command.env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin");
        for name in [
            "XDG_CONFIG_HOME",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "GEMINI_CLI_HOME",
            "QWEN_HOME",
            "GOOSE_PATH_ROOT",
            "VSCODE_PORTABLE",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Returns the exit code and all output. Paths become `HOME`, `DATA` and `PROGRAM`.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let code = output.status.code().unwrap();
        self.plain(&format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr)))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).args(["-o", "json"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn plain(&self, text: &str) -> String {
        let program = assert_cmd::cargo::cargo_bin!("mcpproxy").display().to_string();
        text.replace(&program, "PROGRAM")
            .replace(&self.home.path().display().to_string(), "HOME")
            .replace(&self.data.path().display().to_string(), "DATA")
    }

    /// Returns every file and folder of the home folder with its content.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut files = BTreeMap::new();
        collect(self.home.path(), &mut files);
        files
    }

    /// Returns all files as text, with tokens masked.
    pub(crate) fn shown_files(&self) -> String {
        let mut text = String::new();
        for (path, content) in self.files() {
            let Some(content) = content else { continue };
            let content = masked(&String::from_utf8(content).unwrap());
            text.push_str(&self.plain(&format!("=== {}\n{content}", path.display())));
        }
        text
    }

    /// Returns the token in a client's file.
    pub(crate) fn token(&self, name: &str) -> String {
        let text = self.read(name);
        let (_, rest) = text.split_once("Bearer ").unwrap();
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == '-').collect()
    }

    /// Returns the names of valid tokens, except the gateway's own.
    pub(crate) fn valid_tokens(&self) -> Vec<String> {
        let listed = self.data.json(&["token", "list"]);
        let tokens = listed["tokens"].as_array().unwrap().iter().filter(|token| token["revoked"].is_null());
        let names = tokens.map(|token| token["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != "local").collect()
    }
}

fn masked(text: &str) -> String {
    let Some((before, rest)) = text.split_once("Bearer mcp_") else { return text.to_owned() };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    format!("{before}Bearer TOKEN{}", masked(rest))
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_folder = path.is_dir() && !path.is_symlink();
        files.insert(path.clone(), (!is_folder && path.is_file()).then(|| fs::read(&path).unwrap()));
        if is_folder {
            collect(&path, files);
        }
    }
}

/// Sends `tools/list` with this token and returns the whole answer.
pub(crate) fn list_tools(serving: &Serving<'_>, token: &str) -> String {
    let body = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/list\"}";
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close",
        serving.address,
        body.len()
    );
    let mut stream = serving.connect();
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
