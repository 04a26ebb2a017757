//! `policy`: what would become of a call and why, and the table of all decisions.

use clap::{Subcommand, ValueEnum};
use mcpproxy_core::policy::{rows, table};
use mcpproxy_core::{ToolName, Variant};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::read_args;
use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::output::{Format, line, member};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what would happen to a call, check by check; nothing is sent
    #[command(after_help = "\
Examples:
  mcpproxy policy explain github:delete_repo --variant read
  mcpproxy policy explain github:create_issue --variant write --args '{\"title\": \"Bug\"}' --agent cursor

Ends with 0 if the call would be allowed and with 3 if it would be refused.")]
    Explain {
        /// `server:tool`
        #[arg(value_parser = ToolName::parse)]
        name: ToolName,
        /// Which `call_tool_*` the agent would use
        #[arg(long, value_enum)]
        variant: VariantName,
        /// The arguments: a JSON object, @FILE, or - for standard input
        #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
        args: Option<String>,
        /// What the agent would declare as `intent.operation_type`
        #[arg(long, value_enum, value_name = "OPERATION")]
        declared: Option<VariantName>,
        /// Whose token would be used [default: one that covers everything]
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Print every decision on variant, intent, annotations and settings
    #[command(after_help = "\
Examples:
  mcpproxy policy table | grep '^read .* deny'
  mcpproxy policy table -o json")]
    Table,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum VariantName {
    Read,
    Write,
    Destructive,
}

impl From<VariantName> for Variant {
    fn from(name: VariantName) -> Self {
        match name {
            VariantName::Read => Self::Read,
            VariantName::Write => Self::Write,
            VariantName::Destructive => Self::Destructive,
        }
    }
}

pub(crate) async fn run(home: &Home, format: Format, command: PolicyCommand) -> anyhow::Result<Exit> {
    match command {
        PolicyCommand::Table => {
            format.print(&table_json(), table)?;
            Ok(Exit::Done)
        }
        PolicyCommand::Explain { name, variant, args, declared, agent } => {
            let args = args.as_deref().map(read_args).transpose()?;
            let intent = declared.map(|declared| json!({ "operation_type": Variant::from(declared).operation() }));
            let parameters = Parameters { name: name.to_string(), args: args.as_deref(), intent };
            let variant = Variant::from(variant);
            let asked = Asked { variant: variant.operation(), agent: agent.as_deref(), parameters };
            let answer = Rest::connect(home)?.post("/api/v1/policy/explain", serde_json::to_string(&asked)?).await?;
            format.print(&answer, || told(&answer, &name, variant))?;
            let is_allowed = answer.get("decision").and_then(Value::as_str) == Some("allow");
            Ok(if is_allowed { Exit::Done } else { Exit::Refused })
        }
    }
}

#[derive(Serialize)]
struct Asked<'a> {
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
}

fn told(answer: &Value, name: &ToolName, variant: Variant) -> String {
    let is_allowed = member(answer, "decision") == "allow";
    let outcome = if is_allowed { "would be allowed" } else { "would be refused" };
    let mut text = format!("{name} with {} {outcome}\n\n", variant.tool());
    let checks = answer.get("checks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for check in checks {
        let (sign, word) = match member(check, "verdict").as_str() {
            "passed" => ("✓", "passed"),
            "warned" => ("!", "warned"),
            "failed" => ("✗", "failed"),
            _ => ("·", "not reached"),
        };
        let why = check.get("why").and_then(Value::as_str).unwrap_or_default();
        text.push_str(format!("{sign} {:<24} {word:<12} {}", member(check, "check"), line(why)).trim_end());
        text.push('\n');
    }
    if is_allowed && answer.get("intent_verified").and_then(Value::as_bool) == Some(false) {
        text.push_str("\nThe server's annotations do not bear the variant out; the record will say so.\n");
    }
    let call_with = answer.get("call_with").and_then(Value::as_str).and_then(Variant::from_tool);
    if let (false, Some(right)) = (is_allowed, call_with.filter(|right| *right != variant)) {
        text.push_str(&format!("\nThis one asks for {}: mcpproxy call tool-{right} {name}\n", right.tool()));
    }
    text
}

fn table_json() -> Value {
    let rows = rows().into_iter().map(|row| {
        json!({
            "variant": row.variant.operation(),
            "declared": row.declared,
            "readOnlyHint": row.read_only,
            "destructiveHint": row.destructive,
            "strict_server_validation": row.rules.strict_server_validation,
            "two_key": row.rules.two_key.as_str(),
            "unannotated": row.rules.unannotated.as_str(),
            "outcome": row.outcome,
        })
    });
    json!({ "decisions": rows.collect::<Vec<_>>() })
}
