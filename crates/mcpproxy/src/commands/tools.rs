//! `tools`: what the running gateway offers.

use clap::Subcommand;
use http::Method;
use mcpproxy_core::ToolName;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::output::{self, Format, line, lines, member, shorten};

const DESCRIPTION_MAX_CHARS: usize = 80;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List all tools
    #[command(after_help = "\
Examples:
  mcpproxy tools list
  mcpproxy tools list --server github -o json")]
    List {
        /// Only the tools of this server
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
    },
    /// Find tools by what they do
    #[command(after_help = "\
Examples:
  mcpproxy tools search \"create an issue\"
  mcpproxy tools search calendar --limit 3")]
    Search {
        query: String,
        /// At most so many tools
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=50))]
        limit: u32,
        /// Only the tools of this server
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
    },
    /// Show one tool with its schema
    #[command(after_help = "\
Examples:
  mcpproxy tools show github:create_issue")]
    Show {
        /// `server:tool`
        #[arg(value_parser = ToolName::parse)]
        name: ToolName,
    },
}

pub(crate) async fn run(home: &Home, format: Format, command: ToolsCommand) -> anyhow::Result<Exit> {
    let rest = Rest::connect(home)?;
    match command {
        ToolsCommand::List { server } => {
            let answer = rest.ask(Method::GET, &path("/api/v1/tools", &[("server", server)])).await?;
            format.print(&answer, || list(&answer, "no tools yet; see `mcpproxy servers list`\n"))?;
        }
        ToolsCommand::Search { query, limit, server } => {
            let pairs = [("q", Some(query)), ("limit", Some(limit.to_string())), ("server", server)];
            let answer = rest.ask(Method::GET, &path("/api/v1/tools/search", &pairs)).await?;
            format.print(&answer, || list(&answer, "no tool fits; try other words, or `mcpproxy tools list`\n"))?;
        }
        ToolsCommand::Show { name } => {
            let path = format!("/api/v1/tools/{}/{}", name.server(), name.tool());
            let tool = rest.ask(Method::GET, &path).await?;
            format.print(&tool, || show(&tool))?;
        }
    }
    Ok(Exit::Done)
}

/// A path with the query parameters that are there.
fn path(path: &str, pairs: &[(&str, Option<String>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("{path}?{}", query.finish())
}

fn list(answer: &Value, none: &str) -> String {
    let tools = answer.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if tools.is_empty() {
        return none.to_owned();
    }
    let rows = tools.iter().map(|tool| {
        let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = shorten(&line(description.lines().next().unwrap_or_default()), DESCRIPTION_MAX_CHARS);
        vec![member(tool, "name"), member(tool, "call_with"), description]
    });
    output::table(&["TOOL", "CALL WITH", "DESCRIPTION"], rows)
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
    format!(
        "{name}\n\n{}\n\nCall with:    {call_with}\nAnnotations:  {}\n\nArguments:\n{}\n\nTry:\n  mcpproxy call {command} {name} --args '{{…}}'\n",
        lines(description),
        member(tool, "annotations"),
        pretty("inputSchema"),
    )
}
