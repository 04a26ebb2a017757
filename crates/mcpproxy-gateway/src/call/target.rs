//! The tool and arguments that an agent asks for, through one of the four tools or by the tool's own name.

use std::borrow::Cow;

use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{
    Agent, Arguments, Declared, Denial, FieldHint, Intent, ServerName, ToolName, Untrusted, Variant, WrittenIntent,
    declare, declare_members, nearest,
};

use crate::message::{self, INTENT_KEY, Members, OWN_PREFIX, RECORD_KEY, field, member};
use crate::record::RequestedCall;
use crate::snapshot::Snapshot;

/// Keys in `_meta` of a direct call, with the parameters of the four tools that they stand for.
const KEYS: [(&str, &str); 4] = [
    (INTENT_KEY, "intent"),
    ("mcpproxy/dry_run", "dry_run"),
    ("mcpproxy/idempotency_key", "idempotency_key"),
    ("mcpproxy/approval_id", "approval_id"),
];
/// Keys that the gateway adds to results. A client may send them back, and they mean nothing in a call.
const RESULT_KEYS: [&str; 6] = [
    RECORD_KEY,
    "mcpproxy/error",
    "mcpproxy/warnings",
    "mcpproxy/replayed",
    "mcpproxy/first_record",
    "mcpproxy/failure",
];
/// Most characters of an unknown key that a refusal quotes.
const KEY_MAX_CHARS: usize = 64;

pub(crate) enum Target<'a> {
    /// The parameters of a `call_tool_*`, which have passed the strict reader.
    /// `fields` are their members, or `None` if they are no object. `candidates` are the tools that a name without a
    /// server could mean, if there are several.
    Variant { variant: Variant, parameters: &'a str, fields: Option<Members<'a>>, candidates: Vec<ToolName> },
    /// A direct call. The tool's contract or annotations choose the variant, and what the four tools take as parameters
    /// is in `_meta`.
    Direct { name: ToolName, arguments: &'a str, meta: Option<&'a str> },
}

impl<'a> Target<'a> {
    pub(super) fn declare(self, snapshot: &Snapshot, agent: &Agent) -> Result<Declared, Denial> {
        match self {
            Self::Variant { variant, fields, candidates, .. } => {
                let declared = declare_members(variant, fields.as_ref(), snapshot.settings.intent.two_key);
                match declared {
                    Err(Denial::InvalidToolName(_)) if !candidates.is_empty() => {
                        Err(Denial::AmbiguousToolName { candidates })
                    }
                    declared => declared,
                }
            }
            Self::Direct { name, arguments, meta } => declare_direct(name, arguments, meta, snapshot, agent),
        }
    }

    /// Returns the server the call is for, as far as its name can be read.
    pub(crate) fn server(&self) -> Option<ServerName> {
        match self {
            Self::Variant { fields, .. } => {
                let name = field(fields.as_ref()?, "name").and_then(string_value)?;
                ServerName::parse(name.split_once(':')?.0).ok()
            }
            Self::Direct { name, .. } => Some(name.server().clone()),
        }
    }

    /// Returns the facts that are known before the call is parsed, for the record of a refusal.
    pub(super) fn requested(&self) -> RequestedCall<'a> {
        match self {
            Self::Variant { variant, parameters, .. } => {
                RequestedCall { variant: Some(*variant), direct: None, arguments: parameters, meta: None }
            }
            Self::Direct { name, arguments, meta } => {
                RequestedCall { variant: None, direct: Some(name.clone()), arguments, meta: *meta }
            }
        }
    }
}

/// Declares a direct call. The tool's contract or annotations choose the variant, which is the first key. The second
/// key is in `_meta`, and is required where the settings require it.
fn declare_direct(
    name: ToolName,
    arguments: &str,
    meta: Option<&str>,
    snapshot: &Snapshot,
    agent: &Agent,
) -> Result<Declared, Denial> {
    let exact = Arguments::exact(arguments)?;
    let extras = meta.map(extras).transpose()?.unwrap_or_default();
    let tool = snapshot.catalog.resolve(&name).filter(|_| agent.scope.sees(name.server()));
    // Without a visible tool there is nothing to compare with, and the answer must not tell more than that.
    let (variant, two_key) = match tool {
        Some(tool) => (tool.call_with(), snapshot.settings.intent.two_key),
        None => {
            let intent = meta.and_then(|meta| member(meta, INTENT_KEY));
            let declared = intent.and_then(|intent| WrittenIntent::of_value(intent).operation());
            (declared.unwrap_or(Variant::Write), TwoKey::Optional)
        }
    };
    if extras.is_empty() && two_key == TwoKey::Optional {
        let intent = Intent { variant, is_declared: false, sensitivity: None, reason: None };
        return Ok(Declared::plain(name, intent, exact));
    }
    let parameters = [("name", quote(&name.to_string())), ("args", arguments.to_owned())];
    let parameters = parameters.iter().chain(&extras).map(|(key, value)| (*key, value.as_str()));
    declare(variant, &message::object(parameters), two_key)
}

/// Reads from the `_meta` of a direct call what the four tools take as parameters, such as `mcpproxy/dry_run`. An
/// unknown key is refused: with a misspelt `mcpproxy/dry_run`, the real call would be made.
fn extras(meta: &str) -> Result<Vec<(&'static str, String)>, Denial> {
    let fields = members(meta).unwrap_or_default();
    let own = fields.iter().filter(|(key, _)| key.starts_with(OWN_PREFIX) && !RESULT_KEYS.contains(&key.as_ref()));
    let read = |(key, value): &(Cow<'_, str>, &str)| match KEYS.iter().find(|(known, _)| key == known) {
        Some((_, parameter)) => Ok((*parameter, (*value).to_owned())),
        None => {
            let near = nearest(key, KEYS.map(|(known, _)| known));
            let hint = near.map_or(FieldHint::Unknown, FieldHint::Nearest);
            Err(Denial::UnknownField { field: Untrusted::shortened(key, KEY_MAX_CHARS), hint })
        }
    };
    own.map(read).collect()
}
