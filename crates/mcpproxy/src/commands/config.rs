//! `config`: checks the settings, contracts and policies, and prints the settings schema.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use mcpproxy_core::settings;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::operator_files::{self, CONTRACTS, POLICIES};
use crate::terminal::output::{Format, counted, counted_as, print};

/// Check the settings, or print their JSON Schema
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy config check
  mcpproxy config schema > mcp_config.schema.json")]
pub(crate) enum ConfigCommand {
    /// Check the settings file, contracts and policies, and report every error
    #[command(after_help = "\
Examples:
  mcpproxy config check                     Check the data folder
  mcpproxy config check ./mcp_config.json   Check a file before you commit it

The command also checks contracts/ and policies/ in the same folder, as the gateway would.")]
    Check {
        /// Settings file to check [default: mcp_config.json in the data folder]
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the settings file
    #[command(after_help = "\
Examples:
  mcpproxy config schema > mcp_config.schema.json

Add \"$schema\": \"./mcp_config.schema.json\" to the settings, and your editor completes and checks them.")]
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
            Failure::new(Exit::BadSettings, format!("{}: the file does not exist", path.display()))
                .hint("without a settings file, `mcpproxy serve` starts with a demo server")
        })
    });
    operator_files::tell_ignored(path, &[CONTRACTS, POLICIES]);
    let contracts = operator_files::read_contracts(path);
    let policies = operator_files::read_policies(path);
    let (settings, contracts, policies) = match (settings, contracts, policies) {
        (Ok(settings), Ok(contracts), Ok(policies)) => (settings, contracts, policies),
        // Report all errors at once, so that the operator can fix them in one go.
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
        let (contracts, policies) = (counted(*contracts, "contract"), counted_as(*policies, "policy", "policies"));
        format!("{file}: valid, {enabled} of {servers} servers enabled, {contracts}, {policies}")
    })
}
