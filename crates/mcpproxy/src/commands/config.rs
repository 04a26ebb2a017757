//! `config`: checks the settings file and prints its schema.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use mcpproxy_core::settings;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::operator_files::{self, CONTRACTS, POLICIES};
use crate::terminal::output::{Format, counted, print};

/// Check the settings, contracts and policies, or print the settings' JSON Schema
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy config check
  mcpproxy config schema > mcp_config.schema.json")]
pub(crate) enum ConfigCommand {
    /// Read a settings file and the contracts and policies beside it, and tell everything that is wrong
    #[command(after_help = "\
Examples:
  mcpproxy config check                     Check the settings of the data folder
  mcpproxy config check ./mcp_config.json   Check another file, for example before a commit

contracts/ and policies/ beside the file are read as the gateway would read them.")]
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
    contracts: usize,
    #[serde(rename = "rules")]
    policies: usize,
}

fn check(format: Format, path: &Path) -> anyhow::Result<()> {
    let settings = settings_file::read(path).and_then(|settings| {
        settings.ok_or_else(|| {
            Failure::new(Exit::BadSettings, format!("{}: there is no such file", path.display()))
                .hint("without settings the gateway starts with its demo server")
        })
    });
    operator_files::tell_left_out(path, &[CONTRACTS, POLICIES]);
    let contracts = operator_files::read_contracts(path);
    let policies = operator_files::read_policies(path);
    let (settings, contracts, policies) = match (settings, contracts, policies) {
        (Ok(settings), Ok(contracts), Ok(policies)) => (settings, contracts, policies),
        // Everything that is wrong at once: whoever mends one wants to know of the others.
        (settings, contracts, policies) => {
            let failures = [settings.err(), contracts.err(), policies.err()].into_iter().flatten();
            return Err(Failure::all(failures).into());
        }
    };
    let servers = &settings.servers;
    let checked = Checked {
        file: path.display().to_string(),
        servers: servers.len(),
        enabled: servers.iter().filter(|server| server.enabled).count(),
        contracts: contracts.iter().count(),
        policies: policies.iter().count(),
    };
    format.print(&checked, || {
        let Checked { file, servers, enabled, contracts, policies } = &checked;
        let (contracts, policies) = (counted(*contracts, "contract"), counted(*policies, "policy"));
        format!("{file}: good, {enabled} of {servers} servers enabled, {contracts}, {policies}")
    })
}
