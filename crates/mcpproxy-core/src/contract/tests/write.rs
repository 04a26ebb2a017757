//! Writes contracts as JSON and YAML in the plainest form, so that tests can read them back.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::contract::{Confirmation, Contract, DryRun, Idempotency, StepUp, Written};
use crate::schema::Schema;
use crate::{Untrusted, Variant};

pub(super) fn to_json(contract: &Contract) -> Value {
    let fields = [
        ("description", field(&contract.description, |text| json!(text.for_json()))),
        ("category", field(&contract.category, |word| json!(word))),
        ("riskLevel", field(&contract.risk, |risk| json!(risk.as_str()))),
        ("operation", field(&contract.operation, |operation: &Variant| json!(operation.operation()))),
        ("autonomousExecution", field(&contract.autonomous, |alone| json!(alone))),
        (
            "confirmation",
            field(&contract.confirmation, |confirmation| match confirmation {
                Confirmation::None => json!("none"),
                Confirmation::When(condition) => json!({ "when": schema(condition) }),
                Confirmation::Required => json!("required"),
            }),
        ),
        (
            "stepUpAuth",
            field(&contract.step_up, |step_up| match step_up {
                StepUp::Never => json!({ "when": false }),
                StepUp::Always => json!(true),
                StepUp::When(condition) => json!({ "when": schema(condition) }),
            }),
        ),
        ("inputSchema", field(&contract.input_schema, |input| schema(input))),
        (
            "outputSchema",
            field(&contract.output_schema, |output| {
                let mut json = schema(&output.schema);
                if output.is_strict {
                    json["strict"] = json!(true);
                }
                json
            }),
        ),
        ("permissions", field(&contract.permissions, |words| json!(words))),
        ("sideEffects", field(&contract.side_effects, |texts| texts.iter().map(Untrusted::for_json).collect())),
        ("auditEvent", field(&contract.audit_event, |word| json!(word))),
        ("failureModes", field(&contract.failure_modes, |words| json!(words))),
        (
            "idempotency",
            field(&contract.idempotency, |idempotency| match idempotency {
                Idempotency::None => json!("none"),
                Idempotency::Key { ttl } => json!({ "mode": "key", "ttl": duration(*ttl) }),
                Idempotency::Natural { key_from, ttl, valid_until: None } => {
                    json!({ "mode": "natural", "keyFrom": key_from, "ttl": duration(*ttl) })
                }
                Idempotency::Natural { key_from, ttl, valid_until } => {
                    json!({ "mode": "natural", "keyFrom": key_from, "ttl": duration(*ttl), "validUntil": valid_until })
                }
            }),
        ),
        (
            "dryRun",
            field(&contract.dry_run, |dry_run| match dry_run {
                DryRun::None => json!({ "mode": "none" }),
                DryRun::Supported { parameter: None } => json!("supported"),
                DryRun::Supported { parameter } => json!({ "mode": "supported", "parameter": parameter }),
                DryRun::Required { parameter: None } => json!({ "mode": "required" }),
                DryRun::Required { parameter } => json!({ "parameter": parameter, "mode": "required" }),
            }),
        ),
        ("rateLimit", field(&contract.rate_limit, |limit| json!({ "calls": limit.calls, "per": duration(limit.per) }))),
        ("sensitive", field(&contract.sensitive, |all| all.iter().map(|sensitive| sensitive.text.as_str()).collect())),
        ("version", field(&contract.version, |word| json!(word))),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn field<T>(written: &Option<Written<T>>, write: impl FnOnce(&T) -> Value) -> Option<Value> {
    written.as_ref().map(|written| write(&written.value))
}

fn schema(schema: &Schema) -> Value {
    serde_json::from_str(schema.text()).unwrap()
}

fn duration(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis % 3_600_000 == 0 => format!("{}h", millis / 3_600_000),
        millis if millis % 1000 == 0 => format!("{} s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}

/// Escapes JSON so that it is YAML, too. YAML allows fewer unescaped characters.
pub(super) fn escaped(json: &str) -> String {
    let needs_escape =
        |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}');
    json.chars().fold(String::new(), |mut out, c| {
        if needs_escape(c) {
            let _infallible = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    })
}

/// Writes block style at every level. The bits of `style` choose quotes.
pub(super) fn to_yaml(value: &Value, style: u64) -> String {
    let mut yaml = Yaml { out: String::new(), style };
    yaml.block(value, 0);
    yaml.out
}

struct Yaml {
    out: String,
    style: u64,
}

impl Yaml {
    fn block(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    let name = self.scalar(name);
                    let _infallible = write!(self.out, "\n{}{name}:", " ".repeat(indent));
                    self.block(value, indent + 2);
                }
            }
            Value::Array(values) if !values.is_empty() => {
                for value in values {
                    let _infallible = write!(self.out, "\n{}-", " ".repeat(indent));
                    self.block(value, indent + 2);
                }
            }
            Value::String(text) => {
                let text = self.scalar(text);
                let _infallible = write!(self.out, " {text}  # {indent}");
            }
            other => {
                let _infallible = write!(self.out, " {other}");
            }
        }
    }

    fn scalar(&mut self, text: &str) -> String {
        self.style = self.style.rotate_right(1);
        let is_quoted = self.style & 1 == 0;
        let is_word = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'/');
        let is_plain = text.bytes().next().is_some_and(is_word)
            && !text.ends_with([':', ' '])
            && text.bytes().all(|b| is_word(b) || b.is_ascii_digit() || matches!(b, b'.' | b':' | b'-' | b' '))
            && !text.contains(": ")
            && !matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null");
        let is_printable = !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~'));
        match (is_plain, is_printable) {
            (true, _) if !is_quoted => text.to_owned(),
            (_, true) if !is_quoted => format!("'{}'", text.replace('\'', "''")),
            _ => escaped(&Value::from(text).to_string()),
        }
    }
}
