//! A dry run for people: sentences for what servers and the gateway commonly report, a table for the rest, and the raw
//! JSON to unfold.
//!
//! The gateway derives a preview from the contract with the members `warnings`, `missingPermissions`,
//! `expectedSideEffects` and `needs`. Servers are free to answer what they like, and many use the same names. So these
//! members become sentences whoever wrote them, and the page says who did. All other members are rows of the table.

use mcpproxy_core::{Parts, json};
use mcpproxy_gateway::{FailedDryRun, SaidBy};
use mcpproxy_store::StoredDryRun;
use serde_json::Value;

use super::arguments::ShownValue;
use crate::ui::pages::activity::payload::indented;
use crate::ui::pages::labels::Time;
use crate::visible::Visible;

/// The age at which a dry run no longer counts for tools that require one.
const OLD_MS: i64 = 600_000;
const MAX_ROWS: usize = 40;
const MAX_SENTENCES: usize = 20;
/// Longer lists become one row with their JSON.
const LISTED: usize = 12;

pub(crate) struct Preview {
    pub(crate) is_native: bool,
    /// True if it was derived from a contract of the server.
    pub(crate) is_of_server: bool,
    /// True if it was derived from a contract that nobody has reviewed.
    pub(crate) is_draft: bool,
    pub(crate) is_old: bool,
    pub(crate) iso: String,
    pub(crate) age: String,
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) rows: Vec<PreviewRow>,
    /// The number of values that only the raw JSON has.
    pub(crate) left_out: usize,
    /// True if the dry run is JSON that the sentences and rows were made from.
    pub(crate) is_structured: bool,
    pub(crate) text: ShownValue,
}

pub(crate) struct Sentence {
    pub(crate) is_warning: bool,
    /// Words of the gateway before the text.
    pub(crate) lead: &'static str,
    pub(crate) text: Visible,
}

pub(crate) struct PreviewRow {
    pub(crate) name: Visible,
    pub(crate) value: ShownValue,
}

/// A dry run that failed, which has a record and no result to show.
pub(crate) struct FailedPreview {
    pub(crate) record: String,
    pub(crate) time: Time,
    pub(crate) code: Option<Visible>,
}

impl FailedPreview {
    pub(crate) fn new(failed: &FailedDryRun, now_ms: i64) -> Self {
        Self {
            record: failed.record.to_string(),
            time: Time::new(failed.at_ms, now_ms),
            code: failed.code.as_ref().map(Visible::untrusted),
        }
    }
}

impl Preview {
    /// `said_by` is the source of the side effects that a preview of the gateway names.
    pub(crate) fn new(dry_run: &StoredDryRun, said_by: Option<SaidBy>, now_ms: i64) -> Self {
        let text = dry_run.preview.for_json();
        let structure = structure(text);
        let (mut sentences, mut table) = (Vec::new(), Table::default());
        for (name, value) in structure.as_deref().and_then(json::members).unwrap_or_default() {
            if !say(&mut sentences, &name, value) {
                table.add(&name, value, 0);
            }
        }
        let left_out = table.left_out + sentences.len().saturating_sub(MAX_SENTENCES);
        sentences.truncate(MAX_SENTENCES);
        Self {
            is_native: dry_run.is_native,
            is_of_server: said_by == Some(SaidBy::Server),
            is_draft: said_by == Some(SaidBy::Draft),
            is_old: now_ms - dry_run.at_ms > OLD_MS,
            iso: crate::time::format(dry_run.at_ms),
            age: Time::new(dry_run.at_ms, now_ms).words,
            is_structured: !sentences.is_empty() || !table.rows.is_empty(),
            sentences,
            rows: table.rows,
            left_out,
            text: ShownValue::lines(&preview_text(dry_run)),
        }
    }
}

/// Formats a dry run as text.
pub(crate) fn preview_text(dry_run: &StoredDryRun) -> String {
    let text = dry_run.preview.for_json();
    if serde_json::from_str::<Value>(text).is_ok() { readable(text) } else { text.to_owned() }
}

/// Returns the structured content of a result, or else its texts. Numbers have all their digits, as in the call.
fn readable(result: &str) -> String {
    if let Some(structure) = json::member(result, "structuredContent") {
        return json::pretty(structure);
    }
    let texts = texts(result);
    match texts.is_empty() {
        true => json::pretty(result),
        false => texts.iter().map(|text| indented(text)).collect::<Vec<_>>().join("\n"),
    }
}

fn texts(result: &str) -> Vec<String> {
    let content: Vec<Value> =
        json::member(result, "content").and_then(|content| serde_json::from_str(content).ok()).unwrap_or_default();
    content.iter().filter_map(|part| part.get("text").and_then(Value::as_str).map(str::to_owned)).collect()
}

/// Returns the object that a dry run consists of: the structured content, a text that is an object, or the whole.
fn structure(text: &str) -> Option<String> {
    let object = |text: &str| json::read(text.trim().as_bytes()).is_ok_and(|text| text.starts_with('{'));
    if !object(text) {
        return None;
    }
    if let Some(structure) = json::member(text, "structuredContent") {
        return object(structure).then(|| structure.to_owned());
    }
    if json::member(text, "content").is_none() {
        return Some(text.trim().to_owned());
    }
    match texts(text).as_slice() {
        [one] if object(one) => Some(one.trim().to_owned()),
        _ => None,
    }
}

/// Turns a known member into sentences. Returns false for any other member.
fn say(sentences: &mut Vec<Sentence>, name: &str, value: &str) -> bool {
    let mut add = |is_warning: bool, lead: &'static str, text: &str| {
        sentences.push(Sentence { is_warning, lead, text: Visible::of(text) });
    };
    match name {
        // The page says so already, and the arguments have their own table.
        "dryRun" if value == "true" => true,
        "wouldCall" => true,
        "summary" | "message" => match json::string_value(value) {
            Some(text) => {
                add(false, "", &text);
                true
            }
            None => false,
        },
        "warnings" | "expectedSideEffects" | "missingPermissions" | "needs" => {
            let Some(words) = words(value) else { return false };
            match name {
                "warnings" => words.iter().for_each(|one| add(true, "Warning:", one)),
                "expectedSideEffects" => words.iter().for_each(|one| add(false, "Expected:", one)),
                "missingPermissions" if !words.is_empty() => {
                    add(true, "A real call would be refused. The agent lacks these permissions:", &words.join(", "));
                }
                "needs" if !words.is_empty() => {
                    add(false, "A real call needs:", &words.join(" and ").replace('_', " "));
                }
                _ => {}
            }
            true
        }
        "estimatedDurationMs" => match value.parse::<u32>() {
            Ok(ms @ 1..=999) => {
                add(false, "Estimated duration:", &format!("{ms} milliseconds"));
                true
            }
            Ok(ms @ 1_000..) => {
                add(false, "Estimated duration:", &format!("{} seconds", (u64::from(ms) + 500) / 1_000));
                true
            }
            Ok(0) => true,
            Err(_) => false,
        },
        _ => false,
    }
}

/// Reads a list of texts, or of objects with a `message`.
fn words(value: &str) -> Option<Vec<String>> {
    let list: Vec<Value> = serde_json::from_str(value).ok()?;
    let word = |one: &Value| one.as_str().or_else(|| one.get("message")?.as_str()).map(str::to_owned);
    list.iter().map(word).collect()
}

#[derive(Default)]
struct Table {
    rows: Vec<PreviewRow>,
    left_out: usize,
}

impl Table {
    /// Adds a value. Objects at the first level get a row for each member.
    fn add(&mut self, name: &str, value: &str, depth: usize) {
        match Parts::of(value, depth) {
            Parts::Members(members) if depth == 0 => {
                members.iter().for_each(|(key, value)| self.add(&format!("{name} › {key}"), value, 1));
            }
            Parts::Elements(elements) if elements.len() <= LISTED && elements.iter().all(|one| is_scalar(one)) => {
                let texts: Vec<String> = elements.iter().map(|one| scalar(one)).collect();
                self.push(name, ShownValue::plain(&texts.join(", ")));
            }
            Parts::Members(_) | Parts::Elements(_) | Parts::Whole => self.push(name, ShownValue::json(value)),
        }
    }

    fn push(&mut self, name: &str, value: ShownValue) {
        if self.rows.len() < MAX_ROWS {
            self.rows.push(PreviewRow { name: Visible::of(name), value });
        } else {
            self.left_out += 1;
        }
    }
}

fn is_scalar(value: &str) -> bool {
    !value.starts_with(['{', '['])
}

fn scalar(value: &str) -> String {
    json::string_value(value).map_or_else(|| value.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::Untrusted;

    use super::*;

    fn shown(text: &str) -> (Vec<String>, Vec<String>) {
        let structure = structure(text);
        let (mut sentences, mut table) = (Vec::new(), Table::default());
        for (name, value) in structure.as_deref().and_then(json::members).unwrap_or_default() {
            if !say(&mut sentences, &name, value) {
                table.add(&name, value, 0);
            }
        }
        let sentence = |one: &Sentence| format!("{} {}", one.lead, one.text).trim().to_owned();
        let row = |one: &PreviewRow| format!("{} = {}", one.name, one.value.short);
        (sentences.iter().map(sentence).collect(), table.rows.iter().map(row).collect())
    }

    #[test]
    fn a_servers_answer() {
        let (sentences, rows) = shown(
            r#"{"structuredContent": {"dryRun": true, "user": {"id": "u_max", "tags": {"a": 1}},
            "unassignedTaskIds": ["t_1", "t_2"], "warnings": ["2 tasks lose their assignee"],
            "missingPermissions": [], "expectedSideEffects": ["The user is gone."], "estimatedDurationMs": 40}}"#,
        );
        assert_eq!(
            sentences,
            [
                "Warning: 2 tasks lose their assignee",
                "Expected: The user is gone.",
                "Estimated duration: 40 milliseconds"
            ]
        );
        assert_eq!(rows, ["user › id = u_max", "user › tags = {&quot;a&quot;: 1}", "unassignedTaskIds = t_1, t_2"]);
    }

    #[test]
    fn the_gateways_preview() {
        let (sentences, rows) = shown(
            r#"{"dryRun":true,"wouldCall":{"tool":"a:b","arguments":{}},"warnings":[{"code":"x","message":"Careful."}],
            "missingPermissions":["notes:write"],"expectedSideEffects":["A note."],"needs":["confirmation","step_up"]}"#,
        );
        assert_eq!(
            sentences,
            [
                "Warning: Careful.",
                "A real call would be refused. The agent lacks these permissions: notes:write",
                "Expected: A note.",
                "A real call needs: confirmation and step up",
            ]
        );
        assert!(rows.is_empty(), "{rows:?}");
    }

    #[test]
    fn what_is_no_structure() {
        for text in ["plain words", "[1]", r#"{"content": [{"type": "text", "text": "Two people get it."}]}"#, "{"] {
            assert_eq!(structure(text), None, "{text}");
        }
        let inner = r#"{"content": [{"type": "text", "text": "{\"warnings\": [\"<b>\"], \"n\": 1.0}"}]}"#;
        assert_eq!(shown(inner), (vec!["Warning: &lt;b&gt;".to_owned()], vec!["n = 1.0".to_owned()]));
        // Odd values of known names are rows, so that nothing disappears.
        assert_eq!(shown(r#"{"warnings": 3, "dryRun": false}"#).1, ["warnings = 3", "dryRun = false"]);
    }

    #[test]
    fn large_ones_are_cut() {
        let members: Vec<String> = (0..500).map(|number| format!("\"k{number}\": {number}")).collect();
        let preview = Untrusted::new(format!("{{{}}}", members.join(",")));
        let dry_run = StoredDryRun { preview, is_native: true, at_ms: 0 };
        let structure = structure(dry_run.preview.for_json()).unwrap();
        let mut table = Table::default();
        json::members(&structure).unwrap().iter().for_each(|(name, value)| table.add(name, value, 0));
        assert_eq!((table.rows.len(), table.left_out), (MAX_ROWS, 460));
    }
}
