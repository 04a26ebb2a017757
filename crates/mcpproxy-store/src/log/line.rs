//! The lines of the chain: what is hashed. They are made anew from a row whenever they are needed, and never stored.

use std::fmt::{self, Write as _};

use mcpproxy_core::json::quote;
use mcpproxy_core::{RiskLevel, Variant};
use sha2::{Digest as _, Sha256};

use crate::log::queue::Ended;
use crate::{Kind, NewRecord, Outcome, Payload, PayloadFacts, Record, RecordId, Status};

/// Most lines are shorter.
const LINE_BYTES: usize = 1024;

pub(crate) type Hash = [u8; 32];

/// The hash before the first line of a chain.
pub(crate) fn origin(chain_name: &str) -> Hash {
    Sha256::digest(format!("mcpproxy chain {chain_name}")).into()
}

/// The hash after a line. Of a line that may not be shown, its digest is enough.
pub(crate) fn link(before: &Hash, line_digest: &Hash) -> Hash {
    Sha256::new().chain_update(before).chain_update(line_digest).finalize().into()
}

pub(crate) fn digest(line: &str) -> Hash {
    Sha256::digest(line.as_bytes()).into()
}

/// What a whole line and the beginning of a call say.
pub(crate) struct First<'a> {
    pub(crate) id: RecordId,
    pub(crate) kind: Kind,
    pub(crate) agent: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
    pub(crate) server: Option<&'a str>,
    pub(crate) tool: Option<&'a str>,
    pub(crate) intent_type: Option<Variant>,
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) metadata: &'a str,
    pub(crate) args: Option<&'a PayloadFacts>,
}

/// What a whole line and the end of a call say.
pub(crate) struct Last<'a> {
    pub(crate) status: Status,
    pub(crate) code: Option<&'a str>,
    pub(crate) message: Option<&'a str>,
    pub(crate) duration_us: Option<u64>,
    pub(crate) metadata: Option<&'a str>,
    pub(crate) result: Option<&'a PayloadFacts>,
}

/// A call that began and had not ended when this was written.
pub(crate) fn begin(seq: i64, first: &First<'_>) -> String {
    let started =
        Last { status: Status::Started, code: None, message: None, duration_us: None, metadata: None, result: None };
    write(seq, first.id, "begin", Some(first), &started)
}

/// Something that was over when it was written.
pub(crate) fn whole(seq: i64, first: &First<'_>, last: &Last<'_>) -> String {
    write(seq, first.id, "whole", Some(first), last)
}

/// How a call ended whose beginning was written before.
pub(crate) fn end(seq: i64, id: RecordId, last: &Last<'_>) -> String {
    write(seq, id, "end", None, last)
}

fn write(seq: i64, id: RecordId, form: &str, first: Option<&First<'_>>, last: &Last<'_>) -> String {
    let mut line = Line::new(seq, id, form);
    if let Some(first) = first {
        line.word("type", Some(first.kind.as_str()));
    }
    line.word("status", Some(last.status.as_str()));
    if let Some(first) = first {
        line.word("agent", first.agent);
        line.word("client", first.client);
        line.word("server", first.server);
        line.word("tool", first.tool);
        line.word("intent_type", first.intent_type.map(Variant::operation));
        line.word("risk", first.risk.map(RiskLevel::as_str));
    }
    line.word("code", last.code);
    line.word("message", last.message);
    line.number("duration_us", last.duration_us);
    line.json("metadata", first.map(|first| first.metadata));
    line.json("end_metadata", last.metadata);
    line.payload("args", first.and_then(|first| first.args));
    line.payload("result", last.result);
    line.finish()
}

/// The lines of a row: one, or the beginning and the end with their positions.
pub(crate) fn of_record(record: &Record) -> ((i64, String), Option<(i64, String)>) {
    let first = First::of_read(record);
    let last = Last::of_read(record);
    match record.end_seq {
        Some(end_seq) => ((record.seq, begin(record.seq, &first)), Some((end_seq, end(end_seq, record.id, &last)))),
        None if record.status == Status::Started => ((record.seq, begin(record.seq, &first)), None),
        None => ((record.seq, whole(record.seq, &first, &last)), None),
    }
}

impl<'a> First<'a> {
    pub(crate) fn of_new(id: RecordId, record: &'a NewRecord) -> Self {
        Self {
            id,
            kind: record.kind,
            agent: record.agent.as_deref(),
            client: record.client.as_deref(),
            server: record.server.as_deref(),
            tool: record.tool.as_deref(),
            intent_type: record.intent_type,
            risk: record.risk,
            metadata: &record.metadata,
            args: record.args.as_ref().map(Payload::facts),
        }
    }

    fn of_read(record: &'a Record) -> Self {
        let word = |word: &'a Option<mcpproxy_core::Untrusted>| word.as_ref().map(|word| word.for_json());
        Self {
            id: record.id,
            kind: record.kind,
            agent: record.agent.as_deref(),
            client: word(&record.client),
            server: word(&record.server),
            tool: word(&record.tool),
            intent_type: record.intent_type,
            risk: record.risk,
            metadata: record.metadata.for_json(),
            args: record.args.as_ref(),
        }
    }
}

impl<'a> Last<'a> {
    pub(crate) fn of_new(record: &'a NewRecord, ended: &'a Ended) -> Self {
        Self {
            status: record.status,
            code: record.code.as_deref(),
            message: record.message.as_deref(),
            duration_us: record.duration_us,
            metadata: ended.metadata.as_deref(),
            result: ended.result.as_ref().map(Payload::facts),
        }
    }

    pub(crate) fn of_outcome(outcome: &'a Outcome) -> Self {
        Self {
            status: outcome.status,
            code: outcome.code.as_deref(),
            message: outcome.message.as_deref(),
            duration_us: outcome.duration_us,
            metadata: outcome.metadata.as_deref(),
            result: outcome.result.as_ref().map(Payload::facts),
        }
    }

    fn of_read(record: &'a Record) -> Self {
        let word = |word: &'a Option<mcpproxy_core::Untrusted>| word.as_ref().map(|word| word.for_json());
        Self {
            status: record.status,
            code: word(&record.code),
            message: word(&record.message),
            duration_us: record.duration_us,
            metadata: word(&record.end_metadata),
            result: record.result.as_ref(),
        }
    }
}

/// A JSON object that is being written, member by member. What is not there is left out.
struct Line {
    text: String,
}

impl Line {
    fn new(seq: i64, id: RecordId, form: &str) -> Self {
        let mut line = Self { text: String::with_capacity(LINE_BYTES) };
        line.display(format_args!("{{\"seq\":{seq},\"id\":\"{id}\",\"line\":\"{form}\""));
        line
    }

    fn word(&mut self, name: &str, word: Option<&str>) {
        let Some(word) = word else { return };
        if word.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.text.extend([",\"", name, "\":\"", word, "\""]);
        } else {
            self.json(name, Some(&quote(word)));
        }
    }

    fn number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.display(format_args!(",\"{name}\":{number}"));
        }
    }

    fn json(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text.extend([",\"", name, "\":", value]);
        }
    }

    fn payload(&mut self, name: &str, facts: Option<&PayloadFacts>) {
        let Some(facts) = facts else { return };
        self.display(format_args!(",\"{name}\":{{\"bytes\":{},\"sha256\":\"", facts.bytes));
        push_hex(&mut self.text, &facts.digests.whole);
        if let Some(kept) = &facts.digests.kept {
            self.text.push_str("\",\"kept_sha256\":\"");
            push_hex(&mut self.text, kept);
        }
        self.text.push_str("\"}");
    }

    fn display(&mut self, words: fmt::Arguments<'_>) {
        // A text takes whatever it is given.
        let _taken = self.text.write_fmt(words);
    }

    fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(&mut text, bytes);
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    for part in bytes.chunks(32) {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(part) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        let digits = digits.get(..2 * part.len()).and_then(|digits| str::from_utf8(digits).ok());
        text.push_str(digits.unwrap_or_default());
    }
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).filter_map(|pair| Some((pair.first()? << 4) | pair.get(1)?)).collect())
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::mask;

    use super::*;
    use crate::record::id::Key;

    /// Whoever wants to prove a bundle with another program goes by this form.
    #[test]
    fn lines_have_one_form() {
        let id = RecordId::new(Key::next(None, 0, 1_700_000_000_000), 5);
        let facts = |text: &str| *Payload::of(mask(text, &[]), text.len()).facts();
        let long = "x".repeat(crate::PAYLOAD_MAX_BYTES + 1);
        let (args, result) = (facts("{}"), facts(&long));
        let first = First {
            id,
            kind: Kind::Call,
            agent: Some("local"),
            client: Some("a \"b\" \\ \n\u{202e}é"),
            server: Some("mail"),
            tool: None,
            intent_type: Some(Variant::Destructive),
            risk: Some(RiskLevel::High),
            metadata: r#"{"a":1}"#,
            args: Some(&args),
        };
        let last = Last {
            status: Status::Error,
            code: Some("timeout"),
            message: Some(""),
            duration_us: Some(7),
            metadata: Some(r#"{"b":[]}"#),
            result: Some(&result),
        };
        let names = concat!(
            r#""agent":"local","client":"a \"b\" \\ \n"#,
            "\u{202e}é\",",
            r#""server":"mail","intent_type":"destructive","risk":"high""#
        );
        let args = concat!(
            r#""args":{"bytes":2,"sha256":"#,
            r#""44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}"#
        );
        let (whole_text, kept_text) = (hex(&digest(&long)), hex(&digest(&"x".repeat(crate::PAYLOAD_MAX_BYTES))));
        let result = format!(r#""result":{{"bytes":65537,"sha256":"{whole_text}","kept_sha256":"{kept_text}"}}"#);
        let end_words = r#""code":"timeout","message":"","duration_us":7"#;
        let check = |line: String, form: &str, members: String| {
            let (seq, form) = form.split_once(' ').unwrap();
            assert_eq!(line, format!(r#"{{"seq":{seq},"id":"{id}","line":"{form}",{members}}}"#));
        };
        let metadata = r#""metadata":{"a":1}"#;
        let end_metadata = r#""end_metadata":{"b":[]}"#;
        check(begin(1, &first), "1 begin", format!(r#""type":"call","status":"started",{names},{metadata},{args}"#));
        check(
            whole(2, &first, &last),
            "2 whole",
            format!(r#""type":"call","status":"error",{names},{end_words},{metadata},{end_metadata},{args},{result}"#),
        );
        check(end(3, id, &last), "3 end", format!(r#""status":"error",{end_words},{end_metadata},{result}"#));
    }

    #[test]
    fn every_line_changes_the_hash() {
        let origin = origin("abc");
        let (one, two) = (digest("one"), digest("two"));
        assert_eq!(origin, digest("mcpproxy chain abc"));
        assert_ne!(link(&link(&origin, &one), &two), link(&link(&origin, &two), &one));
        assert_ne!(link(&origin, &one), link(&link(&origin, &one), &one));
    }

    #[test]
    fn hex_leads_back() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(from_hex("001FFf"), Some(vec![0, 0x1f, 0xff]));
        for wrong in ["0", "0g", "é0", " 00"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
