//! Reads what an agent declares with a call: the variant, and the parameters of `call_tool_*`.

mod mistakes;
mod written;

use std::borrow::Cow;

use crate::denial::{Denial, FieldHint, IDEMPOTENCY_KEY_MAX_CHARS, REASON_MAX_CHARS};
use crate::json::{self, Members, canonical, members, string_value};
use crate::nearest::nearest;
use crate::settings::TwoKey;
use crate::{ApprovalId, Attached, Digest, ToolName, Untrusted, Variant};

pub use mistakes::{Understood, understand};
pub use written::WrittenIntent;

/// Maximum number of characters of an invalid value that an answer quotes.
const QUOTE_MAX_CHARS: usize = 64;

/// A call as the agent declared it. Its parameters are checked, but not yet against any tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Declared {
    pub name: ToolName,
    pub intent: Intent,
    pub arguments: Arguments,
    /// The members beside the arguments. They are no parameters of `call_tool_*`, so the code that received the call
    /// sets them.
    pub attached: Attached,
    pub mode: Mode,
    /// The agent's idempotency key, which identifies a repeat.
    pub idempotency_key: Option<String>,
    /// The id of the approval that the call is retried with.
    pub approval: Option<ApprovalId>,
    /// JSON pointers of arguments whose values the activity log masked. Only a replay has any. The schemas cannot judge
    /// such a value, so a problem there refuses nothing.
    pub masked: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Real,
    /// All checks run, and nothing is sent that changes data.
    DryRun,
}

/// The agent's declaration of what the call does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub variant: Variant,
    /// True if the agent named the operation itself. Otherwise, the variant stands for it.
    pub is_declared: bool,
    pub sensitivity: Option<Sensitivity>,
    pub reason: Option<Untrusted>,
}

/// Arguments for a server's tool: the exact bytes of a JSON object, as the agent wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensitivity {
    Public,
    Internal,
    Private,
    Unknown,
}

const FIELDS: [&str; 10] = [
    "name",
    "args_json",
    "args",
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
    "intent",
    "dry_run",
    "idempotency_key",
    "approval_id",
];
const INTENT_FIELDS: [&str; 3] = ["operation_type", "data_sensitivity", "reason"];
/// The flat and the nested name of each field of the intent, and the most characters that a record keeps of it.
const FIELDS_OF_INTENT: [(&str, &str, usize); 3] = [
    ("intent_operation_type", "operation_type", QUOTE_MAX_CHARS),
    ("intent_data_sensitivity", "data_sensitivity", QUOTE_MAX_CHARS),
    ("intent_reason", "reason", REASON_MAX_CHARS),
];

/// Reads the parameters of one of the three variants. `parameters` has passed the strict reader.
pub fn declare(variant: Variant, parameters: &str, two_key: TwoKey) -> Result<Declared, Denial> {
    declare_members(variant, members(parameters).as_ref(), two_key)
}

/// Does the same for parameters that were split already. `None` stands for parameters that are no object.
pub fn declare_members(variant: Variant, fields: Option<&Members<'_>>, two_key: TwoKey) -> Result<Declared, Denial> {
    let fields = fields.ok_or(Denial::BadField { field: "arguments", expected: "an object" })?;
    mistakes::agree(fields)?;
    known_fields(fields, &FIELDS, FieldsOf::Call)?;
    let name = match field(fields, "name") {
        None => return Err(Denial::BadField { field: "name", expected: "given, as \"server:tool\"" }),
        Some(text) => string_value(text).ok_or(Denial::BadField { field: "name", expected: "a string" })?,
    };
    let name = ToolName::parse(&name).map_err(Denial::InvalidToolName)?;
    let arguments = Arguments::of(fields)?;
    let spoken = Spoken::of(fields)?;
    let declared = spoken.operation.as_deref().map(operation).transpose()?;
    let sensitivity = spoken.sensitivity.as_deref().map(Sensitivity::parse).transpose()?;
    if spoken.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_MAX_CHARS) {
        return Err(Denial::ReasonTooLong);
    }
    second_key(variant, declared, spoken.is_given, two_key)?;
    let (is_declared, reason) = (declared.is_some(), spoken.reason.map(Untrusted::new));
    let intent = Intent { variant, is_declared, sensitivity, reason };
    let mode = Mode::of(fields)?;
    let idempotency_key = field(fields, "idempotency_key").map(idempotency_key).transpose()?;
    let approval = field(fields, "approval_id").map(approval_id).transpose()?;
    let (attached, masked) = (Attached::default(), Vec::new());
    Ok(Declared { name, intent, arguments, attached, mode, idempotency_key, approval, masked })
}

impl Declared {
    /// Makes a call without optional parameters.
    pub fn plain(name: ToolName, intent: Intent, arguments: Arguments) -> Self {
        let (attached, masked) = (Attached::default(), Vec::new());
        Self { name, intent, arguments, attached, mode: Mode::Real, idempotency_key: None, approval: None, masked }
    }
}

impl Mode {
    fn of(fields: &Members<'_>) -> Result<Self, Denial> {
        match field(fields, "dry_run") {
            None | Some("false") => Ok(Self::Real),
            Some("true") => Ok(Self::DryRun),
            Some(_) => Err(Denial::BadField { field: "dry_run", expected: "true or false" }),
        }
    }
}

fn idempotency_key(text: &str) -> Result<String, Denial> {
    let key = string_value(text).ok_or(Denial::BadField { field: "idempotency_key", expected: "a string" })?;
    if is_idempotency_key(&key) { Ok(key.into_owned()) } else { Err(Denial::InvalidIdempotencyKey) }
}

pub(crate) fn is_idempotency_key(key: &str) -> bool {
    (1..=IDEMPOTENCY_KEY_MAX_CHARS).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads an approval id. A malformed id gets the same answer as an id that does not exist.
fn approval_id(text: &str) -> Result<ApprovalId, Denial> {
    let id = string_value(text).ok_or(Denial::BadField { field: "approval_id", expected: "a string" })?;
    ApprovalId::parse(&id).ok_or(Denial::NoSuchApproval)
}

/// The fields of the intent, merged from the flat and the nested form.
struct Spoken {
    is_given: bool,
    operation: Option<String>,
    sensitivity: Option<String>,
    reason: Option<String>,
}

impl Spoken {
    fn of(fields: &Members<'_>) -> Result<Self, Denial> {
        let nested = match field(fields, "intent") {
            None => None,
            Some(text) => {
                Some(members(text).ok_or_else(|| Denial::InvalidIntent("intent must be an object".to_owned()))?)
            }
        };
        if let Some(nested) = &nested {
            known_fields(nested, &INTENT_FIELDS, FieldsOf::Intent)?;
        }
        let word = |flat: &'static str, name: &'static str| {
            let outer = field(fields, flat).map(|text| word(text, flat)).transpose()?;
            let inner = nested.as_ref().and_then(|nested| field(nested, name));
            let inner = inner.map(|text| word(text, &format!("intent.{name}"))).transpose()?;
            match (outer, inner) {
                (Some(outer), Some(inner)) if outer != inner => {
                    Err(Denial::InvalidIntent(format!("{name} given twice with different values")))
                }
                (outer, inner) => Ok(outer.or(inner)),
            }
        };
        Ok(Self {
            is_given: nested.is_some() || field(fields, "intent_operation_type").is_some(),
            operation: word("intent_operation_type", "operation_type")?,
            sensitivity: word("intent_data_sensitivity", "data_sensitivity")?,
            reason: word("intent_reason", "reason")?,
        })
    }
}

fn operation(word: &str) -> Result<Variant, Denial> {
    Variant::from_operation(word)
        .ok_or_else(|| Denial::InvalidOperationType(Untrusted::shortened(word, QUOTE_MAX_CHARS)))
}

/// Checks the second key: the operation type of the intent must be that of the variant.
pub(crate) fn second_key(
    variant: Variant,
    declared: Option<Variant>,
    is_given: bool,
    two_key: TwoKey,
) -> Result<(), Denial> {
    match (declared, two_key) {
        (Some(declared), _) if declared != variant => Err(Denial::IntentMismatch { variant, declared }),
        (Some(_), _) | (None, TwoKey::Optional) => Ok(()),
        (None, TwoKey::Required) if is_given => Err(Denial::MissingOperationType),
        (None, TwoKey::Required) => Err(Denial::MissingIntent(variant)),
    }
}

impl Arguments {
    /// Takes the text of a JSON object, such as the `arguments` of a direct call after the strict reader.
    pub fn exact(text: &str) -> Result<Self, Denial> {
        if text.starts_with('{') {
            Ok(Self(text.to_owned()))
        } else {
            Err(Denial::InvalidArgs("arguments must be a JSON object".to_owned()))
        }
    }

    pub fn none() -> Self {
        Self("{}".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a hash that is equal for texts with the same meaning.
    pub fn digest(&self) -> Digest {
        Digest::of(canonical(&self.0).as_bytes())
    }

    fn of(fields: &Members<'_>) -> Result<Self, Denial> {
        match (field(fields, "args"), field(fields, "args_json")) {
            (Some(_), Some(_)) => Err(Denial::InvalidArgs("args and args_json are mutually exclusive".to_owned())),
            (Some(args), None) if args.starts_with('"') => {
                Err(Denial::InvalidArgs("args must be a JSON object; send JSON text as args_json".to_owned()))
            }
            (Some(args), None) => Self::exact(args),
            (None, Some(text)) => {
                let text = string_value(text)
                    .ok_or_else(|| Denial::InvalidArgs("args_json must be a string of JSON".to_owned()))?;
                let read = json::read(text.as_bytes()).map_err(|error| {
                    Denial::InvalidArgs(format!("args_json: {} at {}:{}", error.kind, error.line, error.column))
                })?;
                match text {
                    // The common case: unescaping has made a text of its own, which may be megabytes.
                    Cow::Owned(text) if text.starts_with('{') && text.ends_with('}') => Ok(Self(text)),
                    Cow::Owned(_) | Cow::Borrowed(_) => Self::exact(read.trim()),
                }
            }
            (None, None) => Ok(Self::none()),
        }
    }
}

impl Sensitivity {
    pub const ALL: [Self; 4] = [Self::Public, Self::Internal, Self::Private, Self::Unknown];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Private => "private",
            Self::Unknown => "unknown",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }

    fn parse(word: &str) -> Result<Self, Denial> {
        Self::from_word(word).ok_or_else(|| Denial::InvalidSensitivity(Untrusted::shortened(word, QUOTE_MAX_CHARS)))
    }
}

fn field<'a>(fields: &Members<'a>, wanted: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value)
}

fn word(text: &str, name: &str) -> Result<String, Denial> {
    let word = string_value(text).ok_or_else(|| Denial::InvalidIntent(format!("{name} must be a string")))?;
    Ok(word.into_owned())
}

/// The object that an unknown field was found in.
#[derive(Clone, Copy)]
enum FieldsOf {
    Call,
    Intent,
}

fn known_fields(fields: &Members<'_>, known: &'static [&'static str], of: FieldsOf) -> Result<(), Denial> {
    let Some((key, _)) = fields.iter().find(|(key, _)| !known.contains(&key.as_ref())) else { return Ok(()) };
    // Inside `intent`, models repeat the prefix of the flat form: `intent.intent_reason`.
    let short = key.strip_prefix("intent_").and_then(|short| known.iter().copied().find(|known| *known == short));
    let hint = match (short.or_else(|| nearest(key, known.iter().copied())), of) {
        (Some(near), _) => FieldHint::Nearest(near),
        (None, FieldsOf::Intent) => FieldHint::Unknown,
        // A model that knows the tool's schema tends to put the tool's arguments beside `name`.
        (None, FieldsOf::Call) => mistakes::shape(fields, known).map_or(FieldHint::IntoArgs, FieldHint::Shape),
    };
    Err(Denial::UnknownField { field: Untrusted::shortened(key, QUOTE_MAX_CHARS), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variant: Variant, two_key: TwoKey, parameters: &str, expected: &str) {
        let found = match declare(variant, parameters, two_key) {
            Ok(declared) => format!("{} {}", declared.name, declared.arguments.as_str()),
            Err(denial) => format!("{}: {}", denial.code(), denial.message()),
        };
        assert_eq!(found, expected, "{parameters}");
    }

    #[test]
    fn the_second_key() {
        use TwoKey::{Optional, Required};
        let read = Variant::Read;
        let mismatch = "INTENT_MISMATCH: Intent mismatch: tool is call_tool_read but intent declares write";
        let invalid =
            "INVALID_OPERATION_TYPE: Invalid intent.operation_type 'delete': must be read, write, or destructive";
        for two_key in [Optional, Required] {
            check(read, two_key, r#"{"name":"fx:t","intent":{"operation_type":"read"}}"#, "fx:t {}");
            check(read, two_key, r#"{"name":"fx:t","intent_operation_type":"read"}"#, "fx:t {}");
            check(read, two_key, r#"{"name":"fx:t","intent":{"operation_type":"write"}}"#, mismatch);
            check(read, two_key, r#"{"name":"fx:t","intent_operation_type":"write"}"#, mismatch);
            check(read, two_key, r#"{"name":"fx:t","intent":{"operation_type":"delete"}}"#, invalid);
        }
        check(read, Optional, r#"{"name":"fx:t"}"#, "fx:t {}");
        check(read, Optional, r#"{"name":"fx:t","intent":{}}"#, "fx:t {}");
        check(read, Required, r#"{"name":"fx:t"}"#, "MISSING_INTENT: intent parameter is required for call_tool_read");
        check(
            read,
            Required,
            r#"{"name":"fx:t","intent":{}}"#,
            "MISSING_OPERATION_TYPE: intent.operation_type is required",
        );
    }

    #[test]
    fn the_prefix_of_the_flat_form_is_no_riddle() {
        let check = |field: &str, expected: &str| {
            let parameters = format!(r#"{{"name":"fx:t","intent":{{"{field}":"x"}}}}"#);
            let denial = declare(Variant::Read, &parameters, TwoKey::Optional).unwrap_err();
            assert_eq!(denial.message(), format!("unknown field \"{field}\"; did you mean \"{expected}\"?"));
        };
        check("intent_reason", "reason");
        check("intent_operation_type", "operation_type");
        check("intent_data_sensitivity", "data_sensitivity");
    }

    #[test]
    fn fields_are_never_ignored() {
        let check = |parameters: &str, expected: &str| check(Variant::Write, TwoKey::Optional, parameters, expected);
        check(
            r#"{"name":"fx:t","args":{"n":1.0,"big":18446744073709551616}}"#,
            r#"fx:t {"n":1.0,"big":18446744073709551616}"#,
        );
        check(r#"{"name":"fx:t","args_json":"{\"a\": [1]}"}"#, r#"fx:t {"a": [1]}"#);
        check(
            r#"{"name":"fx:t","args":{},"args_json":"{}"}"#,
            "invalid_args: Invalid arguments: args and args_json are mutually exclusive",
        );
        check(
            r#"{"name":"fx:t","args":"{}"}"#,
            "invalid_args: Invalid arguments: args must be a JSON object; send JSON text as args_json",
        );
        check(
            r#"{"name":"fx:t","args_json":"not json"}"#,
            "invalid_args: Invalid arguments: args_json: expected a value at 1:2",
        );
        check(
            r#"{"name":"fx:t","args_json":"[1,2]"}"#,
            "invalid_args: Invalid arguments: arguments must be a JSON object",
        );
        check(
            r#"{"name":"fx:t","args_json":"{} {}"}"#,
            "invalid_args: Invalid arguments: args_json: trailing characters at 1:4",
        );
        check(
            r#"{"name":"fx:t","args_json":"{\"a\":\"\\ud800\"}"}"#,
            "invalid_args: Invalid arguments: args_json: lone surrogate at 1:13",
        );
        check(r#"{"name":"t"}"#, "invalid_tool_name: Invalid tool name: expected server:tool");
        check(r#"{"args":{}}"#, "invalid_field: name must be given, as \"server:tool\"");
        check(
            r#"{"name":"fx:t","args_json":"{}","approved":true}"#,
            "unknown_field: unknown field \"approved\"; remove it or put it into args",
        );
        check(r#"{"name":"fx:t","intent":{"operation":"read"}}"#, "unknown_field: unknown field \"operation\"");
        check(r#"{"name":"fx:t","arg":{}}"#, "unknown_field: unknown field \"arg\"; did you mean \"args\"?");
        check(r#"{"name":"fx:t","intent":"read"}"#, "invalid_intent: Invalid intent: intent must be an object");
        check(r#"{"name":"fx:t","intent_reason":7}"#, "invalid_intent: Invalid intent: intent_reason must be a string");
        check(
            r#"{"name":"fx:t","intent_reason":"a","intent":{"operation_type":"write","reason":"b"}}"#,
            "invalid_intent: Invalid intent: reason given twice with different values",
        );
        check(
            r#"{"name":"fx:t","intent_data_sensitivity":"Private"}"#,
            "INVALID_SENSITIVITY: Invalid intent.data_sensitivity 'Private': must be public, internal, private, or unknown",
        );
    }

    #[test]
    fn a_reason_is_measured_in_characters() {
        let reason = |text: String| format!(r#"{{"name":"fx:t","intent_reason":"{text}"}}"#);
        check(Variant::Read, TwoKey::Optional, &reason("é".repeat(1000)), "fx:t {}");
        let too_long = "REASON_TOO_LONG: intent.reason exceeds maximum length of 1000 characters";
        check(Variant::Read, TwoKey::Optional, &reason("a".repeat(1001)), too_long);
    }
}
