//! The arguments of a call, which the echo server sends back.

use serde_json::{Map, Value, json};

use crate::case::Content;

/// Maximum length of a needle that is searched with vector instructions.
const NEEDLE_BYTES: usize = 32;
const WORDS: &str = "the quick brown fox jumps over the lazy dog and runs on ";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[derive(Clone)]
pub(crate) struct Payload {
    /// The tool's own arguments.
    pub(crate) arguments: Value,
    /// Where the answer must contain the payload, or `None` if any success will do.
    answer: Option<(&'static str, Value)>,
    needle: String,
    min_bytes: usize,
}

impl Payload {
    pub(crate) fn new(content: Content, bytes: u32) -> Self {
        let bytes = bytes as usize;
        match content {
            Content::Words => Self::text(WORDS.chars().cycle().take(bytes).collect()),
            Content::Base64 => Self::text(base64(bytes)),
            Content::Nested => {
                let data = nested(bytes);
                Payload {
                    arguments: json!({ "data": data }),
                    answer: Some(("/structuredContent/data", data)),
                    needle: "\"structuredContent\"".to_owned(),
                    min_bytes: bytes / 2,
                }
            }
        }
    }

    pub(crate) fn query(words: &str) -> Self {
        let needle = "\"tools".to_owned();
        Payload { arguments: json!({ "query": words }), answer: None, needle, min_bytes: 100 }
    }

    fn text(text: String) -> Self {
        let needle = text.get(..NEEDLE_BYTES).unwrap_or(&text).to_owned();
        let min_bytes = text.len();
        Payload {
            arguments: json!({ "text": text }),
            answer: Some(("/content/0/text", json!(text))),
            needle,
            min_bytes,
        }
    }

    pub(crate) fn is_in(&self, result: &Value) -> bool {
        self.answer.as_ref().is_none_or(|(pointer, value)| result.pointer(pointer) == Some(value))
    }

    /// Tells whether the body can contain the payload, without parsing it.
    pub(crate) fn may_be_in(&self, body: &str) -> bool {
        body.len() > self.min_bytes && body.contains(&self.needle)
    }
}

/// Builds text that looks like encoded binary data: no byte is easy to predict.
fn base64(bytes: usize) -> String {
    let mut state: u64 = 0x2545_F491_4F6C_DD1D;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        BASE64.get((state % 64) as usize).map_or('A', |&byte| char::from(byte))
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// Builds rows as a database or an API returns them: short strings, numbers, flags and lists.
fn nested(bytes: usize) -> Value {
    let mut rows = Vec::new();
    let mut length = 0;
    while length < bytes {
        let number = rows.len();
        let row = json!({
            "id": number,
            "name": format!("Customer number {number}"),
            "active": number % 3 == 0,
            "balance": number as f64 * 1.25,
            "address": { "city": "Zürich", "lines": ["Bahnhofstrasse 1", "2nd \"floor\""], "geo": { "lat": 47.37, "lon": 8.54 } },
            "tags": ["new", "trial", "eu"],
            "notes": null,
        });
        length += row.to_string().len();
        rows.push(row);
    }
    Value::Object(Map::from_iter([("rows".to_owned(), Value::Array(rows))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_asked() {
        for content in [Content::Words, Content::Base64, Content::Nested] {
            let length = Payload::new(content, 10_000).arguments.to_string().len();
            assert!((10_000..11_000).contains(&length), "{content:?}: {length}");
        }
    }

    #[test]
    fn an_answer_is_compared() {
        let payload = Payload::new(Content::Words, 9);
        assert!(payload.is_in(&json!({"content": [{"type": "text", "text": "the quick"}]})));
        assert!(!payload.is_in(&json!({"content": [{"type": "text", "text": "the quack"}]})));
        assert!(payload.may_be_in("… the quick …") && !payload.may_be_in("the quick"));
        let nested = Payload::new(Content::Nested, 10);
        assert!(nested.is_in(&json!({"structuredContent": nested.arguments})));
        assert!(!nested.is_in(&json!({"structuredContent": {"data": {}}})));
    }
}
