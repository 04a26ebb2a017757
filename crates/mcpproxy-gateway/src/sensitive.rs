//! Masks the fields that a contract marks as sensitive in everything that is recorded about a call.

use std::borrow::Cow;

use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::{Pointer, Tool, mask};
use mcpproxy_store::Payload;
use serde_json::value::RawValue;

use crate::message::{RpcError, member, object, with_members};

/// Shorter values would match, and mask, unrelated text.
const VALUE_MIN_BYTES: usize = 4;

/// The sensitive fields of a tool, and their values in one call. Servers repeat arguments in other fields and in prose,
/// so the values are masked wherever they appear.
#[derive(Debug, Default)]
pub(crate) struct Sensitive {
    pointers: Vec<Pointer>,
    values: Vec<String>,
}

impl Sensitive {
    pub(crate) fn of(tool: &Tool, arguments: &str) -> Self {
        Self::new(pointers(tool), arguments)
    }

    pub(crate) fn new(pointers: Vec<Pointer>, arguments: &str) -> Self {
        if pointers.is_empty() {
            return Self::default();
        }
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        let found = pointers.iter().flat_map(|pointer| pointer.strings(&arguments));
        let mut values: Vec<String> = found.filter(|value| value.len() >= VALUE_MIN_BYTES).map(str::to_owned).collect();
        // The longest first: one may be part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { pointers, values }
    }

    /// Masks the values in a sentence.
    pub(crate) fn sentence(&self, text: String) -> String {
        self.values.iter().fold(text, |text, value| text.replace(value, "***"))
    }

    /// Masks arguments for an approval request. They are not shortened.
    pub(crate) fn shown(&self, text: &str) -> String {
        mask(text, &self.pointers).into_owned()
    }

    /// Masks the attached members. Answers to the server's requests may repeat sensitive arguments.
    pub(crate) fn shown_attached(&self, text: &str) -> String {
        let in_answer = |pointer: &Pointer| pointer.under("content").under_any().under("inputResponses");
        let under: Vec<Pointer> = self.pointers.iter().map(in_answer).collect();
        mask(&self.json(text), &under).into_owned()
    }

    /// Masks a preview, which contains the arguments.
    pub(crate) fn preview(&self, text: &str) -> Payload {
        let under: Vec<Pointer> =
            self.pointers.iter().map(|pointer| pointer.under("arguments").under("wouldCall")).collect();
        Payload::of(mask(&self.json(text), &under), text.len())
    }

    pub(crate) fn arguments(&self, text: &str) -> Payload {
        Payload::of(mask(text, &self.pointers), text.len())
    }

    /// Masks the parameters of a `call_tool_*`, which contain the arguments as an object or as JSON text. Only refused
    /// calls are recorded this way. A model may have put the arguments under another name, or some of them beside
    /// `args`. So every pointer is tried on the parameters themselves and inside each of them.
    pub(crate) fn parameters(&self, text: &str) -> Payload {
        if self.pointers.is_empty() {
            return Payload::of(mask(text, &[]), text.len());
        }
        let fields = members(text).unwrap_or_default();
        // One pointer for all parameters: an agent decides how many there are.
        let inside = self.pointers.iter().map(Pointer::under_any);
        let pointers: Vec<Pointer> = self.pointers.iter().cloned().chain(inside).collect();
        let shown: Vec<(&str, Option<String>)> =
            fields.iter().map(|(key, value)| (key.as_ref(), self.json_text(value))).collect();
        let masked = match shown.iter().any(|(_, masked)| masked.is_some()) {
            true => object(
                shown.iter().zip(&fields).map(|((key, masked), (_, value))| (*key, masked.as_deref().unwrap_or(value))),
            ),
            false => text.to_owned(),
        };
        Payload::of(mask(&self.json(&masked), &pointers), text.len())
    }

    /// Masks arguments that a JSON string contains. Returns `None` if there is nothing to mask.
    fn json_text(&self, value: &str) -> Option<String> {
        let inner = string_value(value)?;
        let masked = mask(&inner, &self.pointers);
        (masked.as_str() != inner).then(|| quote(masked.as_str()))
    }

    /// Masks a result: the structured part, and texts that repeat it as JSON or in prose.
    pub(crate) fn result(&self, text: &str) -> Payload {
        if self.pointers.is_empty() {
            return Payload::of(mask(text, &[]), text.len());
        }
        let mut both = Self::new(self.pointers.clone(), member(text, "structuredContent").unwrap_or("{}"));
        both.values.extend(self.values.iter().cloned());
        both.result_without(text)
    }

    fn result_without(&self, text: &str) -> Payload {
        let under: Vec<Pointer> = self.pointers.iter().map(|pointer| pointer.under("structuredContent")).collect();
        let content = member(text, "content").and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok());
        let blocks: Vec<String> =
            content.unwrap_or_default().into_iter().map(|block| self.block(block.get())).collect();
        let masked = match blocks.as_slice() {
            [] => self.json(text).into_owned(),
            blocks => self.json(&with_members(text, &[("content", &format!("[{}]", blocks.join(",")))])).into_owned(),
        };
        Payload::of(mask(&masked, &under), text.len())
    }

    pub(crate) fn error(&self, error: &RpcError) -> Payload {
        let text = error.object();
        let under: Vec<Pointer> = self.pointers.iter().map(|pointer| pointer.under("data")).collect();
        Payload::of(mask(&self.json(&text), &under), text.len())
    }

    fn block(&self, block: &str) -> String {
        let masked = |text: &str| quote(mask(text, &self.pointers).as_str());
        if let Some(text) = member(block, "text").and_then(string_value) {
            return with_members(block, &[("text", &masked(&text))]);
        }
        let resource = member(block, "resource");
        match resource.and_then(|resource| member(resource, "text")).and_then(string_value) {
            Some(text) => {
                let resource = with_members(resource.unwrap_or("{}"), &[("text", &masked(&text))]);
                with_members(block, &[("resource", &resource)])
            }
            None => block.to_owned(),
        }
    }

    /// Masks the values in JSON text, as they are escaped in JSON, and in JSON that is a string in JSON.
    fn json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for value in &self.values {
            let once = inside(value);
            let twice = inside(&once);
            for form in [&twice, &once] {
                if text.contains(form.as_str()) {
                    text = Cow::Owned(text.replace(form.as_str(), "***"));
                }
            }
        }
        text
    }
}

/// Returns the JSON string of a text, without its quotes.
fn inside(text: &str) -> String {
    let quoted = quote(text);
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

pub(crate) fn pointers(tool: &Tool) -> Vec<Pointer> {
    tool.contract.sensitive.value.iter().map(|place| place.pointer.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_masked_under_every_spelling() {
        let sensitive = Sensitive::new(vec![Pointer::parse("/pin").unwrap()], "{}");
        let check = |given: &str, expected: &str| assert_eq!(sensitive.parameters(given).text(), expected, "{given}");
        check(r#"{"name":"a:b","args":{"pin":"4711"}}"#, r#"{"name":"a:b","args":{"pin":"***"}}"#);
        check(r#"{"name":"a:b","args_json":"{\"pin\":4711}"}"#, r#"{"name":"a:b","args_json":"{\"pin\":\"***\"}"}"#);
        check(
            r#"{"name":"a:b","args":{"pin":"4711"},"arguments":{"pin":"4712"}}"#,
            r#"{"name":"a:b","args":{"pin":"***"},"arguments":{"pin":"***"}}"#,
        );
        check(r#"{"name":"a:b","args":"{\"pin\":4711}"}"#, r#"{"name":"a:b","args":"{\"pin\":\"***\"}"}"#);
        check(r#"{"name":"a:b","pin":"4711"}"#, r#"{"name":"a:b","pin":"***"}"#);
        check(r#"{"name":"a:b","pin":"4711","args":{}}"#, r#"{"name":"a:b","pin":"***","args":{}}"#);
        check(
            r#"{"name":"a:b","pin":4711,"args_json":"{\"pin\":1}","input":{"pin":[1,2],"x":"y"}}"#,
            r#"{"name":"a:b","pin":"***","args_json":"{\"pin\":\"***\"}","input":{"pin":["***","***"],"x":"y"}}"#,
        );
        check(r#"{"name":"a:b","params":"{\"pin\":4711}"}"#, r#"{"name":"a:b","params":"{\"pin\":\"***\"}"}"#);
        check(r#"["a:b",{"pin":"4711"}]"#, r#"["a:b",{"pin":"***"}]"#);
        check("{}", "{}");
    }

    #[test]
    fn masking_takes_no_longer_for_each_further_parameter() {
        let sensitive = Sensitive::new(vec![Pointer::parse("/pin").unwrap(), Pointer::parse("/a/b").unwrap()], "{}");
        let many: Vec<String> = (0..50_000).map(|number| format!("\"p{number}\":{{\"pin\":\"4711\"}}")).collect();
        let masked = sensitive.parameters(&format!("{{{}}}", many.join(",")));
        assert!(!masked.text().contains("4711"));
    }

    #[test]
    fn values_are_masked_wherever_they_appear() {
        let pointers = vec![Pointer::parse("/card").unwrap(), Pointer::parse("/to/*/mail").unwrap()];
        let sensitive = Sensitive::new(
            pointers,
            r#"{"card":"4711-\"x\"","to":[{"mail":"anna@example.org"},{"mail":"ab"}],"body":"hello"}"#,
        );
        let result = sensitive.result(
            r#"{"content":[{"type":"text","text":"sent hello to anna@example.org, ab"},{"type":"resource","resource":{"uri":"x:y","text":"{\"card\":\"other\"}"}}],"structuredContent":{"card":1,"echo":{"c":"4711-\"x\""}}}"#,
        );
        assert_eq!(
            result.text(),
            r#"{"content":[{"type":"text","text":"sent hello to ***, ab"},{"type":"resource","resource":{"uri":"x:y","text":"{\"card\":\"***\"}"}}],"structuredContent":{"card":"***","echo":{"c":"***"}}}"#
        );
        let error = RpcError {
            code: -1,
            message: "no mail to anna@example.org".to_owned(),
            data: Some(r#"{"card":7}"#.to_owned()),
        };
        assert_eq!(sensitive.error(&error).text(), r#"{"code":-1,"message":"no mail to ***","data":{"card":"***"}}"#);
        let prose = r#"{"content":[{"type":"text","text":"card 0815 it is"}],"structuredContent":{"card":"0815"}}"#;
        let masked = r#"{"content":[{"type":"text","text":"card *** it is"}],"structuredContent":{"card":"***"}}"#;
        assert_eq!(sensitive.result(prose).text(), masked);
        assert_eq!(sensitive.sentence("4711-\"x\" is blocked".to_owned()), "*** is blocked");
    }
}
