//! `servers history`: shows the versions of one definition, with who decided about each.

use clap::Args;
use http::Method;
use mcpproxy_core::ServerName;
use mcpproxy_core::trust::{DefinitionKey, DefinitionKind};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::client::Rest;
use crate::commands::names;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format, line, member};
use crate::terminal::time::{clock, now_ms};

/// Hexadecimal digits of a pin. They tell the versions of one definition apart.
const PIN_CHARS: usize = 8;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy servers history fx get_rate
  mcpproxy servers history fx prompt:summary
  mcpproxy servers history fx instructions:
  mcpproxy servers history fx get_rate -o json   With the text of each version")]
pub(crate) struct HistoryArgs {
    /// Name of the server
    #[arg(value_parser = names::parse_server, add = names::servers())]
    name: ServerName,
    /// Name of a tool, or `kind:name`. The kinds are tool, prompt, template and instructions
    definition: String,
}

pub(crate) async fn run(home: &Home, format: Format, args: &HistoryArgs) -> anyhow::Result<Exit> {
    let (kind, name) = parse(&args.definition);
    let mut query = Serializer::new(String::new());
    query.append_pair("kind", kind.as_str());
    if !name.is_empty() {
        query.append_pair("definition", name);
    }
    let query = query.finish();
    let path = format!("/api/v1/servers/{}/history?{query}", args.name);
    let history = Rest::connect(home)?.ask(Method::GET, &path).await?;
    let versions = history.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if versions.is_empty() {
        let key = DefinitionKey { kind, name: name.into() };
        let message = format!("Nobody has decided about {} of {}.", line(&key.to_string()), args.name);
        return Err(Failure::new(Exit::Failed, message)
            .hint(format!("list its tools with `mcpproxy tools list --server {0}`, or see what waits with `mcpproxy servers review {0}`", args.name))
            .into());
    }
    format.print(&history, || table(versions, now_ms()))?;
    Ok(Exit::Done)
}

/// A name without a kind is that of a tool.
fn parse(given: &str) -> (DefinitionKind, &str) {
    let with_kind = given.split_once(':').and_then(|(kind, name)| Some((DefinitionKind::parse(kind)?, name)));
    with_kind.unwrap_or((DefinitionKind::Tool, given))
}

fn table(versions: &[Value], now_ms: i64) -> String {
    let time = |version: &Value, name: &str| version.get(name).and_then(Value::as_i64).map(|time| clock(time, now_ms));
    let row = |version: &Value| {
        let by = member(version, "decided_by");
        let is_by_user = version.get("by_user").and_then(Value::as_bool) == Some(true);
        vec![
            member(version, "state"),
            time(version, "decided_ms").unwrap_or_default(),
            time(version, "until_ms").unwrap_or_else(|| "-".to_owned()),
            if is_by_user { by } else { format!("rule {by}") },
            member(version, "pin").chars().take(PIN_CHARS).collect(),
        ]
    };
    output::table(&["STATE", "DECIDED", "REPLACED", "BY", "PIN"], versions.iter().map(row))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_may_have_a_kind() {
        let check = |given: &str, expected: (DefinitionKind, &str)| assert_eq!(parse(given), expected, "{given}");
        check("get_rate", (DefinitionKind::Tool, "get_rate"));
        check("tool:get_rate", (DefinitionKind::Tool, "get_rate"));
        check("template:file:///{path}", (DefinitionKind::Template, "file:///{path}"));
        check("instructions:", (DefinitionKind::Instructions, ""));
        check("other:name", (DefinitionKind::Tool, "other:name"));
    }

    #[test]
    fn one_line_for_each_version() {
        let now_ms = now_ms();
        let version = |state: &str, by: &str, by_user: bool, until: Option<i64>| {
            json!({"state": state, "pin": "9f86d081884c7d65", "decided_ms": now_ms, "decided_by": by, "by_user": by_user,
                   "until_ms": until})
        };
        let versions = [version("accepted", "anna", true, None), version("former", "first_sight", false, Some(now_ms))];
        let time = clock(now_ms, now_ms);
        let expected = format!(
            "STATE     DECIDED  REPLACED  BY                PIN\n\
             accepted  {time}    -         anna              9f86d081\n\
             former    {time}    {time}     rule first_sight  9f86d081\n"
        );
        assert_eq!(table(&versions, now_ms), expected);
    }
}
