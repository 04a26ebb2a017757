//! The `export` section: the destination that gets a copy of every record, for a SIEM.

use serde_json::{Value, json};

use super::approvals::{check_secret, read_secret};
use super::read::Reader;
use super::{Secret, address, keys};
use crate::file::Fields;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSettings {
    pub to: ExportTo,
    /// Sent as a bearer token. Only for HTTP.
    pub token: Option<Secret>,
}

/// The destination of the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportTo {
    /// An absolute path.
    File(String),
    /// A secret, because many services put a key into the URL.
    Http(Secret),
}

const FORM: &str = "expected `file:/PATH` or `https://HOST/PATH`";

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<ExportSettings> {
    let node = &fields.find("export")?.node;
    let fields = reader.fields(node, &keys::EXPORT)?;
    if fields.find("to").is_none() {
        reader.report(node.position, format!("an export needs `to`; {FORM}"));
    }
    let to = fields.find("to").and_then(|field| read_secret(reader, &field.node, check_destination));
    let token = fields.find("token").and_then(|field| read_secret(reader, &field.node, check_secret));
    let to = to?;
    let to = match to.expose().strip_prefix("file:") {
        Some(path) => ExportTo::File(path.to_owned()),
        None => ExportTo::Http(to),
    };
    if let (ExportTo::File(_), Some(field)) = (&to, fields.find("token")) {
        reader.report(field.position, "a file needs no `token`; remove it");
    }
    Some(ExportSettings { to, token })
}

/// Checks a destination. The messages do not show it, because it may hold a key.
fn check_destination(text: &str) -> Result<(), String> {
    match text.strip_prefix("file:") {
        Some(path) if path.starts_with('/') && !path.ends_with('/') => Ok(()),
        Some(_) => {
            Err("expected an absolute path after `file:`, such as `file:/var/log/mcpproxy/activity.jsonl`".to_owned())
        }
        None if text.starts_with("http://") || text.starts_with("https://") => address::check_webhook_url(text)
            .map_err(|message| message.replace("approval requests would cross", "records would cross")),
        None => Err(FORM.to_owned()),
    }
}

/// Returns the part of the JSON Schema for this section.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "A copy of every record of the activity log for a SIEM, as OCSF events in JSON lines. Each event arrives at least once.",
        "additionalProperties": false,
        "properties": {
            "to": {
                "type": "string",
                "pattern": "^(?:file:/.+|https?://.+|.*\\$\\{.*)$",
                "description": "The destination: `file:/PATH`, or an `https://` URL that takes POST requests with JSON lines. `http://` is accepted for this machine only. A new destination gets all records that are kept."
            },
            "token": {
                "type": "string",
                "minLength": 16,
                "description": "A token that is sent as `Authorization: Bearer TOKEN`, best in `${env:NAME}` or `${file:PATH}`."
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::bad::check;
    use crate::settings::{Unresolved, parse};

    #[test]
    fn destinations() {
        let to = |text: &str| {
            let text = format!(r#"{{"export": {{"to": "{text}"}}}}"#);
            parse(&text, &Unresolved).unwrap().export.map(|export| export.to)
        };
        assert_eq!(parse("{}", &Unresolved).unwrap().export, None);
        assert_eq!(to("file:/var/log/a.jsonl"), Some(ExportTo::File("/var/log/a.jsonl".to_owned())));
        let url = |text: &str| Some(ExportTo::Http(Secret::written_in_file(text.to_owned())));
        assert_eq!(to("https://siem.example.com/in?key=1"), url("https://siem.example.com/in?key=1"));
        assert_eq!(to("http://127.0.0.1:9000/"), url("http://127.0.0.1:9000/"));
    }

    #[test]
    fn other_destinations_are_mistakes() {
        let bad = |to: &str, message: &str| {
            check(&format!(r#"{{"export": {{"to": "{to}"}}}}"#), &[&format!("line 1, column 19: {message}")]);
        };
        bad("s3://bucket", FORM);
        bad(
            "file:relative",
            "expected an absolute path after `file:`, such as `file:/var/log/mcpproxy/activity.jsonl`",
        );
        bad("http://siem.example.com/", "records would cross the network unencrypted; write `https://`");
        check(r#"{"export": {}}"#, &[&format!("line 1, column 12: an export needs `to`; {FORM}")]);
        check(
            r#"{"export": {"to": "file:/a", "token": "0123456789abcdef"}}"#,
            &["line 1, column 30: a file needs no `token`; remove it"],
        );
    }
}
