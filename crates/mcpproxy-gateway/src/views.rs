//! Tools and their contracts as JSON, for agents and operators.

pub(crate) mod contract;
mod no_match;
mod search;

use mcpproxy_core::json::quote;
use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Keep, SearchHit, SearchResult, Tool};

use crate::message::object;
use contract::{needs_of, shown_annotations};
use no_match::Reader;

pub(crate) use search::{Detail, answer};

/// Describes a tool with the server's full description, as raw JSON.
pub(crate) fn described(settings: &Settings, tool: &Tool) -> String {
    let schema = tool.offered.field("inputSchema").unwrap_or("{}");
    let parts = parts(settings, tool, tool.offered.description.for_json(), shown_annotations(tool), schema.to_owned());
    object(parts.iter().map(|(key, value)| (*key, value.as_str())))
}

/// Describes a search hit in brief, as raw JSON.
pub(crate) fn brief_hit(settings: &Settings, hit: &SearchHit) -> String {
    search::entry(settings, hit, search::Form::Brief(Keep::Meaning), Detail::Brief)
}

/// Explains to an operator why a search found nothing, or only guesses.
pub(crate) fn note_for_operator(found: &SearchResult) -> Option<String> {
    let nothing = found.no_match.as_ref().map(|nothing| no_match::note(nothing, Reader::Operator));
    nothing.or_else(|| found.doubt.as_ref().map(no_match::doubt))
}

/// Returns the members that every description of a tool has, as raw JSON.
fn parts(
    settings: &Settings,
    tool: &Tool,
    description: &str,
    annotations: String,
    schema: String,
) -> Vec<(&'static str, String)> {
    vec![
        ("name", quote(&tool.name.to_string())),
        ("server", quote(tool.name.server().as_str())),
        ("description", quote(description)),
        ("annotations", annotations),
        ("call_with", quote(tool.call_with().tool())),
        ("risk_level", tool.contract.risk().map_or_else(|| "null".to_owned(), |risk| quote(risk.as_str()))),
        ("needs", needs_of(settings.contracts, tool)),
        ("inputSchema", schema),
    ]
}
