//! Search results for agents: the best tools first, shortened to fit 16 KiB, and always complete JSON.

#[cfg(test)]
mod tests;

use mcpproxy_core::json::{members, quote};
use mcpproxy_core::settings::{Settings, TwoKey};
use mcpproxy_core::{Brief, Confidence, Keep, SearchHit, SearchResult, Tool, brief};

use super::contract::{shown_annotations, tool_contract};
use super::no_match::{self, Reader};
use super::parts;
use crate::message::object;

/// Clients cut results at about 20,000 characters, anywhere. And an agent pays for every token.
const ANSWER_MAX_BYTES: usize = 16 << 10;
/// A tool may use the room of at most one share, so that it does not push out the next few.
const SHARES_MAX: usize = 4;
const NOTE_MAX_BYTES: usize = 512;
/// Longer annotations are reduced to the standard hints.
const ANNOTATIONS_MAX_BYTES: usize = 256;
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Repeated with every search, so it has at most 200 bytes. Refusals say what else a call needs.
const USAGE: &str = "Use call_tool_read for read-only operations, call_tool_write for modifications, \
    call_tool_destructive for deletions: see call_with. Pass name and args. Intent must match tool variant.";
/// The same, if the setting `two_key` is `required`.
const USAGE_TWO_KEYS: &str = "Use call_tool_read for reads, call_tool_write for modifications, call_tool_destructive for \
    deletions: see call_with. Pass name, args and intent.operation_type, which is required and must match.";
const USAGE_OF_NOTHING: &str = "Once a search finds a tool, call it with the variant in its call_with.";

/// The detail that an agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Brief,
    /// Includes the whole contract.
    Full,
}

/// The detail that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The server's own description and schema, unshortened.
    Whole,
    Brief(Keep),
}

impl Detail {
    /// Returns the forms to try, longest first.
    fn forms(self) -> impl Iterator<Item = Form> {
        let whole = match self {
            Self::Full => Some(Form::Whole),
            Self::Brief => None,
        };
        whole.into_iter().chain(Keep::ALL.map(Form::Brief))
    }
}

/// Builds the answer as raw JSON. It has fewer than `limit` tools if they do not fit.
pub(crate) fn answer(settings: &Settings, found: &SearchResult, detail: Detail, limit: usize) -> String {
    let usage = match settings.intent.two_key {
        TwoKey::Optional => USAGE,
        TwoKey::Required => USAGE_TWO_KEYS,
    };
    if let Some(nothing) = &found.no_match {
        return frame("", Some(&no_match::note(nothing, Reader::Agent)), USAGE_OF_NOTHING);
    }
    if let (Detail::Full, 1, [hit]) = (detail, limit, found.hits.as_slice()) {
        let note = found.doubt.as_ref().map(no_match::doubt);
        return frame(&entry(settings, hit, Form::Whole, detail), note.as_deref(), usage);
    }
    let mut room = ANSWER_MAX_BYTES.saturating_sub(frame("", None, usage).len() + NOTE_MAX_BYTES);
    let share = room / found.hits.len().clamp(1, SHARES_MAX);
    let (mut tools, mut is_cut) = (Vec::new(), false);
    for hit in &found.hits {
        let mut forms = detail.forms().map(|form| (form, entry(settings, hit, form, detail)));
        // A tool that does not fit must not hide those after it.
        let Some((form, tool)) = forms.find(|(_, tool)| tool.len() < share.min(room)) else { continue };
        room -= tool.len() + 1;
        is_cut |= detail == Detail::Full && form != Form::Whole;
        tools.push(tool);
    }
    let doubt = found.doubt.as_ref().map(no_match::doubt);
    let notes: Vec<String> = doubt.into_iter().chain(note(tools.len(), found.hits.len(), is_cut)).collect();
    frame(&tools.join(","), (!notes.is_empty()).then(|| notes.join(" ")).as_deref(), usage)
}

fn note(shown: usize, found: usize, is_cut: bool) -> Option<String> {
    let fewer = (shown < found).then(|| {
        format!(
            "{shown} of {found} tools shown: the others do not fit {} KiB. Narrow the query, or name a server.",
            ANSWER_MAX_BYTES >> 10
        )
    });
    let cut =
        is_cut.then(|| "Some are in brief. For all details of a tool, use limit 1 and its name as query.".to_owned());
    let sentences: Vec<String> = fewer.into_iter().chain(cut).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn frame(tools: &str, note: Option<&str>, usage: &str) -> String {
    let (tools, usage, note) = (format!("[{tools}]"), quote(usage), note.map(quote));
    let note = note.iter().map(|note| ("note", note.as_str()));
    object([("tools", tools.as_str())].into_iter().chain(note).chain([("usage_instructions", usage.as_str())]))
}

/// Describes one tool, as raw JSON.
pub(super) fn entry(settings: &Settings, hit: &SearchHit, form: Form, detail: Detail) -> String {
    let tool = &hit.tool;
    let words = tool.offered.description.for_json();
    let whole_schema = || tool.offered.field("inputSchema").unwrap_or("{}");
    let (words, annotations, schema) = match form {
        Form::Whole => (words.to_owned(), shown_annotations(tool), counting_schema(tool)),
        Form::Brief(Keep::Meaning) => {
            let Brief { description, schema } = tool.brief().clone();
            (description, brief_annotations(tool), schema)
        }
        Form::Brief(keep @ (Keep::Conditions | Keep::Arguments | Keep::Required)) => {
            let brief = brief(words, whole_schema(), keep);
            (brief.description, brief_annotations(tool), brief.schema)
        }
    };
    // An agent that reads only the description still learns which variant to use.
    let separator = if words.is_empty() { "" } else { "\n" };
    let description = format!("{words}{separator}(Call with {}.)", tool.call_with().tool());
    let mut parts = parts(settings, tool, &description, annotations, schema);
    parts.push(("score", format!("{:.3}", hit.score)));
    match hit.confidence {
        Confidence::Usual => {}
        Confidence::Low => parts.push(("confidence", quote("low"))),
    }
    let has_room = match form {
        Form::Whole => true,
        Form::Brief(keep) => keep.is_exact(),
    };
    if form == Form::Whole
        && let Some(schema) = tool.whole_output_schema()
    {
        parts.push(("outputSchema", schema.to_string()));
    }
    if detail == Detail::Full && tool.contract.is_written && has_room {
        parts.push(("contract", tool_contract(tool).to_string()));
    }
    object(parts.iter().map(|(key, value)| (*key, value.as_str())))
}

/// Returns the schema that arguments must match. Only a contract's schema makes it another than the server's own.
fn counting_schema(tool: &Tool) -> String {
    let own = || tool.offered.field("inputSchema").unwrap_or("{}").to_owned();
    match &tool.contract.input_schema {
        Some(_) => tool.whole_input_schema().map_or_else(own, |schema| schema.to_string()),
        None => own(),
    }
}

fn brief_annotations(tool: &Tool) -> String {
    let all = shown_annotations(tool);
    if all.len() <= ANNOTATIONS_MAX_BYTES {
        return all;
    }
    let known = members(&all).unwrap_or_default();
    let known = known.iter().filter(|(key, value)| HINTS.contains(&key.as_ref()) && ["true", "false"].contains(value));
    object(known.map(|(key, value)| (key.as_ref(), *value)))
}
