//! Records as a table for spreadsheets (RFC 4180).

use mcpproxy_core::Untrusted;
use serde_json::value::RawValue;

use super::{Activity, WholeActivity};

/// The same names as in the JSON of a record.
const COLUMNS: [&str; 21] = [
    "id",
    "time",
    "type",
    "status",
    "agent",
    "client",
    "server",
    "tool",
    "intent_type",
    "risk",
    "code",
    "message",
    "duration_ms",
    "metadata",
    "chain",
    "seq",
    "end_seq",
    "arguments_bytes",
    "arguments_sha256",
    "result_bytes",
    "result_sha256",
];
const PAYLOAD_COLUMNS: [&str; 4] = ["arguments", "result", "arguments_cut", "result_cut"];

pub fn head() -> String {
    line(COLUMNS.map(str::to_owned).to_vec())
}

pub fn head_with_payloads() -> String {
    line(COLUMNS.into_iter().chain(PAYLOAD_COLUMNS).map(str::to_owned).collect())
}

pub fn row(activity: &Activity) -> String {
    line(cells(activity))
}

pub fn row_with_payloads(whole: &WholeActivity) -> String {
    let json = |payload: &Option<Box<RawValue>>| payload.as_ref().map(|json| text(json.get())).unwrap_or_default();
    let mut cells = cells(&whole.activity);
    cells.extend([json(&whole.arguments), json(&whole.result)]);
    cells.extend([whole.arguments_cut.to_string(), whole.result_cut.to_string()]);
    line(cells)
}

fn cells(activity: &Activity) -> Vec<String> {
    let word = |word: &Option<String>| word.as_deref().map(text).unwrap_or_default();
    let known = |word: Option<&str>| word.unwrap_or_default().to_owned();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    vec![
        activity.id.clone(),
        activity.time.clone(),
        activity.kind.to_owned(),
        activity.status.to_owned(),
        word(&activity.agent),
        word(&activity.client),
        word(&activity.server),
        word(&activity.tool),
        known(activity.intent_type),
        known(activity.risk),
        word(&activity.code),
        word(&activity.message),
        activity.duration_ms.map(|duration| duration.to_string()).unwrap_or_default(),
        text(activity.metadata.get()),
        activity.chain.to_string(),
        activity.seq.to_string(),
        activity.end_seq.map(|seq| seq.to_string()).unwrap_or_default(),
        number(activity.arguments_bytes),
        known(activity.arguments_sha256.as_deref()),
        number(activity.result_bytes),
        known(activity.result_sha256.as_deref()),
    ]
}

/// Escapes a text for a cell. Spreadsheets run a text that begins like a formula, so an apostrophe goes in front.
fn text(words: &str) -> String {
    let is_formula = words.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let apostrophe = if is_formula { "'" } else { "" };
    let shown = format!("{apostrophe}{}", Untrusted::new(words).for_terminal());
    // Some locales separate cells with semicolons.
    let is_plain = !shown.contains([',', '"', ';']) && shown.trim() == shown;
    if is_plain { shown } else { format!("\"{}\"", shown.replace('"', "\"\"")) }
}

fn line(cells: Vec<String>) -> String {
    cells.join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_stay_words() {
        let check = |words: &str, cell: &str| assert_eq!(line(vec![text(words)]), format!("{cell}\r\n"));
        check("plain", "plain");
        check("", "");
        check("a,b", "\"a,b\"");
        check("say \"hi\"", "\"say \"\"hi\"\"\"");
        check("two\nlines\u{1b}[2J", "two\\nlines\\u{1b}[2J");
        check(" blank", "\" blank\"");
        check("=HYPERLINK(\"http://x\")", "\"'=HYPERLINK(\"\"http://x\"\")\"");
        for formula in ["+1", "-1", "@SUM(A1)"] {
            check(formula, &format!("'{formula}"));
        }
        check("\t=1", "'\\t=1");
        check("＝1", "'＝1");
        check("a;b", "\"a;b\"");
    }
}
