//! The effective contract for readers: as a contract is written, and with who said what.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Confirmation, DryRun, Effective, Idempotency, OutputSchema, RateLimit, Sensitive, Source, StepUp};
use crate::Untrusted;
use crate::schema::Schema;

impl Effective {
    /// As a contract is written, with every field that has a value.
    pub fn to_json(&self) -> Value {
        self.fields().into_iter().map(|(name, value, _)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
    }

    /// Each field that has a value, with that value and who said so.
    pub fn sources(&self) -> Vec<(&'static str, Value, String)> {
        self.fields().into_iter().map(|(name, value, source)| (name, value, source.to_string())).collect()
    }

    pub(crate) fn fields(&self) -> Vec<Field<'_>> {
        // Taken apart in full, so that no field can be forgotten here.
        let Self {
            description,
            category,
            risk,
            operation,
            autonomous,
            confirmation,
            step_up,
            input_schema,
            output_schema,
            permissions,
            side_effects,
            audit_event,
            failure_modes,
            idempotency,
            dry_run,
            rate_limit,
            sensitive,
            is_written: _,
            is_operators: _,
            written_operation: _,
        } = self;
        [
            description.as_ref().and_then(|it| some("description", it.value.for_json().into(), &it.source)),
            category.as_ref().and_then(|it| some("category", it.value.as_str().into(), &it.source)),
            risk.as_ref().and_then(|it| some("riskLevel", it.value.as_str().into(), &it.source)),
            operation.as_ref().and_then(|it| some("operation", it.value.operation().into(), &it.source)),
            unless_default("autonomousExecution", autonomous.value.into(), &autonomous.source),
            unless_default("confirmation", confirmation_word(confirmation.value).into(), &confirmation.source),
            unless_default("stepUpAuth", step_up_json(&step_up.value), &step_up.source),
            input_schema.as_ref().and_then(|it| some("inputSchema", schema_json(&it.value), &it.source)),
            output_schema.as_ref().and_then(|it| some("outputSchema", output_json(&it.value), &it.source)),
            unless_default("permissions", permissions.value.clone().into(), &permissions.source),
            unless_default("sideEffects", texts(&side_effects.value), &side_effects.source),
            audit_event.as_ref().and_then(|it| some("auditEvent", it.value.as_str().into(), &it.source)),
            failure_modes.as_ref().and_then(|it| some("failureModes", it.value.clone().into(), &it.source)),
            unless_default("idempotency", idempotency_json(&idempotency.value), &idempotency.source),
            unless_default("dryRun", dry_run_json(&dry_run.value), &dry_run.source),
            rate_limit.as_ref().and_then(|it| some("rateLimit", rate_json(it.value), &it.source)),
            unless_default("sensitive", pointers(&sensitive.value), &sensitive.source),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) type Field<'a> = (&'static str, Value, &'a Source);

#[expect(clippy::unnecessary_wraps, reason = "one of a list in which others may be missing")]
fn some<'a>(name: &'static str, value: Value, source: &'a Source) -> Option<Field<'a>> {
    Some((name, value, source))
}

fn unless_default<'a>(name: &'static str, value: Value, source: &'a Source) -> Option<Field<'a>> {
    (*source != Source::Default).then_some((name, value, source))
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operator { file, line: 0 } => write!(f, "operator, {}", Untrusted::new(file.as_ref()).for_terminal()),
            Self::Operator { file, line } => {
                write!(f, "operator, {}:{line}", Untrusted::new(file.as_ref()).for_terminal())
            }
            Self::Server => f.write_str("server's contract"),
            Self::Hints => f.write_str("server's annotations"),
            Self::Level => f.write_str("risk level"),
            Self::Default => f.write_str("default"),
        }
    }
}

pub(crate) fn confirmation_word(confirmation: Confirmation) -> &'static str {
    match confirmation {
        Confirmation::None => "none",
        Confirmation::Required => "required",
    }
}

pub(super) fn texts(texts: &[Untrusted]) -> Value {
    texts.iter().map(Untrusted::for_json).collect::<Vec<_>>().into()
}

pub(super) fn pointers(places: &[Sensitive]) -> Value {
    places.iter().map(|place| place.text.as_str()).collect::<Vec<_>>().into()
}

pub(super) fn rate_json(limit: RateLimit) -> Value {
    json!({"calls": limit.calls, "per": span(limit.per)})
}

/// `strict` stands in the schema itself, as it does where it is written.
fn output_json(output: &OutputSchema) -> Value {
    let mut schema = schema_json(&output.schema);
    if let (true, Some(fields)) = (output.is_strict, schema.as_object_mut()) {
        fields.insert("strict".to_owned(), true.into());
    }
    schema
}

fn step_up_json(step_up: &StepUp) -> Value {
    match step_up {
        StepUp::Never => false.into(),
        StepUp::When(schema) => json!({"when": schema_json(schema)}),
        StepUp::Always => true.into(),
    }
}

pub(super) fn idempotency_json(idempotency: &Idempotency) -> Value {
    match idempotency {
        Idempotency::None => json!({"mode": "none"}),
        Idempotency::Natural { key_from, ttl } => json!({"mode": "natural", "keyFrom": key_from, "ttl": span(*ttl)}),
        Idempotency::Key { ttl } => json!({"mode": "key", "ttl": span(*ttl)}),
    }
}

pub(super) fn dry_run_json(dry_run: &DryRun) -> Value {
    let of_mode = |mode: &str, parameter: &Option<String>| match parameter {
        Some(parameter) => json!({"mode": mode, "parameter": parameter}),
        None => json!({"mode": mode}),
    };
    match dry_run {
        DryRun::None => of_mode("none", &None),
        DryRun::Supported { parameter } => of_mode("supported", parameter),
        DryRun::Required { parameter } => of_mode("required", parameter),
    }
}

/// A schema was read when it was taken in, so its text is JSON.
fn schema_json(schema: &Schema) -> Value {
    serde_json::from_str(schema.text()).unwrap_or(Value::Bool(true))
}

/// A span as people write it: in the largest unit that divides it.
fn span(span: Duration) -> String {
    let ms = span.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        // A day is written as 24 hours: that is how limits and settings are written everywhere else.
        Some((unit, "d")) if ms == unit => "24h".to_owned(),
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Hints;
    use crate::contract::{Contract, Written};
    use crate::{Pointer, RiskLevel, Variant};

    fn written<T>(value: T, line: usize) -> Option<Written<T>> {
        Some(Written { value, line, column: 1 })
    }

    fn schema(text: &str) -> Arc<Schema> {
        Arc::new(Schema::parse(text).unwrap())
    }

    fn full() -> Contract {
        Contract {
            file: Some("contracts/mail.yaml".into()),
            description: written(Untrusted::new("Sends \u{202E}mail."), 2),
            category: written("communication".to_owned(), 3),
            risk: written(RiskLevel::Critical, 4),
            operation: written(Variant::Destructive, 5),
            autonomous: written(false, 6),
            confirmation: written(Confirmation::Required, 7),
            step_up: written(StepUp::When(schema("{\"required\":[\"to\"]}")), 8),
            input_schema: written(schema("{\"type\":\"object\"}"), 9),
            output_schema: written(OutputSchema { schema: schema("{\"type\":\"object\"}"), is_strict: true }, 10),
            permissions: written(vec!["emails:send".to_owned()], 11),
            side_effects: written(vec![Untrusted::new("An email is sent.")], 12),
            audit_event: written("email.sent".to_owned(), 13),
            failure_modes: written(vec!["invalid_recipient".to_owned()], 14),
            idempotency: written(Idempotency::Key { ttl: Duration::from_secs(86_400) }, 15),
            dry_run: written(DryRun::Required { parameter: Some("dryRun".to_owned()) }, 16),
            rate_limit: written(RateLimit { calls: 30, per: Duration::from_secs(60) }, 17),
            sensitive: written(vec![Sensitive { text: "/to".to_owned(), pointer: Pointer::parse("/to").unwrap() }], 18),
        }
    }

    #[test]
    fn every_field_as_it_is_written() {
        let effective = Effective::of(&[&Arc::new(full())], None, Hints::default());
        let expected = json!({
            "description": "Sends \u{202E}mail.",
            "category": "communication",
            "riskLevel": "critical",
            "operation": "destructive",
            "autonomousExecution": false,
            "confirmation": "required",
            "stepUpAuth": {"when": {"required": ["to"]}},
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "strict": true},
            "permissions": ["emails:send"],
            "sideEffects": ["An email is sent."],
            "auditEvent": "email.sent",
            "failureModes": ["invalid_recipient"],
            "idempotency": {"mode": "key", "ttl": "24h"},
            "dryRun": {"mode": "required", "parameter": "dryRun"},
            "rateLimit": {"calls": 30, "per": "1m"},
            "sensitive": ["/to"],
        });
        assert_eq!(effective.to_json(), expected);
        let lines: Vec<String> = effective.sources().into_iter().map(|(_, _, source)| source).collect();
        let expected: Vec<String> = (2..=18).map(|line| format!("operator, contracts/mail.yaml:{line}")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn every_source_has_words() {
        let hints = Hints { read_only: Some(false), destructive: None };
        let server = Contract { risk: written(RiskLevel::Low, 0), ..Contract::default() };
        let operator =
            Contract { file: Some("c/\u{1b}.yaml".into()), category: written("x".to_owned(), 3), ..server.clone() };
        let operator = Arc::new(Contract { risk: None, ..operator });
        let told = |effective: &Effective| -> Vec<String> {
            let sources = effective.sources().into_iter();
            sources.map(|(name, value, source)| format!("{name} {value} {source}")).collect()
        };
        assert_eq!(
            told(&Effective::of(&[&operator], Some(&server), hints)),
            [
                "category \"x\" operator, c/\\u{1b}.yaml:3",
                "riskLevel \"low\" server's contract",
                "operation \"write\" server's annotations",
                "autonomousExecution true risk level",
                "confirmation \"none\" risk level",
                "stepUpAuth false risk level",
            ]
        );
        assert!(told(&Effective::of(&[], None, Hints::default())).is_empty());
        assert_eq!(Source::Default.to_string(), "default");
    }

    #[test]
    fn spans_as_people_write_them() {
        let check = |ms: u64, expected: &str| assert_eq!(span(Duration::from_millis(ms)), expected);
        check(500, "500ms");
        check(1_500, "1500ms");
        check(90_000, "90s");
        check(60_000, "1m");
        check(86_400_000, "24h");
        check(172_800_000, "2d");
        check(0, "0ms");
    }
}
