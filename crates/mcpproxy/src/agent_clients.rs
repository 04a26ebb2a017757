//! The AI clients that mcpproxy knows: where their files are, and what an entry for mcpproxy looks like.
//!
//! Everything about a client is data. [`CLIENTS`] has one row per client, and no code asks for a client by name. To add
//! a client, add a row. `connect` writes entries with these rows, and `import` reads servers with them.
//!
//! The rows depend on nothing but themselves. [`Machine`] supplies the operating system, the home folder and the
//! environment, so that a test on Linux can check the paths of Windows.

pub(crate) mod backup;
pub(crate) mod document;
pub(crate) mod file;
mod lock;
mod machine;
mod shape;
mod table;

pub(crate) use lock::lock;
pub(crate) use machine::{Machine, Os};
pub(crate) use shape::{EntryValues, Shape};
pub(crate) use table::{CLIENTS, ENTRY};

use std::path::PathBuf;

/// One client, such as Cursor.
pub(crate) struct Client {
    /// The word on the command line.
    pub(crate) id: &'static str,
    /// The name that people use.
    pub(crate) title: &'static str,
    /// Programs that exist if the client is installed.
    pub(crate) programs: &'static [&'static str],
    /// Folders that exist if the client is installed.
    pub(crate) folders: Places,
    /// The file that lists the client's MCP servers.
    pub(crate) config: ConfigFile,
    /// An entry that connects over HTTP. `None` if the client's file supports only commands.
    pub(crate) http: Option<Shape>,
    /// An entry that starts `mcpproxy stdio`.
    pub(crate) stdio: Shape,
    /// The client's own rules about which tools run without asking.
    pub(crate) permissions: Permissions,
    /// The step after which the client reads its file again. It must be true after `--undo` too, when the client no
    /// longer has an entry.
    pub(crate) restart: &'static str,
    /// The step that shows whether the client is connected.
    pub(crate) check: &'static str,
}

/// The file that lists a client's MCP servers.
pub(crate) struct ConfigFile {
    pub(crate) places: Places,
    pub(crate) format: FileFormat,
    /// Keys that lead to the table of servers, such as `mcpServers`.
    pub(crate) servers: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// JSON with comments and trailing commas.
    Json,
    Toml,
    Yaml,
}

/// Paths of a file or folder, for each operating system.
///
/// A path starts with `~` (home folder), `$CONFIG` (`$XDG_CONFIG_HOME` or `~/.config`), `%APPDATA%` or
/// `%LOCALAPPDATA%`. If several paths are given, the first one that exists is used. If none exists, the last one is
/// created.
pub(crate) struct Places {
    /// A variable that moves the folder, and the path below it.
    pub(crate) moved_by: Option<(&'static str, &'static str)>,
    pub(crate) linux: &'static [&'static str],
    pub(crate) macos: &'static [&'static str],
    pub(crate) windows: &'static [&'static str],
}

/// Rules of a client about calls that run without asking.
pub(crate) enum Permissions {
    Rules {
        files: &'static [RuleFile],
        /// A limit of these rules that the user must know.
        note: Option<&'static str>,
    },
    /// The client has no file for rules. The text says what to click.
    Manual(&'static str),
}

/// A file with rules.
pub(crate) struct RuleFile {
    pub(crate) places: Places,
    pub(crate) content: RuleContent,
}

pub(crate) enum RuleContent {
    /// Changes in a file that also has other settings.
    Edits { format: FileFormat, edits: &'static [RuleEdit] },
    /// A file that belongs to mcpproxy alone.
    Whole { format: FileFormat, text: &'static str },
}

/// One change in a file. The path is a list of keys.
pub(crate) enum RuleEdit {
    Set { path: &'static [&'static str], value: Shape },
    AddToList { path: &'static [&'static str], values: &'static [&'static str] },
}

/// Returns the client with this id.
pub(crate) fn find(id: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.id == id)
}

impl Places {
    /// Returns all paths on this machine, in order.
    pub(crate) fn paths(&self, machine: &Machine) -> Vec<PathBuf> {
        if let Some(moved) = self.moved_by.and_then(|(variable, rest)| machine.below_variable(variable, rest)) {
            return vec![moved];
        }
        let paths = match machine.os {
            Os::Linux => self.linux,
            Os::Mac => self.macos,
            Os::Windows => self.windows,
        };
        paths.iter().filter_map(|path| machine.resolve(path)).collect()
    }

    /// Returns the path that exists, or the one to create.
    pub(crate) fn path(&self, machine: &Machine) -> Option<PathBuf> {
        let mut paths = self.paths(machine);
        // A broken link counts as existing. Otherwise, a second file would appear next to it.
        let there = paths.iter().position(|path| path.symlink_metadata().is_ok());
        match there {
            Some(index) => Some(paths.swap_remove(index)),
            None => paths.pop(),
        }
    }
}

impl Client {
    /// Returns the file that lists the client's servers. It may not exist yet.
    pub(crate) fn config_path(&self, machine: &Machine) -> Option<PathBuf> {
        self.config.places.path(machine)
    }

    /// Checks whether the client is installed: its file, its folder or its program exists.
    pub(crate) fn is_installed(&self, machine: &Machine) -> bool {
        let has_file = self.config.places.paths(machine).iter().any(|path| path.symlink_metadata().is_ok());
        has_file
            || self.folders.paths(machine).iter().any(|path| path.is_dir())
            || self.programs.iter().any(|program| machine.has_program(program))
    }
}

/// Returns the clients that are installed on this machine.
pub(crate) fn installed(machine: &Machine) -> Vec<&'static Client> {
    CLIENTS.iter().filter(|client| client.is_installed(machine)).collect()
}

#[cfg(test)]
mod tests;
