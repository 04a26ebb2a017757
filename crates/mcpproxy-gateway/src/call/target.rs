//! The tool and arguments that an agent asks for, through one of the four tools or by the tool's own name.

use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{Arguments, Declared, Denial, Intent, ServerName, ToolName, Variant, declare, declare_members};

use crate::answer::OWN_PREFIX;
use crate::message::{self, Members, field};
use crate::record::RequestedCall;
use crate::snapshot::Snapshot;

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
    pub(super) fn declare(self, snapshot: &Snapshot) -> Result<Declared, Denial> {
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
            Self::Direct { name, arguments, meta } => {
                let variant = snapshot.catalog.resolve(&name).map_or(Variant::Write, |tool| tool.call_with());
                if let Some(extras) = meta.and_then(extras) {
                    let parameters = [("name", quote(&name.to_string())), ("args", arguments.to_owned())];
                    let parameters = parameters.iter().chain(&extras).map(|(key, value)| (*key, value.as_str()));
                    return declare(variant, &message::object(parameters), TwoKey::Optional);
                }
                let intent = Intent { variant, sensitivity: None, reason: None };
                Ok(Declared::plain(name, intent, Arguments::exact(arguments)?))
            }
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
                let intent = Intent { variant: *variant, sensitivity: None, reason: None };
                RequestedCall { intent: Some(intent), ..RequestedCall::of(parameters) }
            }
            Self::Direct { name, arguments, .. } => {
                RequestedCall { direct: Some(name.clone()), ..RequestedCall::of(arguments) }
            }
        }
    }
}

/// Reads from the `_meta` of a direct call what the four tools take as parameters, such as `mcpproxy/dry_run`.
fn extras(meta: &str) -> Option<Vec<(&'static str, String)>> {
    let fields = members(meta)?;
    let found = fields.iter().filter_map(|(key, value)| {
        let own = key.strip_prefix(OWN_PREFIX)?;
        let known = ["dry_run", "idempotency_key", "approval_id"].into_iter().find(|known| *known == own)?;
        Some((known, (*value).to_owned()))
    });
    Some(found.collect()).filter(|found: &Vec<_>| !found.is_empty())
}
