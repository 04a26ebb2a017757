//! Reads a call from its record, as far as the record tells it.

use std::borrow::Cow;

use serde_json::Value;

use super::Rules;
use crate::catalog::Catalog;
use crate::decision::Ruling;
use crate::denial::Denial;
use crate::error_code::ErrorCode;
use crate::intent::{Arguments, Declared, Intent, Mode, Sensitivity, declare, second_key};
use crate::json::{Members, members, string_value};
use crate::time::Clock;
use crate::{Agent, ServerName, ToolName, Untrusted, Variant, below};

/// The mark of a masked value.
const MASK: &str = "***";
/// Masked places of one call that are named, at most. The rest of the arguments then counts as masked too.
const PLACES_MAX: usize = 16;
/// The code of a call to a forbidden tool, which agents never see.
const FORBIDDEN_ATTEMPT: &str = "forbidden_attempt";

/// A call as the activity log has it.
#[derive(Clone, Copy, Debug)]
pub struct LoggedCall<'a> {
    /// The id of the record.
    pub id: &'a str,
    /// The time of the record.
    pub clock: Clock,
    pub agent: &'a Agent,
    /// True if the agent had no token.
    pub is_anonymous: bool,
    pub server: Option<&'a str>,
    pub tool: Option<&'a str>,
    pub variant: Option<Variant>,
    /// True for a refused call. Its arguments are the parameters of `call_tool_*`, except for a direct call.
    pub is_refusal: bool,
    /// True if the call was made and did not succeed.
    pub has_failed: bool,
    pub code: Option<&'a str>,
    /// A JSON object.
    pub metadata: &'a str,
    pub arguments: LoggedArguments<'a>,
}

/// The arguments of a recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedArguments<'a> {
    /// Stored as a whole, with secrets masked.
    Stored(&'a str),
    /// Too long for the log, or erased when their time was over.
    Lost,
}

/// A record that does not tell a whole call.
pub(super) struct Unreadable;

/// The parts of a record that both sides of a replay share.
pub(super) struct Read<'a> {
    pub(super) name: ToolName,
    variant: Variant,
    metadata: Members<'a>,
    body: Body<'a>,
}

enum Body<'a> {
    /// The arguments of the tool.
    Arguments(&'a str),
    /// The parameters of a `call_tool_*`.
    Parameters(&'a str),
    Lost,
}

impl<'a> Read<'a> {
    /// Returns `None` for a call that the store of idempotency keys answered or refused.
    pub(super) fn of(call: &LoggedCall<'a>) -> Result<Option<Self>, Unreadable> {
        let server = call.server.and_then(|server| ServerName::parse(server).ok()).ok_or(Unreadable)?;
        let name = call.tool.and_then(|tool| ToolName::of(&server, tool).ok()).ok_or(Unreadable)?;
        let metadata = members(call.metadata).ok_or(Unreadable)?;
        let refused = call.code.filter(|_| call.is_refusal);
        if field(&metadata, "replayed_from").is_some() || refused.is_some_and(is_about_earlier_call) {
            return Ok(None);
        }
        let has_parameters = call.is_refusal && !is_direct(&metadata);
        let body = match call.arguments {
            LoggedArguments::Lost => Body::Lost,
            LoggedArguments::Stored(text) if has_parameters && is_named(text, call) => Body::Parameters(text),
            LoggedArguments::Stored(text) => Body::Arguments(text),
        };
        // The type of a refused call is what the agent declared, which may differ from the variant it used.
        let used = field(&metadata, "tool_variant").and_then(string_value).and_then(|tool| Variant::from_tool(&tool));
        // A direct call of a tool that nobody could see has no variant.
        let direct = is_direct(&metadata).then_some(Variant::Write);
        let variant = used.or(call.variant).or(direct).ok_or(Unreadable)?;
        Ok(Some(Self { name, variant, metadata, body }))
    }

    pub(super) fn lacks_arguments(&self) -> bool {
        matches!(self.body, Body::Lost)
    }

    /// Returns true for a call at `/mcp/s/NAME` or `/mcp/direct`.
    pub(super) fn is_direct(&self) -> bool {
        is_direct(&self.metadata)
    }

    /// Returns true if a user approved exactly this call. A standing approval does not count.
    pub(super) fn is_approved(&self) -> bool {
        field(&self.metadata, "approval_id").is_some()
    }

    /// Returns true for a dry run that a user made in the agent's name. It proves nothing for the agent's calls.
    pub(super) fn is_by_user(&self) -> bool {
        field(&self.metadata, "user").is_some()
    }

    /// Returns the outcome of a call that no rules can accept, because its parameters are malformed. The parameters of
    /// `call_tool_*` are read again instead, but those of a direct call are not in the log.
    pub(super) fn malformed(&self, call: &LoggedCall<'_>) -> Option<Ruling> {
        let is_read_again = matches!(self.body, Body::Parameters(_));
        let code = call.code.filter(|_| call.is_refusal && !is_read_again).and_then(ErrorCode::parse)?;
        is_malformed(code).then(|| Ruling::of_code(code.as_str()))
    }

    /// Returns the call as the agent declared it. A refused call is read again, so other settings may accept it.
    pub(super) fn declare(&self, call: &LoggedCall<'_>, rules: &Rules) -> Result<Declared, Denial> {
        let variant = self.variant_by(&rules.catalog);
        if let Body::Parameters(text) = self.body {
            let mut declared = declare(variant, text, rules.settings.intent.two_key)?;
            declared.masked = masked_places(declared.arguments.as_str());
            return Ok(declared);
        }
        self.check_second_key(call, variant, rules)?;
        let arguments = match self.body {
            Body::Arguments(text) => Arguments::exact(text)?,
            Body::Parameters(_) | Body::Lost => Arguments::none(),
        };
        let mut declared = Declared::plain(self.name.clone(), self.intent(variant), arguments);
        declared.masked = match self.body {
            Body::Lost => vec![String::new()],
            Body::Arguments(_) | Body::Parameters(_) => masked_places(declared.arguments.as_str()),
        };
        if field(&self.metadata, "dry_run").is_some() || call.code == Some("dry_run") {
            declared.mode = Mode::DryRun;
        }
        declared.idempotency_key =
            self.text("idempotency_key").and_then(|key| key.strip_prefix("key:").map(str::to_owned));
        Ok(declared)
    }

    /// Returns the variant that the agent used. For a direct call, the contract of the tool chooses it.
    fn variant_by(&self, catalog: &Catalog) -> Variant {
        let chosen = catalog.resolve(&self.name).filter(|_| self.is_direct()).map(|tool| tool.call_with());
        chosen.unwrap_or(self.variant)
    }

    /// Compares the variant with the operation that the agent declared.
    fn check_second_key(&self, call: &LoggedCall<'_>, variant: Variant, rules: &Rules) -> Result<(), Denial> {
        let is_visible = rules.catalog.resolve(&self.name).is_some() && call.agent.scope.sees(self.name.server());
        if self.is_direct() && !is_visible {
            // A live call is refused because there is no such tool, whatever it declares.
            return Ok(());
        }
        let two_key = rules.settings.intent.two_key;
        let intent = field(&self.metadata, "intent").and_then(members).unwrap_or_default();
        let code = call.code.filter(|_| call.is_refusal).and_then(ErrorCode::parse);
        let lacks_intent = code == Some(ErrorCode::MissingIntent);
        let lacks_operation = lacks_intent || code == Some(ErrorCode::MissingOperationType);
        if lacks_operation || field(&self.metadata, "intent_declared") == Some("false") {
            let has_others = ["data_sensitivity", "reason"].iter().any(|name| field(&intent, name).is_some());
            return second_key(variant, None, !lacks_intent && (lacks_operation || has_others), two_key);
        }
        match field(&intent, "operation_type").and_then(string_value).and_then(|word| Variant::from_operation(&word)) {
            Some(declared) => second_key(variant, Some(declared), true, two_key),
            // Older records do not tell what the agent declared.
            None => Ok(()),
        }
    }

    /// Returns the outcome in the record.
    pub(super) fn recorded(&self, call: &LoggedCall<'_>) -> Ruling {
        if !call.is_refusal {
            let was_approved = ["approval_id", "grant_id"].iter().any(|key| field(&self.metadata, key).is_some());
            return if was_approved { Ruling::Ask } else { Ruling::Allow };
        }
        match call.code.unwrap_or_default() {
            FORBIDDEN_ATTEMPT => Ruling::NotFound,
            code => match ErrorCode::parse(code) {
                Some(known) if is_about_approval(known) => Ruling::Ask,
                Some(known) => Ruling::of_code(known.as_str()),
                None => Ruling::Deny(code.to_owned().into()),
            },
        }
    }

    fn intent(&self, variant: Variant) -> Intent {
        let declared = field(&self.metadata, "intent").and_then(members).unwrap_or_default();
        let word = |name: &str| field(&declared, name).and_then(string_value);
        let sensitivity = word("data_sensitivity").and_then(|word| Sensitivity::from_word(&word));
        let is_declared = field(&self.metadata, "intent_declared") != Some("false");
        Intent { variant, is_declared, sensitivity, reason: word("reason").map(Untrusted::new) }
    }

    fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        field(&self.metadata, key).and_then(string_value)
    }
}

/// Returns true if a user, or nobody, decided on the call.
fn is_about_approval(code: ErrorCode) -> bool {
    let codes = [
        ErrorCode::ConfirmationRequired,
        ErrorCode::ApprovalDenied,
        ErrorCode::ApprovalExpired,
        ErrorCode::ApprovalAlreadyUsed,
        ErrorCode::ApprovalNotFound,
        ErrorCode::ApprovalArgsMismatch,
        ErrorCode::ApprovalStale,
        ErrorCode::ContractsDiffer,
        ErrorCode::TooManyApprovals,
    ];
    codes.contains(&code)
}

/// Returns true for a refusal that depends on an earlier call with the same idempotency key.
fn is_about_earlier_call(code: &str) -> bool {
    [ErrorCode::IdempotencyConflict, ErrorCode::OutcomeUnknown].iter().any(|one| one.as_str() == code)
}

/// Returns true for a refusal that depends on the parameters alone.
fn is_malformed(code: ErrorCode) -> bool {
    let codes = [
        ErrorCode::InvalidOperationType,
        ErrorCode::InvalidSensitivity,
        ErrorCode::ReasonTooLong,
        ErrorCode::UnknownField,
        ErrorCode::InvalidField,
        ErrorCode::InvalidArgs,
        ErrorCode::InvalidIntent,
        ErrorCode::InvalidIdempotencyKey,
    ];
    codes.contains(&code)
}

/// Returns true for the metadata of a call at `/mcp/s/NAME` or `/mcp/direct`.
fn is_direct(metadata: &Members<'_>) -> bool {
    let mode = field(metadata, "endpoint_mode").and_then(string_value);
    matches!(mode.as_deref(), Some("server" | "direct")) || field(metadata, "variant_inferred") == Some("true")
}

/// Returns true if a recorded text has the parameters of a `call_tool_*`: they name the tool of the record.
fn is_named(text: &str, call: &LoggedCall<'_>) -> bool {
    let name = members(text).and_then(|fields| field(&fields, "name").and_then(string_value));
    let (server, tool) = (call.server.unwrap_or_default(), call.tool.unwrap_or_default());
    name.is_some_and(|name| name.split_once(':') == Some((server, tool)))
}

/// Returns JSON pointers to the values that the log masked.
fn masked_places(arguments: &str) -> Vec<String> {
    if !arguments.contains(MASK) {
        return Vec::new();
    }
    let mut places = Vec::new();
    if let Ok(value) = serde_json::from_str(arguments) {
        find_masked(&value, String::new(), &mut places);
    }
    places
}

/// The depth is bounded, because the strict reader accepted the arguments when they arrived.
fn find_masked(value: &Value, pointer: String, places: &mut Vec<String>) {
    if places.len() >= PLACES_MAX {
        places.truncate(1);
        places.iter_mut().for_each(String::clear);
        return;
    }
    match value {
        Value::String(text) if text.contains(MASK) => places.push(pointer),
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                find_masked(value, format!("{pointer}/{index}"), places);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                find_masked(value, format!("{pointer}/{}", below("", key)), places);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn field<'a>(fields: &Members<'a>, wanted: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value)
}
