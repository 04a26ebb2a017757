//! The machine of a user with several clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::Folder;

/// A home folder with clients in it, and a data folder.
pub(crate) struct Desk {
    pub(crate) data: Folder,
    pub(crate) user: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { data: Folder::new(), user: tempfile::tempdir().unwrap() }
    }

    /// Writes a file of a client.
    pub(crate) fn client(&self, path: &str, text: &str) -> PathBuf {
        let path = self.user.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.data.command(args);
        command.env("HOME", self.user.path()).stdin(Stdio::null());
        for moved in ["XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME"] {
            command.env_remove(moved);
        }
        command
    }

    /// Returns the exit code and all output. Both folders get short names.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String) {
        let output = self.command(args).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let text = text.replace(&self.data.path().display().to_string(), "DATA");
        (output.status.code().unwrap(), text.replace(&self.user.path().display().to_string(), "HOME"))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).args(["-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn settings(&self) -> Value {
        serde_json::from_str(&self.data.read("mcp_config.json")).unwrap()
    }

    pub(crate) fn has_nothing(&self) -> bool {
        !self.data.file("mcp_config.json").exists() && self.secrets().is_empty()
    }

    /// The files for secrets, with mode and content.
    pub(crate) fn secrets(&self) -> Vec<(String, u32, String)> {
        let Ok(files) = fs::read_dir(self.data.file("secrets")) else { return Vec::new() };
        let mut files: Vec<_> = files
            .map(|file| {
                let path = file.unwrap().path();
                (name(&path), mode(&path), fs::read_to_string(&path).unwrap())
            })
            .collect();
        files.sort();
        files
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

pub(crate) const CURSOR: &str = r#"{
  // Mine.
  "mcpServers": {
    "GitHub": {
      "command": "npx",
      "args": ["-y", "server-github", "--api-key", "arg-secret-1"],
      "env": { "GITHUB_TOKEN": "ghp_secret2", "LOG": "info", "OTHER_TOKEN": "${env:OTHER_TOKEN}" },
      "autoApprove": ["list"]
    },
    "docs": { "url": "https://docs.example.com/mcp?key=query-secret-3", "headers": { "Authorization": "Bearer head-secret-4" } }, // slow
    "mcpproxy": { "url": "http://127.0.0.1:8080/mcp", "headers": { "Authorization": "Bearer own-secret" } }
  },
  "other": "own-setting-5"
}
"#;

pub(crate) fn assert_no_secret(text: &str) {
    for secret in ["arg-secret-1", "ghp_secret2", "query-secret-3", "head-secret-4", "own-secret", "own-setting-5"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}
