//! The command line: one module for each command.
//!
//! `Cli` is what clap parses. Every command is a module here that owns its arguments, its help text and its `run`
//! function. The match in [`run_command`] is exhaustive, so a command without a `run` does not compile.

mod activity;
mod approvals;
mod args;
mod backup;
mod call;
pub(crate) mod completions;
mod config;
mod connect;
mod contract;
mod demo_server;
mod doctor;
mod import;
mod lock;
mod man;
mod migrate;
mod names;
mod open;
mod out_file;
mod policy;
mod restore;
mod serve;
mod servers;
mod status;
mod stdio;
mod token;
mod tools;
pub(crate) mod usage;
mod users;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  mcpproxy   Start the gateway, with a demo server if there are no settings
  mcpproxy connect cursor   Add mcpproxy to the settings of a client
  mcpproxy servers add time -- uvx mcp-server-time
  mcpproxy tools search \"current time\"
  mcpproxy call tool-read time:get_current_time \\
      --args '{\"timezone\": \"Europe/Paris\"}'
  mcpproxy status   Show what runs, what is wrong, and the next command
  mcpproxy activity list

Exit codes:
  0  success
  1  failure
  2  wrong arguments
  3  the gateway or a user refused the call
  4  the call waits for an approval
  5  the server failed
  6  invalid settings, contracts or policies
  7  no gateway is running
  130  cancelled with Ctrl-C

Run `mcpproxy help COMMAND` for the options and examples of a command.";

/// A gateway between AI agents and MCP servers. It checks, approves and records every tool call.
#[derive(Debug, Parser)]
#[command(name = "mcpproxy", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Data folder: settings, contracts, policies, keys and database [default: ~/.mcpproxy]
    #[arg(long, global = true, value_name = "DIR", env = "MCPPROXY_HOME", hide_env_values = true)]
    home: Option<PathBuf>,
    /// Output format
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// One row for each command. Its help text is the doc comment of the type it holds.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Stdio(stdio::Stdio),
    Connect(connect::Connect),
    #[command(subcommand)]
    Call(call::CallCommand),
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    #[command(subcommand)]
    Servers(servers::ServersCommand),
    Import(import::Import),
    Lock(lock::LockArgs),
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(subcommand)]
    Users(users::UsersCommand),
    #[command(subcommand)]
    Activity(activity::ActivityCommand),
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    #[command(subcommand)]
    Contract(contract::ContractCommand),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Backup(backup::Backup),
    Restore(restore::RestoreArgs),
    Migrate(migrate::Migrate),
    Status(status::Status),
    Doctor(doctor::Doctor),
    Open(open::Open),
    Completions(completions::Completions),
    Man(man::Man),
    DemoServer(demo_server::DemoServer),
}

/// Runs the command that the arguments name, or `serve` if they name none.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let home = Home::resolve(cli.global.home)?;
    let folder = home.clone();
    output::rewrite_commands(move |text| with_home(text, &folder));
    let command = cli.command.unwrap_or(Command::Serve(serve::Serve::default()));
    run_command(&home, cli.global.output, command).await.map_err(|mut error| {
        if let Some(failure) = error.downcast_mut::<Failure>() {
            failure.change_hint(|hint| with_home(hint, &home));
        }
        error
    })
}

/// Adds the `--home` of these arguments to every command in a hint about them.
pub(crate) fn with_given_home(hint: &str, args: &[String]) -> String {
    let given = names::given_home(args.iter().map(OsString::from)).and_then(|folder| Home::resolve(Some(folder)).ok());
    match given.filter(|_| !hint.contains("--home")) {
        Some(home) => with_home(hint, &home),
        None => hint.to_owned(),
    }
}

/// Adds `--home` to every command in a hint, if the data folder needs it. Hints are there to be copied, and most are
/// written where the data folder is not known.
fn with_home(hint: &str, home: &Home) -> String {
    if home.is_default() || !hint.contains("mcpproxy ") {
        return hint.to_owned();
    }
    let commands = Cli::command();
    let mut parts = hint.split("mcpproxy ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let word = rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default();
        match commands.find_subcommand(word) {
            // Within a word, it is the end of a path, such as the data folder in a complete command.
            Some(_) if text.ends_with(|c: char| c.is_whitespace() || "`'\"(".contains(c)) || text.is_empty() => {
                text.push_str(&home.command("mcpproxy", rest))
            }
            Some(_) | None => text.extend(["mcpproxy ", rest]),
        }
    }
    text
}

async fn run_command(home: &Home, format: Format, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(serve) => serve::run(home, &serve).await,
        Command::Stdio(_) => stdio::run(home).await,
        Command::Connect(connect) => connect::run(home, format, connect).await,
        Command::Call(command) => call::run(home, format, command).await,
        Command::Tools(command) => tools::run(home, format, command).await,
        Command::Servers(command) => servers::run(home, format, command).await,
        Command::Import(import) => import::run(home, format, import).await,
        Command::Lock(args) => lock::run(home, format, &args).await,
        Command::Token(command) => token::run(home, format, command).await,
        Command::Users(command) => users::run(home, format, command).await,
        Command::Activity(command) => activity::run(home, format, command).await,
        Command::Approvals(command) => approvals::run(home, format, command).await,
        Command::Contract(command) => contract::run(home, format, command).await,
        Command::Policy(command) => policy::run(home, format, command).await,
        Command::Backup(backup) => backup::run(home, format, &backup).await,
        Command::Restore(restore) => restore::run(home, format, &restore).await,
        Command::Migrate(migrate) => migrate::run(home, format, &migrate).await,
        Command::Status(_) => status::run(home, format).await,
        Command::Doctor(doctor) => doctor::run(home, format, &doctor).await,
        Command::Open(open) => open::run(home, format, &open).await,
        Command::Config(command) => config::run(home, format, &command).await,
        Command::Completions(completions) => completions::run(&completions),
        Command::Man(man) => man::run(format, &man),
        Command::DemoServer(server) => demo_server::run(&server).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::{Cli, Home, with_given_home, with_home};

    #[test]
    fn commands_in_hints_name_the_data_folder() {
        let (default, other) = (Home::resolve(None).unwrap(), Home::resolve(Some("/my data".into())).unwrap());
        let check = |hint: &str, expected: &str| {
            assert_eq!(with_home(hint, &default), hint);
            assert_eq!(with_home(hint, &other), expected);
        };
        check("start it: mcpproxy serve", "start it: mcpproxy --home '/my data' serve");
        check(
            "run `mcpproxy servers list`, then `mcpproxy config check --fix`",
            "run `mcpproxy --home '/my data' servers list`, then `mcpproxy --home '/my data' config check --fix`",
        );
        // These are complete, or no commands.
        for same in
            ["`mcpproxy --home /x serve`", "mcpproxy cannot edit it", "mcpproxy served it", "see `mcpproxy help`", ""]
        {
            check(same, same);
        }
        for folder in ["/var/lib/mcpproxy", "/tmp/.mcpproxy", "/tmp/my-mcpproxy"] {
            let given = Home::resolve(Some(folder.into())).unwrap();
            let complete = given.command("mcpproxy", "serve");
            assert_eq!(with_home(&complete, &given), complete);
        }
        let given =
            |hint: &str, args: &str| with_given_home(hint, &args.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(given("use `mcpproxy serve`", "--home /d start"), "use `mcpproxy --home /d serve`");
        assert_eq!(given("use `mcpproxy serve`", "start --home=/d"), "use `mcpproxy --home /d serve`");
        assert_eq!(given("use `mcpproxy serve`", "start"), "use `mcpproxy serve`");
        assert_eq!(given("use `mcpproxy serve --home /d`", "start --home /d"), "use `mcpproxy serve --home /d`");
    }

    /// A terminal of 80 columns shows every example on one line, and wraps paragraphs by itself.
    #[test]
    fn help_wraps_well_in_any_terminal() {
        let mut mistakes = Vec::new();
        check(&Cli::command(), &mut mistakes);
        assert_eq!(mistakes, Vec::<String>::new());
    }

    fn check(command: &Command, mistakes: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines: Vec<&str> = help.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let next = lines.get(index + 1).copied().unwrap_or_default();
            if line.starts_with(' ') && line.chars().count() > 80 {
                mistakes.push(format!("{}: longer than 80 columns: {line}", command.get_name()));
            }
            let is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            if is_prose && !next.is_empty() && !next.starts_with(' ') {
                mistakes.push(format!("{}: a line break inside a paragraph: {line}", command.get_name()));
            }
        }
        for subcommand in command.get_subcommands() {
            check(subcommand, mistakes);
        }
    }
}
