//! The effective contract as JSON, as the sources of its fields, and as a hash.

use serde_json::{Map, Value};

use super::{Effective, Source};
use crate::json::canonical;
use crate::{Digest, Untrusted, Variant};

impl Effective {
    /// Every field that has a value, in the form of a contract file.
    pub fn to_json(&self) -> Value {
        self.fields().into_iter().map(|(key, value, _)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
    }

    /// Every field that has a value, with that value and its source.
    pub fn sources(&self) -> Vec<(&'static str, Value, String)> {
        self.fields().into_iter().map(|(key, value, source)| (key, value, source.to_string())).collect()
    }

    /// Hash of every field that affects a decision or is shown to an approver. Source locations are excluded.
    pub fn digest(&self) -> Digest {
        let mut all = self.digest_fields();
        // The authors of these fields affect decisions, too.
        all.insert("classified".to_owned(), self.is_classified().into());
        all.insert("operators".to_owned(), self.is_operators_operation().into());
        all.insert("nativeDryRun".to_owned(), self.native_dry_run().into());
        all.insert("written".to_owned(), self.written_operation.map(Variant::operation).into());
        Digest::of(canonical(&Value::Object(all).to_string()).as_bytes())
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operator { file, line, is_draft } => {
                let who = if *is_draft { "draft, not reviewed" } else { "operator" };
                write!(f, "{who}, {}", Untrusted::new(file.as_ref()).for_terminal())?;
                if *line > 0 { write!(f, ":{line}") } else { Ok(()) }
            }
            Self::Server => f.write_str("server's contract"),
            Self::Hints => f.write_str("server's annotations"),
            Self::Level => f.write_str("risk level"),
            Self::Default => f.write_str("default"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::contract::{
        Confirmation, Contract, DryRun, Idempotency, OutputSchema, RateLimit, Sensitive, StepUp, Written,
    };
    use crate::schema::Schema;
    use crate::{Hints, Pointer, RiskLevel};

    fn written<T>(value: T, line: usize) -> Option<Written<T>> {
        Some(Written { value, line, column: 1 })
    }

    fn schema(text: &str) -> Arc<Schema> {
        Arc::new(Schema::parse(text).unwrap())
    }

    fn full() -> Contract {
        Contract {
            file: Some("contracts/mail.yaml".into()),
            is_draft: false,
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
            version: written("3".to_owned(), 19),
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
            "version": "3",
        });
        assert_eq!(effective.to_json(), expected);
        let lines: Vec<String> = effective.sources().into_iter().map(|(_, _, source)| source).collect();
        let expected: Vec<String> = (2..=19).map(|line| format!("operator, contracts/mail.yaml:{line}")).collect();
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
        let draft = Source::Operator { file: "contracts/fx.yaml".into(), line: 3, is_draft: true };
        assert_eq!(draft.to_string(), "draft, not reviewed, contracts/fx.yaml:3");
    }
}
