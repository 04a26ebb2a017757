//! `contract show`: shows the effective contract of a tool, with the source of each field.

use http::Method;
use mcpproxy_core::{ToolName, nearest};
use serde_json::Value;

use crate::client::Rest;
use crate::commands::tools::{HIDDEN, needs};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format, line, lines, member, tell};
use crate::terminal::size::columns;
use crate::terminal::wrap::hanging;

pub(super) async fn run(home: &Home, format: Format, name: &ToolName) -> anyhow::Result<()> {
    let rest = Rest::connect(home)?;
    let found = rest.ask(Method::GET, &format!("/api/v1/contracts/{}/{}", name.server(), name.tool())).await;
    let contract = match found {
        Ok(contract) => contract,
        Err(error) => return Err(unknown(&rest, name).await.map_or(error, Into::into)),
    };
    format.print(&contract, || told(&contract))?;
    if contract.get("change_waits") == Some(&Value::Bool(true)) {
        tell("note: a change of this contract waits. To confirm it:");
        tell(&format!("  {}", home.command("mcpproxy", "config apply")));
    }
    Ok(())
}

/// Returns a failure that suggests the nearest name, if the tool does not exist.
async fn unknown(rest: &Rest, name: &ToolName) -> Option<Failure> {
    let coverage = rest.ask(Method::GET, "/api/v1/contracts").await.ok()?;
    let tools = coverage.get("tools")?.as_array()?;
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool.get("name")?.as_str()).collect();
    let asked = name.to_string();
    if names.contains(&asked.as_str()) {
        return None;
    }
    let near = nearest(&asked, names.iter().copied())?;
    Some(
        Failure::new(Exit::Failed, format!("There is no tool `{name}`."))
            .hint(format!("did you mean `{}`?", line(near))),
    )
}

fn told(contract: &Value) -> String {
    let is = |name: &str| contract.get(name).and_then(Value::as_bool) == Some(true);
    let mut text = format!("{}\n\n", member(contract, "tool"));
    if is("hidden_from_agents") {
        text.push_str(&format!("Forbidden:  {HIDDEN}\n"));
    } else {
        text.push_str(&format!("Call with:  {}\n", member(contract, "call_with")));
        text.push_str(&format!("Needs:      {}\n", needs(contract)));
    }
    if !is("written") {
        let tool = member(contract, "tool");
        let server = tool.split(':').next().unwrap_or_default();
        text.push_str("Contract:   none (only the server's annotations apply)\n");
        text.push_str(&format!("            Draft one with `mcpproxy contract draft {server}`.\n"));
    }
    let digest = member(contract, "digest");
    // Enough to tell two versions apart. The whole digest is in `-o json` and in the records of calls.
    text.push_str(&format!("Digest:     {}\n", digest.get(..16).unwrap_or(&digest)));
    let fields = contract.get("fields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if fields.is_empty() {
        return text + &schemas(contract);
    }
    let rows = fields.iter().map(|field| {
        vec![member(field, "field"), value(field.get("value").unwrap_or(&Value::Null)), member(field, "source")]
    });
    text.push('\n');
    text + &output::table(&["FIELD", "VALUE", "SOURCE"], rows) + &schemas(contract)
}

/// Formats the schemas that arguments and results must match.
fn schemas(contract: &Value) -> String {
    let mut text = String::new();
    for (title, name) in [("Input schema", "input_schema"), ("Output schema", "output_schema")] {
        let Some(schema) = contract.get(name).filter(|schema| !schema.is_null()) else { continue };
        text.push_str(&format!("\n{title}\n"));
        for row in lines(&format!("{schema:#}")).lines() {
            text.push_str(&format!("  {}\n", fitted(row, columns())));
        }
    }
    text
}

/// Wraps a line of JSON below itself. Without a width, the JSON stays as it is, so that it can be copied.
fn fitted(row: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return row.to_owned() };
    let json = row.trim_start();
    let indent = row.len() - json.len();
    format!("{:indent$}{}", "", hanging(json, columns.saturating_sub(2), indent + 4).replace('\n', "\n  "))
}

/// Formats a value without JSON brackets and quotation marks where it is short.
fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) if values.iter().all(Value::is_string) => {
            let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let are_sentences = words.iter().all(|word| word.ends_with('.'));
            words.join(if are_sentences { " " } else { ", " })
        }
        Value::Object(members) if members.values().all(|member| !member.is_object()) => {
            let each = members.iter().map(|(name, member)| format!("{name}: {}", self::value(member)));
            each.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    };
    line(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_as_people_read_them() {
        let check = |json: Value, expected: &str| assert_eq!(value(&json), expected);
        check(json!("critical\u{1b}"), "critical\\u{1b}");
        check(json!(["a", "b\n"]), "a, b\\n");
        check(json!([]), "none");
        check(json!([1]), "[1]");
        check(json!(["One.", "Two."]), "One. Two.");
        check(
            json!({"mode": "natural", "keyFrom": ["a", "b"], "ttl": "24h"}),
            "mode: natural; keyFrom: a, b; ttl: 24h",
        );
        check(json!({"when": {"required": ["to"]}}), "{\"when\":{\"required\":[\"to\"]}}");
        check(json!(false), "false");
    }

    #[test]
    fn long_lines_of_a_schema() {
        let row = "    \"a\": \"one two three\"";
        assert_eq!(fitted(row, None), row);
        assert_eq!(fitted(row, Some(60)), row);
        assert_eq!(fitted(row, Some(24)), "    \"a\": \"one two\n          three\"");
    }

    #[test]
    fn forbidden_is_said_plainly() {
        let contract = json!({
            "tool": "fx:key", "hidden_from_agents": true, "written": true, "call_with": "call_tool_read",
            "risk_level": "forbidden", "needs": [], "digest": "12ab", "input_schema": {"type": "object"},
            "output_schema": null,
            "fields": [{"field": "riskLevel", "value": "forbidden", "source": "operator, contracts/a.yaml:2"}],
        });
        assert_eq!(
            told(&contract),
            "fx:key\n\nForbidden:  hidden from agents\nDigest:     12ab\n\n\
             FIELD      VALUE      SOURCE\nriskLevel  forbidden  operator, contracts/a.yaml:2\n\n\
             Input schema\n  {\n    \"type\": \"object\"\n  }\n"
        );
    }
}
