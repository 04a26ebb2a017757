//! `tools`: lists, searches and shows the tools of the running gateway, and scans the definitions of tools.

mod scan;
mod search;

use std::path::PathBuf;

use clap::Subcommand;
use http::Method;
use mcpproxy_core::{RiskLevel, ServerName, ToolName};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::client::{Rest, absence, state};
use crate::commands::names;
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::listing::{Cell, listing};
use crate::terminal::output::{self, Format, line, lines, member, shorten};
use crate::terminal::size::prose_columns;
use crate::terminal::style::Tone;
use crate::terminal::wrap::{hanging, width};

const DESCRIPTION_MAX_CHARS: usize = 80;
/// Width of `Annotations:  `.
const ANNOTATIONS_INDENT: usize = 14;
/// Shown to operators for a forbidden tool.
pub(crate) const HIDDEN: &str = "hidden from agents";

/// List, search, show and scan tools
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy tools search \"create an issue\"
  mcpproxy tools show github:create_issue
  mcpproxy tools scan github")]
pub(crate) enum ToolsCommand {
    /// List all tools, including forbidden ones that agents cannot see
    #[command(after_help = "\
Examples:
  mcpproxy tools list
  mcpproxy tools list --server github -o json")]
    List {
        /// Only tools of this server
        #[arg(long, value_name = "NAME", add = names::servers())]
        server: Option<String>,
    },
    /// Search tools by what they do, as agents do
    #[command(after_help = "\
Scores range from 0 to 1 and are comparable between queries. If no tool scores high enough, the \
command prints the reason instead of a list.

Examples:
  mcpproxy tools search \"create an issue\"
  mcpproxy tools search calendar --limit 3
  mcpproxy tools search \"remove a user\" --explain")]
    Search {
        /// Task of the tool, in a few words
        query: String,
        /// Maximum number of tools
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=50))]
        limit: u32,
        /// Only tools of this server
        #[arg(long, value_name = "NAME", add = names::servers())]
        server: Option<String>,
        /// Show why each tool has its score and where each word was found
        #[arg(long)]
        explain: bool,
    },
    /// Show a tool with its description and schema
    #[command(after_help = "\
Examples:
  mcpproxy tools show github:create_issue")]
    Show {
        /// Name of the tool, as `server:tool`
        #[arg(value_parser = ToolName::parse, add = names::tools())]
        name: ToolName,
    },
    /// Look for attacks on the model in the definitions of tools
    #[command(after_help = "\
Examples:
  mcpproxy tools scan                            Scan the tools of all servers
  mcpproxy tools scan github                     Scan the tools of one server
  mcpproxy tools scan --file tools.json -o json  For CI: scan a list of tools

Without --file, the command scans the tools that each server listed last. It needs no gateway. FILE is a \
JSON array of tools, the result of `tools/list`, or one tool per line. The exit code is 1 with a finding of \
high severity.")]
    Scan {
        /// Name of the server, as in the settings [default: all servers]
        #[arg(value_parser = names::parse_server, add = names::servers(), conflicts_with = "file")]
        server: Option<ServerName>,
        /// File with the tools to scan
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

pub(crate) async fn run(home: &Home, format: Format, command: ToolsCommand) -> anyhow::Result<Exit> {
    match command {
        ToolsCommand::Scan { server, file } => {
            return scan::run(home, format, server.as_ref(), file.as_deref());
        }
        ToolsCommand::List { server } => {
            let rest = Rest::connect(home)?;
            let answer = rest.ask(Method::GET, &path("/api/v1/tools", &[("server", server.clone())])).await?;
            let unseen = Unseen::of(home, &rest, server.as_deref()).await;
            format.print(&answer, || list(&answer, &unseen))?;
            unseen.tell_below(&answer);
            state::warn(home, &rest).await;
        }
        ToolsCommand::Search { query, limit, server, explain } => {
            let rest = Rest::connect(home)?;
            let explain = explain.then(|| "true".to_owned());
            let pairs = [
                ("q", Some(query)),
                ("limit", Some(limit.to_string())),
                ("server", server.clone()),
                ("explain", explain),
            ];
            let answer = rest.ask(Method::GET, &path("/api/v1/tools/search", &pairs)).await?;
            let unseen = Unseen::of(home, &rest, server.as_deref()).await;
            format.print(&answer, || search::found(&answer, &unseen.all()))?;
            unseen.tell_below(&answer);
        }
        ToolsCommand::Show { name } => {
            let path = format!("/api/v1/tools/{}/{}", name.server(), name.tool());
            let tool = match Rest::connect(home)?.ask(Method::GET, &path).await {
                Ok(tool) => tool,
                Err(error) => {
                    return Err(absence::failure(home, &name, Exit::Failed).await.map_or(error, Into::into));
                }
            };
            format.print(&tool, || show(&tool))?;
        }
    }
    Ok(Exit::Done)
}

/// Returns a path with the query parameters that have a value.
fn path(path: &str, pairs: &[(&str, Option<String>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("{path}?{}", query.finish())
}

/// Servers with tools that no list has, each in a line with the command that helps. Only users see these lines.
#[derive(Default)]
struct Unseen {
    /// Servers whose definitions wait for a review.
    waiting: String,
    /// Disabled servers.
    disabled: String,
}

impl Unseen {
    /// Finds such servers among all, or for the one that the user named.
    async fn of(home: &Home, rest: &Rest, server: Option<&str>) -> Self {
        // The answer itself is printed. Servers that cannot be read are no reason to fail.
        let servers = rest.ask(Method::GET, "/api/v1/servers").await.unwrap_or_default();
        let mut unseen = Self::default();
        for one in members(&servers, "servers") {
            let name = member(one, "name");
            if server.is_some_and(|asked| asked != name) {
                continue;
            }
            unseen.waiting.extend(state::waiting(home, one).map(|text| text + "\n"));
            if member(one, "state") == "disabled" {
                let command = home.command("mcpproxy", &format!("servers enable {name}"));
                unseen.disabled.push_str(&format!("{name} is disabled. To enable it: {command}\n"));
            }
        }
        unseen
    }

    fn all(&self) -> String {
        format!("{}{}", self.waiting, self.disabled)
    }

    /// Tells below a list with tools what the list does not have. A list without tools has these lines itself. A
    /// disabled server was disabled on purpose, so nobody is reminded of it.
    fn tell_below(&self, answer: &Value) {
        if !members(answer, "tools").is_empty() && !self.waiting.is_empty() {
            output::tell(&self.waiting);
        }
    }
}

fn list(answer: &Value, unseen: &Unseen) -> String {
    let tools = members(answer, "tools");
    if tools.is_empty() && !unseen.waiting.is_empty() {
        return format!("No tool is accepted yet.\n{}", unseen.all());
    }
    if tools.is_empty() && !unseen.disabled.is_empty() {
        return format!("No tools.\n{}", unseen.disabled);
    }
    if tools.is_empty() {
        return "No tools yet. See the state of the servers with `mcpproxy servers list`.\n".to_owned();
    }
    listing(&["TOOL", "CALL WITH", "RISK", "NEEDS", "DESCRIPTION"], tools.iter().map(row).collect())
}

fn row(tool: &Value) -> Vec<Cell> {
    let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = shorten(&line(description.lines().next().unwrap_or_default()), DESCRIPTION_MAX_CHARS);
    let (call_with, needs) = match is_hidden(tool) {
        true => (HIDDEN.to_owned(), "-".to_owned()),
        false => (member(tool, "call_with"), needs(tool)),
    };
    let risk = match tool.get("risk_level").and_then(Value::as_str).and_then(RiskLevel::parse) {
        Some(RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden) => Tone::Bad,
        Some(RiskLevel::Low | RiskLevel::Medium) => Tone::Plain,
        None => Tone::Warning,
    };
    let risk = Cell::new(member(tool, "risk_level"), risk);
    vec![member(tool, "name").into(), call_with.into(), risk, needs.into(), description.into()]
}

fn members<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns whether the tool is forbidden. Only operators see such tools.
pub(crate) fn is_hidden(tool: &Value) -> bool {
    tool.get("risk_level").and_then(Value::as_str) == Some(RiskLevel::Forbidden.as_str())
}

/// Lists the requirements of a call, or a dash for none.
pub(crate) fn needs(tool: &Value) -> String {
    let words: Vec<String> =
        members(tool, "needs").iter().filter_map(Value::as_str).map(|need| line(need).replace('_', " ")).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

fn show(tool: &Value) -> String {
    let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
    let pretty = |name: &str| {
        let value = tool.get(name).unwrap_or(&Value::Null);
        lines(&serde_json::to_string_pretty(value).unwrap_or_default())
    };
    let name = member(tool, "name");
    let call_with = member(tool, "call_with");
    let command = call_with.strip_prefix("call_").unwrap_or_default().replace('_', "-");
    let risk = member(tool, "risk_level");
    let (call, next) = if is_hidden(tool) {
        (format!("Risk:         {risk}, {HIDDEN}"), format!("Why:\n  mcpproxy contract show {name}\n"))
    } else {
        (
            format!("Call with:    {call_with}\nRisk:         {risk}\nNeeds:        {}", needs(tool)),
            format!("Try:\n{}", example(&format!("mcpproxy call {command} {name}"), "--args '{…}'", prose_columns())),
        )
    };
    format!(
        "{name}\n\n{}\n\n{call}\nAnnotations:  {}\n\nArguments:\n{}\n\n{next}",
        lines(description),
        hanging(&annotations(tool), prose_columns(), ANNOTATIONS_INDENT),
        pretty("inputSchema"),
    )
}

/// Formats a command. If it is too wide for the terminal, the shell's own line break keeps it copyable.
fn example(command: &str, option: &str, columns: usize) -> String {
    let whole = format!("  {command} {option}");
    if width(&whole) <= columns { format!("{whole}\n") } else { format!("  {command} \\\n    {option}\n") }
}

/// Lists the annotations of a tool, such as `readOnlyHint: true`.
fn annotations(tool: &Value) -> String {
    let members = tool.get("annotations").and_then(Value::as_object).into_iter().flatten();
    let words: Vec<String> = members
        .map(|(name, value)| {
            format!("{}: {}", line(name), value.as_str().map_or_else(|| line(&value.to_string()), line))
        })
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
