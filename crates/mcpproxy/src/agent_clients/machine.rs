//! The machine that clients are installed on: operating system, home folder and environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Os {
    Linux,
    Mac,
    Windows,
}

/// Facts about a machine. Tests make them up.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) os: Os,
    pub(crate) home: String,
    pub(crate) variables: BTreeMap<String, String>,
}

impl Machine {
    /// Returns this machine. `None` if the home folder is unknown.
    pub(crate) fn here() -> Option<Self> {
        let os = if cfg!(target_os = "macos") {
            Os::Mac
        } else if cfg!(windows) {
            Os::Windows
        } else {
            Os::Linux
        };
        let home = std::env::home_dir()?.into_os_string().into_string().ok().filter(|home| !home.is_empty())?;
        let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Some(Self { os, home, variables: std::env::vars_os().filter_map(texts).collect() })
    }

    /// Returns a variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the path `rest` below the folder that a variable names.
    pub(super) fn below_variable(&self, variable: &str, rest: &str) -> Option<PathBuf> {
        let folder = self.variable(variable)?;
        let folder = match folder.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => format!("{}{rest}", self.home),
            Some(_) | None => folder.to_owned(),
        };
        Some(self.join(&folder, rest))
    }

    /// Returns the path for a template such as `~/.cursor/mcp.json`.
    pub(super) fn resolve(&self, template: &str) -> Option<PathBuf> {
        let (root, rest) = template.split_once('/').unwrap_or((template, ""));
        let root = match root {
            "~" => self.home.clone(),
            "$CONFIG" => self.config_folder(),
            "%APPDATA%" => self.windows_folder("APPDATA", "Roaming"),
            "%LOCALAPPDATA%" => self.windows_folder("LOCALAPPDATA", "Local"),
            _ => return None,
        };
        Some(self.join(&root, rest))
    }

    fn config_folder(&self) -> String {
        // The specification says that a relative path must be ignored.
        let given = self.variable("XDG_CONFIG_HOME").filter(|folder| folder.starts_with('/'));
        given.map_or_else(|| format!("{}/.config", self.home), str::to_owned)
    }

    fn windows_folder(&self, variable: &str, name: &str) -> String {
        self.variable(variable).map_or_else(|| format!("{}\\AppData\\{name}", self.home), str::to_owned)
    }

    fn join(&self, root: &str, rest: &str) -> PathBuf {
        if rest.is_empty() {
            return PathBuf::from(root);
        }
        match self.os {
            Os::Linux | Os::Mac => Path::new(root).join(rest),
            Os::Windows => {
                PathBuf::from(format!("{}\\{}", root.trim_end_matches(['\\', '/']), rest.replace('/', "\\")))
            }
        }
    }

    /// Checks whether a program is in one of the folders of `PATH`.
    pub(super) fn has_program(&self, program: &str) -> bool {
        let Some(path) = self.variable("PATH") else { return false };
        let (separator, endings) = match self.os {
            Os::Linux | Os::Mac => (':', &[""][..]),
            Os::Windows => (';', &[".exe", ".cmd"][..]),
        };
        let mut folders = path.split(separator).filter(|folder| !folder.is_empty());
        folders.any(|folder| endings.iter().any(|ending| self.join(folder, &format!("{program}{ending}")).is_file()))
    }
}
