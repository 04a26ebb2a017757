//! `config`: checks the settings, contracts and policies, applies changes that wait, publishes versions for several
//! gateways, and prints the settings schema.

pub(super) mod apply;
mod confirm;
mod gateway_view;
mod publish;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use mcpproxy_core::Mistake;
use mcpproxy_core::settings::{self, ServerSettings, Settings};
use serde::Serialize;

use crate::client::state::held_words;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::operator_files::{self, CONTRACTS, POLICIES, published};
use crate::runtime::last_run::{self, MissingFiles};
use crate::terminal::output::{Format, counted, counted_as, print, tell};
use gateway_view::Difference;
use publish::What;

/// Check the settings, apply or publish changes, or print the JSON Schema
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy config check
  mcpproxy config apply
  mcpproxy config apply --from ./deployment
  mcpproxy config versions
  mcpproxy config schema > mcp_config.schema.json")]
pub(crate) enum ConfigCommand {
    /// Check the settings file, contracts and policies, and report every error
    #[command(after_help = "\
Examples:
  mcpproxy config check                     Check the data folder
  mcpproxy config check ./mcp_config.json   Check a file before you commit it
  mcpproxy config check --fix               Make a file with secrets private

The command also checks contracts/ and policies/ in the same folder, as the gateway would. If a gateway runs on these settings, it is asked too: environment variables may be set there and not here, or the other way round.")]
    Check {
        /// Settings file to check [default: mcp_config.json in the data folder]
        file: Option<PathBuf>,
        /// Remove the permissions of other users: to write, and to read a file with secrets
        #[arg(long)]
        fix: bool,
    },
    /// Apply changes that weaken contracts, policies or settings, or publish a folder for all gateways
    #[command(after_help = "\
Examples:
  mcpproxy config apply                      Confirm changes that wait here
  mcpproxy config apply --from ./deployment  Publish a folder for all gateways
  mcpproxy config apply --version 3          Go back to an earlier version

A reload that removes or weakens a contract or policy waits until a user confirms it. So does one that makes `contracts`, `intent_declaration` or `approvals.channels` in the settings more lenient. This command shows the changes and signs you in, as `mcpproxy approvals approve` does. It needs a terminal.

With --from, the command reads mcp_config.json, contracts/ and policies/ of a folder, checks them, and shows the differences from the newest version in PostgreSQL. Once you have signed in and confirmed, it publishes them as a new version. All gateways with \"operator_files\": \"database\" take it over within a second.")]
    Apply {
        /// Publish the settings, contracts and policies of this folder for all gateways of the database
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Publish an earlier version again
        #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
        version: Option<i64>,
    },
    /// List the versions that users published for all gateways
    #[command(after_help = "\
Examples:
  mcpproxy config versions
  mcpproxy config versions -o json

The newest 100 versions are kept, newest first. To go back to one, run `mcpproxy config apply --version NUMBER`.")]
    Versions,
    /// Print the JSON Schema of the settings file
    #[command(after_help = "\
Examples:
  mcpproxy config schema > mcp_config.schema.json

Add \"$schema\": \"./mcp_config.schema.json\" to the settings, and your editor completes and checks them.")]
    Schema,
}

pub(crate) async fn run(home: &Home, format: Format, command: &ConfigCommand) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check { file, fix } => {
            let path = file.clone().unwrap_or_else(|| home.settings());
            let fixed = if *fix { settings_file::fix_access(&path)? } else { None };
            if let Some(mode) = fixed {
                tell(&format!("Set mode {mode:04o} on {}.", path.display()));
            }
            // A file that is named must exist.
            check(home, format, &path, file.is_some()).await?;
        }
        ConfigCommand::Apply { from: Some(folder), .. } => {
            return publish::run(home, format, What::Folder(folder)).await;
        }
        ConfigCommand::Apply { version: Some(number), .. } => {
            return publish::run(home, format, What::Version(*number)).await;
        }
        ConfigCommand::Apply { from: None, version: None } => return apply::run(home, format).await,
        ConfigCommand::Versions => publish::list(home, format).await?,
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
    /// Servers that this command and the running gateway judge differently. `null` if no gateway runs on these
    /// settings.
    differences: Option<Vec<Difference>>,
    /// Changes that the running gateway does not apply until a user confirms them. `null` if no gateway runs on these
    /// settings.
    held: Option<usize>,
    /// Settings that have no effect or need attention.
    warnings: Vec<String>,
}

async fn check(home: &Home, format: Format, path: &Path, is_named: bool) -> anyhow::Result<()> {
    let missing = || Failure::new(Exit::BadSettings, format!("{}: the file does not exist", path.display()));
    let mut has_file = true;
    let settings = settings_file::read(path).and_then(|read| match read {
        Some(read) => published::check_machine(path, &read.settings).map(|()| read.settings),
        None if is_named => Err(missing().hint("without FILE, the command checks the data folder")),
        // As in `doctor`: the gateway starts, and runs the demo server.
        None => {
            has_file = false;
            Ok(settings::demo())
        }
    });
    operator_files::tell_ignored(path, &[CONTRACTS, POLICIES]);
    let warnings = settings.as_ref().map(|settings| settings.warnings.clone()).unwrap_or_default();
    settings_file::warning_lines(path, &warnings).iter().for_each(|warning| tell(warning));
    let contracts = operator_files::read_contracts(path);
    let policies = operator_files::read_policies(path);
    let view = match &settings {
        Ok(settings) => gateway_view::view(home, path, settings).await,
        Err(_) => None,
    };
    let (differences, held) = view.map(|view| (view.differences, view.held)).unzip();
    let told = differences.as_deref().unwrap_or_default();
    let servers = settings.as_ref().ok().and_then(|settings| misconfigured(path, settings, told));
    let (settings, contracts, policies) = match (settings, contracts, policies, servers) {
        (Ok(settings), Ok(contracts), Ok(policies), None) => (settings, contracts, policies),
        // Report all errors at once, so that the operator can fix them in one go.
        (settings, contracts, policies, servers) => {
            let title = match (&settings, &contracts, &policies) {
                (Ok(settings), Ok(_), Ok(_)) => only_servers(settings, told),
                _ => "invalid settings".to_owned(),
            };
            let failures = [settings.err(), servers, contracts.err(), policies.err()].into_iter().flatten();
            return Err(Failure::all(failures).title(title).into());
        }
    };
    // As `serve` would refuse to start.
    let is_own = || Some(std::fs::canonicalize(path).ok()? == std::fs::canonicalize(home.settings()).ok()?);
    if (!is_named || is_own() == Some(true))
        && let MissingFiles::Found(missing) = last_run::missing_files(home).await
    {
        return Err(missing.into());
    }
    for difference in told {
        tell(&format!("note: {difference}"));
    }
    if let Some(held @ 1..) = held {
        tell(&format!("note: {}. To confirm:", held_words(held)));
        tell(&format!("  {}", home.command("mcpproxy", "config apply")));
    }
    let servers = &settings.servers;
    let checked = Checked {
        file: path.display().to_string(),
        servers: servers.len(),
        enabled: servers.iter().filter(|server| server.enabled).count(),
        contracts: contracts.iter().count(),
        policies: policies.iter().count(),
        differences,
        held,
        warnings: warnings.iter().map(ToString::to_string).collect(),
    };
    format.print(&checked, || {
        let Checked { file, servers, enabled, contracts, policies, .. } = &checked;
        let (contracts, policies) = (counted(*contracts, "contract"), counted_as(*policies, "policy", "policies"));
        match has_file {
            true => format!("{file}: valid\n  {enabled} of {servers} servers enabled, {contracts}, {policies}"),
            false => {
                format!("{file}: no settings file\n  The demo server runs.\n  {contracts}, {policies}")
            }
        }
    })
}

/// Says that only single servers have mistakes. The gateway runs all others.
fn only_servers(settings: &Settings, differences: &[Difference]) -> String {
    let is_wrong = |server: &ServerSettings| match differences.iter().find(|d| d.server == server.name.as_str()) {
        // The view of the running gateway decides.
        Some(difference) => difference.gateway.is_some(),
        None => server.transport.mistakes().is_some(),
    };
    let enabled: Vec<&ServerSettings> = settings.servers.iter().filter(|server| server.enabled).collect();
    let wrong = enabled.iter().filter(|server| is_wrong(server)).count();
    let count = counted_as(wrong, "server is", "servers are");
    match wrong == enabled.len() {
        true => format!("{count} misconfigured, and no other server is enabled"),
        false => format!("{count} misconfigured. The rest of the settings is valid, and the other servers run"),
    }
}

/// Returns the mistakes of single servers: those found here, except where the running gateway has what is missing here,
/// and those that only the gateway finds.
fn misconfigured(path: &Path, settings: &Settings, differences: &[Difference]) -> Option<Failure> {
    let differs = |name: &str| differences.iter().any(|difference| difference.server == name);
    let here = settings.misconfigured().filter(|(server, _)| !differs(server.name.as_str()));
    let mistakes: Vec<&Mistake> = here.flat_map(|(_, mistakes)| mistakes).collect();
    let here = (!mistakes.is_empty()).then(|| settings_file::bad(path, mistakes));
    let there = differences.iter().filter(|difference| difference.gateway.is_some());
    let there = there.map(|difference| Failure::new(Exit::BadSettings, difference.to_string()));
    let failures: Vec<Failure> = here.into_iter().chain(there).collect();
    (!failures.is_empty()).then(|| Failure::all(failures))
}
