//! The lines of the hash chain: the text that is hashed for each record.
//!
//! A line is a JSON object with a fixed order of members. It is never stored. It is built from the columns of a row
//! when the row is written, and built again from the same columns when the chain is verified. So a changed column is a
//! broken chain, and there is no second copy that could differ.
//!
//! Each gateway has its own chain, named after its public key. Positions count from 1 without gaps:
//!
//! ```text
//! hash(0) = SHA-256("mcpproxy chain " + chain name)
//! hash(n) = SHA-256(hash(n - 1) + SHA-256(line(n)))
//! ```
//!
//! The inner digest lets a bundle prove a position without showing its line (`bundle.rs`), and lets retention keep a
//! stub of a removed line (`removal.rs`).
//!
//! A record has one or two lines, because positions are assigned in the order of writing:
//!
//! | form | written when | example |
//! |---|---|---|
//! | `whole` | an event, or a call that ended before it was written | `{"seq":7,"id":"01HF…","line":"whole","type":"call","status":"success",…}` |
//! | `begin` | a call that is still running | `{"seq":8,"id":"01HG…","line":"begin","type":"call","status":"started",…}` |
//! | `end` | its end | `{"seq":9,"id":"01HG…","line":"end","status":"success",…}` |
//!
//! Invariants: absent values are left out, never `null`. Payloads appear as size and digests only, so erasing a payload
//! breaks nothing. Other programs verify bundles by this form, so any change of it needs a new bundle version. The test
//! `lines_have_one_form` pins it.

use std::fmt::{self, Write as _};

use mcpproxy_core::json::quote;
use mcpproxy_core::{RiskLevel, Variant};

use super::operation::EarlyEnd;
use crate::sha256::sha256;
use crate::text::push_hex;
use crate::{Kind, NewRecord, Outcome, Payload, PayloadFacts, Record, RecordId, Status};

/// Initial capacity. Most lines are shorter.
const LINE_BYTES: usize = 1024;

pub(crate) type Hash = [u8; 32];

/// `hash(0)`: the hash before the first line of a chain.
pub(crate) fn origin(chain_name: &str) -> Hash {
    sha256(format!("mcpproxy chain {chain_name}").as_bytes())
}

/// `hash(n)`, from `hash(n - 1)` and the digest of line `n`.
pub(crate) fn link(before: &Hash, line_digest: &Hash) -> Hash {
    let mut both = [0; 64];
    for (to, from) in both.iter_mut().zip(before.iter().chain(line_digest)) {
        *to = *from;
    }
    sha256(&both)
}

pub(crate) fn digest(line: &str) -> Hash {
    sha256(line.as_bytes())
}

/// The members of a `whole` or `begin` line that are known at the beginning.
pub(crate) struct BeginFields<'a> {
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

/// The members of a `whole` or `end` line that are known at the end.
pub(crate) struct EndFields<'a> {
    pub(crate) status: Status,
    pub(crate) code: Option<&'a str>,
    pub(crate) message: Option<&'a str>,
    pub(crate) duration_us: Option<u64>,
    pub(crate) metadata: Option<&'a str>,
    pub(crate) result: Option<&'a PayloadFacts>,
}

/// The line of a call that has begun.
pub(crate) fn begin(seq: i64, first: &BeginFields<'_>) -> String {
    let started = EndFields {
        status: Status::Started,
        code: None,
        message: None,
        duration_us: None,
        metadata: None,
        result: None,
    };
    write(seq, first.id, "begin", Some(first), &started)
}

/// The line of an event, or of a call that has already ended.
pub(crate) fn whole(seq: i64, first: &BeginFields<'_>, last: &EndFields<'_>) -> String {
    write(seq, first.id, "whole", Some(first), last)
}

/// The line of the end of a call whose beginning has a line of its own.
pub(crate) fn end(seq: i64, id: RecordId, last: &EndFields<'_>) -> String {
    write(seq, id, "end", None, last)
}

fn write(seq: i64, id: RecordId, form: &str, first: Option<&BeginFields<'_>>, last: &EndFields<'_>) -> String {
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

/// The lines of a row with their positions: a `whole` or `begin` line, and an `end` line if there is one.
pub(crate) fn of_record(record: &Record) -> ((i64, String), Option<(i64, String)>) {
    let first = BeginFields::of_stored(record);
    let last = EndFields::of_stored(record);
    match record.end_seq {
        Some(end_seq) => ((record.seq, begin(record.seq, &first)), Some((end_seq, end(end_seq, record.id, &last)))),
        None if record.status == Status::Started => ((record.seq, begin(record.seq, &first)), None),
        None => ((record.seq, whole(record.seq, &first, &last)), None),
    }
}

impl<'a> BeginFields<'a> {
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

    fn of_stored(record: &'a Record) -> Self {
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

impl<'a> EndFields<'a> {
    pub(crate) fn of_new(record: &'a NewRecord, ended: &'a EarlyEnd) -> Self {
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

    fn of_stored(record: &'a Record) -> Self {
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

/// Builds a JSON object member by member. Absent values are left out.
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
        // Writing to a `String` cannot fail.
        let _taken = self.text.write_fmt(words);
    }

    fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::mask;

    use super::*;
    use crate::record::id::Key;
    use crate::text::hex;

    /// Other programs that verify bundles rely on this form.
    #[test]
    fn lines_have_one_form() {
        let id = RecordId::new(Key::next(None, 0, 1_700_000_000_000), 5);
        let facts = |text: &str| *Payload::of(mask(text, &[]), text.len()).facts();
        let long = "x".repeat(crate::PAYLOAD_MAX_BYTES + 1);
        let (args, result) = (facts("{}"), facts(&long));
        let first = BeginFields {
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
        let last = EndFields {
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
}
