//! `policy explain`: shows the decision on a call, check by check and policy by policy.

use clap::Args;
use http::Method;
use mcpproxy_core::{ToolName, Variant};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::Rest;
use crate::commands::args::VariantArg;
use crate::commands::call::{Sensitivity, read_args};
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, lines, member};
use crate::terminal::size;
use crate::terminal::wrap::{width, wrap};

/// Indentation of words that do not fit behind their head.
const BELOW: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the tool, as `server:tool`
    #[arg(value_parser = ToolName::parse, add = crate::commands::names::tools())]
    name: ToolName,
    /// Variant of `call_tool_*` that the agent uses
    #[arg(long, value_enum)]
    variant: VariantArg,
    /// Arguments of the tool: a JSON object, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    args: Option<String>,
    /// Value of `intent.operation_type`
    #[arg(long, value_enum, value_name = "OPERATION")]
    declared: Option<VariantArg>,
    /// Value of `intent.data_sensitivity`
    #[arg(long, value_enum, value_name = "LEVEL")]
    sensitivity: Option<Sensitivity>,
    /// Value of `intent.reason`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Agent that makes the call [default: an agent with all permissions]
    #[arg(long, value_name = "NAME", add = crate::commands::names::agents())]
    agent: Option<String>,
}

pub(super) async fn run(home: &Home, format: Format, explain: Explain) -> anyhow::Result<Exit> {
    let Explain { name, variant, args, declared, sensitivity, reason, agent } = explain;
    let args = args.as_deref().map(read_args).transpose()?;
    let intent = declared.map(|declared| json!({ "operation_type": Variant::from(declared).operation() }));
    let parameters = Parameters {
        name: name.to_string(),
        args: args.as_deref(),
        intent,
        intent_data_sensitivity: sensitivity,
        intent_reason: reason.as_deref(),
    };
    let variant = Variant::from(variant);
    let request = ExplainRequest { variant: variant.operation(), agent: agent.as_deref(), parameters };
    let rest = Rest::connect(home)?;
    let answer = rest.post("/api/v1/policy/explain", serde_json::to_string(&request)?).await?;
    let room = size::columns();
    let mut text = told(&answer, &name, variant, room);
    if answer.pointer("/error/code").and_then(Value::as_str) == Some("tool_not_found") && is_hidden(&rest, &name).await
    {
        let show = home.command("mcpproxy", &format!("contract show {name}"));
        text.push_str(&remark(
            &format!("The tool is forbidden, so agents cannot see it. See its contract with `{show}`."),
            room,
        ));
    }
    format.print(&answer, || text)?;
    let is_allowed = answer.get("decision").and_then(Value::as_str) == Some("allow");
    Ok(if is_allowed { Exit::Done } else { Exit::Refused })
}

/// Returns whether the tool exists but is forbidden, which only operators may know.
async fn is_hidden(rest: &Rest, name: &ToolName) -> bool {
    let contract = rest.ask(Method::GET, &format!("/api/v1/contracts/{}/{}", name.server(), name.tool())).await;
    contract.is_ok_and(|contract| contract.get("hidden_from_agents").and_then(Value::as_bool) == Some(true))
}

#[derive(Serialize)]
/// The body of the REST request.
struct ExplainRequest<'a> {
    variant: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    parameters: Parameters<'a>,
}

#[derive(Serialize)]
struct Parameters<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent_data_sensitivity: Option<Sensitivity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent_reason: Option<&'a str>,
}

/// Words the answer. `room` is the width of the terminal, or `None` if lines may have any length.
fn told(answer: &Value, name: &ToolName, variant: Variant, room: Option<usize>) -> String {
    let is_allowed = member(answer, "decision") == "allow";
    let outcome = if is_allowed { "would be allowed" } else { "would be refused" };
    let mut text = format!("{}\n\n", wrapped(&format!("{name} with {} {outcome}", variant.tool()), room));
    for check in list(answer, "checks") {
        let (sign, word) = match member(check, "verdict").as_str() {
            "passed" => ("✓", "passed"),
            "warned" => ("!", "warned"),
            "failed" => ("✗", "failed"),
            _ => ("·", "not reached"),
        };
        let why = check.get("why").and_then(Value::as_str).unwrap_or_default();
        text.push_str(&row(&format!("{sign} {:<25} {word:<12}", member(check, "check")), why, room));
    }
    text.push_str(&policies(list(answer, "rules"), room));
    if is_allowed && answer.get("intent_verified").and_then(Value::as_bool) == Some(false) {
        text.push_str(&remark(
            "The server's annotations do not confirm the variant. The record of the call says so.",
            room,
        ));
    }
    let call_with = answer.get("call_with").and_then(Value::as_str).and_then(Variant::from_tool);
    if let (false, Some(right)) = (is_allowed, call_with.filter(|right| *right != variant)) {
        let needs = format!("This tool needs {}. Use `mcpproxy call tool-{right} {name}`.", right.tool());
        text.push_str(&remark(&needs, room));
    }
    text
}

/// Puts words behind a head of fixed width, or below it if they do not fit. Line breaks in the words stay.
fn row(head: &str, words: &str, room: Option<usize>) -> String {
    let words = lines(words);
    let whole = format!("{head} {words}");
    let fits = !words.contains('\n') && room.is_none_or(|room| width(whole.trim_end()) <= room);
    if fits {
        return format!("{}\n", whole.trim_end());
    }
    let indent = format!("\n{:BELOW$}", "");
    let below = words.lines().flat_map(|line| match room {
        Some(room) => wrap(line, room.saturating_sub(BELOW)),
        None => vec![line.to_owned()],
    });
    let below: Vec<String> = below.collect();
    format!("{}{indent}{}\n", head.trim_end(), below.join(&indent))
}

/// A paragraph of its own.
fn remark(text: &str, room: Option<usize>) -> String {
    format!("\n{}\n", wrapped(text, room))
}

fn wrapped(text: &str, room: Option<usize>) -> String {
    room.map_or_else(|| text.to_owned(), |room| wrap(text, room).join("\n"))
}

/// Lists policies that forbid the call first, so that they stand out among the others.
fn policies(policies: &[Value], room: Option<usize>) -> String {
    if policies.is_empty() {
        return String::new();
    }
    let (deciding, others): (Vec<&Value>, Vec<&Value>) =
        policies.iter().partition(|policy| matches!(member(policy, "outcome").as_str(), "forbids" | "failed"));
    let longest = policies.iter().map(|policy| member(policy, "rule").chars().count()).max().unwrap_or_default();
    let mut text = "\nPolicies:\n".to_owned();
    for policy in deciding.into_iter().chain(others) {
        let (sign, words) = match member(policy, "outcome").as_str() {
            "forbids" => ("✗", "forbids the call".to_owned()),
            "failed" => {
                let reason = policy.get("reason").and_then(Value::as_str).unwrap_or_default();
                ("✗", format!("cannot be evaluated, so it forbids the call: {reason}"))
            }
            "not_met" => ("·", "conditions not met".to_owned()),
            "other_agent" => ("·", "applies to another agent".to_owned()),
            "other_variant" => ("·", "applies to another variant".to_owned()),
            other => ("·", other.to_owned()),
        };
        let place = format!("{}:{}", member(policy, "file"), member(policy, "line"));
        let name = member(policy, "rule");
        let place = if place == name { String::new() } else { format!(" ({place})") };
        text.push_str(&row(&format!("{sign} {name:<longest$} "), &format!("{words}{place}"), room));
    }
    text
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_that_decide_come_first() {
        let policy = |name: &str, outcome: &str, line: u32| {
            json!({"rule": name, "file": "policies/a.cedar", "line": line, "message": null, "outcome": outcome,
                   "reason": "overflow\u{1b}"})
        };
        let all = [
            policy("night", "not_met", 1),
            policy("policies/a.cedar:5", "other_agent", 5),
            policy("weekend", "forbids", 9),
            policy("sums", "failed", 12),
            policy("writes", "other_variant", 15),
        ];
        assert_eq!(
            policies(&all, None),
            "\nPolicies:\n\
             ✗ weekend             forbids the call (policies/a.cedar:9)\n\
             ✗ sums                cannot be evaluated, so it forbids the call: overflow\\u{1b} (policies/a.cedar:12)\n\
             · night               conditions not met (policies/a.cedar:1)\n\
             · policies/a.cedar:5  applies to another agent\n\
             · writes              applies to another variant (policies/a.cedar:15)\n"
        );
        assert_eq!(
            policies(&all, Some(60)),
            "\nPolicies:\n\
             ✗ weekend             forbids the call (policies/a.cedar:9)\n\
             ✗ sums\n    cannot be evaluated, so it forbids the call:\n    overflow\\u{1b} (policies/a.cedar:12)\n\
             · night\n    conditions not met (policies/a.cedar:1)\n\
             · policies/a.cedar:5  applies to another agent\n\
             · writes\n    applies to another variant (policies/a.cedar:15)\n"
        );
        assert_eq!(policies(&[], None), "");
    }

    #[test]
    fn reasons_keep_their_lines_and_fit_the_terminal() {
        let why = "The arguments do not match the schema of the tool:\n/to: not a string\u{1b}\n/amount: missing";
        let answer = json!({"decision": "deny", "checks": [
            {"check": "arguments", "verdict": "failed", "why": why},
            {"check": "rate limit", "verdict": "not_reached"},
        ]});
        let name = ToolName::parse("fx:pay").unwrap();
        let expected = "\
            fx:pay with call_tool_write would be refused\n\n\
            ✗ arguments                 failed\n    \
            The arguments do not match the schema of the tool:\n    \
            /to: not a string\\u{1b}\n    \
            /amount: missing\n\
            · rate limit                not reached\n";
        assert_eq!(told(&answer, &name, Variant::Write, Some(60)), expected);
        assert_eq!(told(&answer, &name, Variant::Write, None), expected);
        let narrow = told(&answer, &name, Variant::Write, Some(40));
        assert!(narrow.lines().all(|line| width(line) <= 40), "{narrow}");
    }
}
