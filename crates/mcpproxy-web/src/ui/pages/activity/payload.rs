//! Arguments and result of a call: masked, indented, and limited.

use std::borrow::Cow;

use mcpproxy_core::{Untrusted, json};
use mcpproxy_store::PayloadFacts;
use serde_json::Value;

use super::bounded::lines;
use crate::visible::Visible;

/// Limits of the part that is shown at once, and of the part that is folded. Two payloads stay below 200 kB of HTML
/// together.
const OPEN_HTML: usize = 4_000;
const OPEN_LINES: usize = 24;
const FOLDED_HTML: usize = 32_000;
const RAW_HTML: usize = 16_000;

pub(crate) struct ShownPayload {
    /// The id of the heading.
    pub(crate) id: &'static str,
    pub(crate) heading: &'static str,
    /// The size, and if the log or the page cuts it.
    pub(crate) about: String,
    /// True if a value in the text is masked.
    pub(crate) is_masked: bool,
    /// Empty if the text was deleted.
    pub(crate) parts: Vec<Part>,
}

/// A text, folded or not.
pub(crate) struct Part {
    /// The words on the fold. Empty if the text is open.
    pub(crate) summary: String,
    pub(crate) text: Visible,
    /// Says what is missing at the end.
    pub(crate) cut: Option<String>,
    /// True for the text exactly as the log has it, which users copy. False if marks stand for some of its characters.
    pub(crate) is_raw: bool,
}

impl ShownPayload {
    pub(crate) fn arguments(text: Option<&Untrusted>, facts: Option<PayloadFacts>) -> Option<Self> {
        Self::new("arguments", "Arguments", text, facts?, |_| None)
    }

    pub(crate) fn result(text: Option<&Untrusted>, facts: Option<PayloadFacts>) -> Option<Self> {
        Self::new("result", "Result", text, facts?, texts_of)
    }

    fn new(
        id: &'static str,
        heading: &'static str,
        text: Option<&Untrusted>,
        facts: PayloadFacts,
        words: fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let size = counted(facts.bytes, "byte");
        let Some(text) = text.map(Untrusted::for_json) else {
            let about = format!("{size}. The text was deleted after its retention period. The log keeps its hash.");
            return Some(Self { id, heading, about, is_masked: false, parts: Vec::new() });
        };
        let is_cut = facts.digests.kept.is_some();
        let about = match is_cut {
            true => format!("{size}. The log keeps the first {}.", counted(text.len() as u64, "byte")),
            false => size,
        };
        // Truncated JSON is indented as far as it goes.
        let pretty = if text.starts_with(['{', '[']) { json::pretty(text) } else { text.to_owned() };
        let mut parts = Vec::new();
        match words(text).filter(|_| !is_cut) {
            Some(words) => {
                parts.extend(folded(&words));
                parts.push(fold("As JSON".to_owned(), &pretty, FOLDED_HTML));
            }
            None => parts.extend(folded(&pretty)),
        }
        if pretty != text {
            let raw = fold("Raw, as recorded".to_owned(), text, RAW_HTML);
            parts.push(Part { is_raw: !raw.text.has_marks(), ..raw });
        }
        Some(Self { id, heading, about, is_masked: text.contains("***"), parts })
    }
}

/// Shows the beginning, and folds the whole text if it is longer.
fn folded(text: &str) -> Vec<Part> {
    let begin = text.match_indices('\n').nth(OPEN_LINES - 1).map_or(text, |(at, _)| text.get(..at).unwrap_or(text));
    let (shown, bytes) = lines(begin, OPEN_HTML);
    if bytes == text.len() {
        return vec![Part { summary: String::new(), text: shown, cut: None, is_raw: false }];
    }
    let open = Part { summary: String::new(), text: shown, cut: Some("…".to_owned()), is_raw: false };
    vec![open, fold(format!("Show all {}", counted(text.chars().count() as u64, "character")), text, FOLDED_HTML)]
}

fn fold(summary: String, text: &str, max_html: usize) -> Part {
    let (shown, bytes) = lines(text, max_html);
    let rest = text.get(bytes..).unwrap_or_default().chars().count();
    let cut = (rest > 0)
        .then(|| format!("… {} more. Download the record as JSON to see them.", counted(rest as u64, "character")));
    Part { summary, text: shown, cut, is_raw: false }
}

/// Returns the text of an MCP result that has only texts, which is easier to read than JSON. Many servers write JSON into
/// the text, in one long line. It is indented.
fn texts_of(result: &str) -> Option<String> {
    let result: Value = serde_json::from_str(result).ok()?;
    let content = result.get("content")?.as_array()?;
    let text = |block: &Value| {
        let is_text = block.get("type").and_then(Value::as_str) == Some("text");
        block.get("text").and_then(Value::as_str).filter(|_| is_text).map(str::to_owned)
    };
    let texts: Option<Vec<String>> = content.iter().map(text).collect();
    let texts = texts.filter(|texts| !texts.is_empty())?;
    Some(texts.iter().map(|text| indented(text)).collect::<Vec<_>>().join("\n"))
}

/// Indents a text that is a JSON object or list. Any other text stays as it is.
pub(crate) fn indented(text: &str) -> Cow<'_, str> {
    let is_structure = text.trim_start().starts_with(['{', '[']);
    match is_structure && json::read(text.as_bytes()).is_ok() {
        true => Cow::Owned(json::pretty(text)),
        false => Cow::Borrowed(text),
    }
}

/// Formats a count with its noun: `12,345 bytes`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::mask;
    use mcpproxy_store::Payload;

    use super::*;

    fn shown(text: &str) -> ShownPayload {
        let payload = Payload::of(mask(text, &[]), text.len());
        ShownPayload::result(Some(&Untrusted::new(payload.text())), Some(*payload.facts())).unwrap()
    }

    fn html(payload: &ShownPayload) -> String {
        payload.parts.iter().map(|part| part.text.to_string()).collect()
    }

    #[test]
    fn json_is_indented_and_its_texts_are_read_first() {
        let payload = shown(r#"{"content":[{"type":"text","text":"two\nlines"}]}"#);
        assert_eq!(payload.parts[0].text.to_string(), "two\nlines");
        assert_eq!((payload.parts[1].summary.as_str(), payload.parts.len()), ("As JSON", 3));
        let payload = shown(r#"{"a":1.10}"#);
        assert_eq!(payload.parts[0].text.to_string(), "{\n  &quot;a&quot;: 1.10\n}");
        assert_eq!(payload.about, "10 bytes");
    }

    /// A copy of the page would have the name of the mark in place of the character.
    #[test]
    fn text_with_marks_is_not_copied_as_raw() {
        let raw = |text: &str| shown(text).parts.iter().any(|part| part.is_raw);
        assert!(raw(r#"{"a":"<b>&"}"#));
        assert!(!raw("{\"a\":\"\u{202e}txt.exe\"}"));
    }

    #[test]
    fn json_in_a_text_and_cut_json_have_lines() {
        let inner = r#"{\"user\":{\"id\":\"u_1\",\"password\":\"hunter22\"},\"n\":1.10}"#;
        let recorded = format!(r#"{{"content":[{{"type":"text","text":"{inner}"}}]}}"#);
        let payload = shown(&recorded);
        let first = payload.parts[0].text.to_string();
        assert!(first.starts_with("{\n  &quot;user&quot;: {\n    &quot;id&quot;: &quot;u_1&quot;,\n"), "{first}");
        assert!(first.contains("&quot;n&quot;: 1.10"), "digits stay: {first}");
        assert!(!html(&payload).contains("hunter22"), "what is masked stays masked");
        let raw = payload.parts.iter().find(|part| part.is_raw).unwrap();
        let kept = Payload::of(mask(&recorded, &[]), recorded.len());
        assert_eq!(raw.text, Visible::lines(kept.text()), "the raw text is the recorded one");
        // Not JSON, or only almost.
        for text in ["plain words", "{not json}", "[1, 2", "12", ""] {
            assert_eq!(indented(text), text);
        }
        let long = format!(r#"{{"a":1,"b":"{}"}}"#, "x".repeat(200_000));
        let payload = shown(&long);
        assert!(payload.about.contains("The log keeps the first"), "{}", payload.about);
        let first = payload.parts[0].text.to_string();
        assert!(first.starts_with("{\n  &quot;a&quot;: 1,\n  &quot;b&quot;: &quot;xxx"), "{first}");
    }

    #[test]
    fn hostile_and_huge_texts_are_escaped_and_bounded() {
        for text in ["<script>", "\u{202e}", "\u{7f}", "\\u0000", "a\\n", "é"] {
            let all =
                format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", text.repeat(1_000_000 / text.len()));
            let payload = shown(&all);
            let html = html(&payload);
            assert!(html.len() <= 100_000 && !html.contains("<script"), "{text} {}", html.len());
            assert!(payload.about.contains("The log keeps the first"), "{}", payload.about);
        }
        for text in ["<script>", "\u{202e}", "\u{7f}", "a\\n"] {
            let all =
                format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", text.repeat(60_000 / text.len()));
            let html = html(&shown(&all));
            assert!(html.len() <= 100_000 && !html.contains("<script"), "{text} {}", html.len());
        }
    }

    #[test]
    fn a_deleted_text_says_so() {
        let payload = Payload::of(mask("{}", &[]), 2);
        let shown = ShownPayload::arguments(None, Some(*payload.facts())).unwrap();
        assert!(shown.parts.is_empty() && shown.about.contains("deleted"));
    }
}
