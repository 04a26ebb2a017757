//! `config`: checks the settings file and prints its schema.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use mcpproxy_core::settings;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{Format, print};
use crate::settings_file;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a settings file as the gateway would, and tell everything that is wrong with it
    #[command(after_help = "\
Examples:
  mcpproxy config check                     Check the settings of the data folder
  mcpproxy config check ./mcp_config.json   Check another file, for example before a commit")]
    Check {
        /// [default: mcp_config.json in the data folder]
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the settings file
    #[command(after_help = "\
Examples:
  mcpproxy config schema > mcp_config.schema.json
  Then begin the settings with {\"$schema\": \"./mcp_config.schema.json\", and an editor completes and checks them.")]
    Schema,
}

pub(crate) fn run(home: &Home, format: Format, command: &ConfigCommand) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check { file } => check(format, file.as_deref().unwrap_or(&home.settings()))?,
        ConfigCommand::Schema => match format {
            Format::Table | Format::Json => print(&serde_json::to_string_pretty(&settings::schema())?)?,
            Format::Yaml => format.print(&settings::schema(), String::new)?,
        },
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Checked {
    file: String,
    servers: usize,
    enabled: usize,
}

fn check(format: Format, path: &Path) -> anyhow::Result<()> {
    let settings = settings_file::read(path)?.ok_or_else(|| {
        Failure::new(Exit::BadSettings, format!("{}: there is no such file", path.display()))
            .hint("without settings the gateway starts with its demo server")
    })?;
    let servers = &settings.servers;
    let checked = Checked {
        file: path.display().to_string(),
        servers: servers.len(),
        enabled: servers.iter().filter(|server| server.enabled).count(),
    };
    format.print(&checked, || {
        format!("{}: good, {} of {} servers enabled", checked.file, checked.enabled, checked.servers)
    })
}
