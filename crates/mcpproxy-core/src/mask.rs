//! Secrets are taken out of texts before anything remembers them.
//!
//! One search goes over the text once and stops at words that may be near a secret. What stands around such a word
//! then decides, and how far the secret reaches. All of that is looked at in the text as it is: in JSON, in JSON that
//! is embedded in strings of JSON, in JSON that was cut off, and in prose.

mod formats;
mod names;
mod pointer;
mod search;
mod text;
mod value;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::LazyLock;

use crate::json;
use formats::FORMATS;
use names::WORDS;
use search::TriggerSearch;
use text::{Quote, Text};

pub use pointer::{Pointer, PointerError};

/// What stands in place of a secret.
const STARS: &str = "***";

/// Text in which no known secret is left. Only this module makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked<'t> {
    text: Cow<'t, str>,
}

impl Masked<'_> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text, as one's own.
    pub fn into_owned(self) -> String {
        self.text.into_owned()
    }

    /// Whether anything was masked.
    pub fn is_changed(&self) -> bool {
        matches!(self.text, Cow::Owned(_))
    }
}

/// Masks JSON pointers, values under secret-sounding names, and well-known forms of secrets, in one pass.
pub fn mask<'t>(text: &'t str, sensitive: &[Pointer]) -> Masked<'t> {
    let mut text = Cow::Borrowed(text);
    if !sensitive.is_empty()
        && let Some(masked) = pointer::mask(&text, sensitive)
    {
        text = Cow::Owned(masked);
    }
    if let Some(masked) = known(&text) {
        text = Cow::Owned(masked);
    }
    Masked { text }
}

/// Masks what needs no contract; `None` if there is nothing.
fn known(text: &str) -> Option<String> {
    let mut out = MaskedOutput::new(text);
    let has_odd_escapes = SecretScan::new(text, &mut out).run();
    if has_odd_escapes && json::read_server(text.as_bytes()).is_ok() {
        // No usual writer of JSON puts `\u0061` for `a`. Read as it is meant, the text may show more.
        let plain = without_odd_escapes(text);
        let mut out = MaskedOutput::new(&plain);
        SecretScan::new(&plain, &mut out).run();
        return out.finish();
    }
    out.finish()
}

/// What a word stands for.
#[derive(Clone, Copy)]
enum Trigger {
    Name(usize),
    Form(usize),
    Jwt,
    SendGrid,
    Telegram,
    Bearer,
    Basic,
    PrivateKey,
    Address,
    IdentifiedBy,
    OddEscape,
}

const OTHERS: [(&str, Trigger); 10] = [
    ("eyJ", Trigger::Jwt),
    ("SG.", Trigger::SendGrid),
    (":AA", Trigger::Telegram),
    ("bearer ", Trigger::Bearer),
    ("basic ", Trigger::Basic),
    ("PRIVATE KEY", Trigger::PrivateKey),
    ("://", Trigger::Address),
    ("identified by ", Trigger::IdentifiedBy),
    ("signature", Trigger::Name(WORDS.len() - 1)),
    ("\\u00", Trigger::OddEscape),
];

static SEARCH: LazyLock<TriggerSearch<Trigger>> = LazyLock::new(|| {
    let names = WORDS.iter().enumerate().map(|(at, (word, _))| (*word, Trigger::Name(at)));
    let formats = FORMATS.iter().enumerate().map(|(at, form)| (form.prefix, Trigger::Form(at)));
    TriggerSearch::new(names.chain(formats).chain(OTHERS))
});

/// One text that is looked through.
struct SecretScan<'t, 'o> {
    text: Text<'t>,
    whole: &'t str,
    out: &'o mut MaskedOutput<'t>,
    /// Whether the text is JSON, once somebody asked.
    is_json: OnceCell<bool>,
}

impl<'t, 'o> SecretScan<'t, 'o> {
    fn new(text: &'t str, out: &'o mut MaskedOutput<'t>) -> Self {
        Self { text: Text::new(text), whole: text, out, is_json: OnceCell::new() }
    }

    /// Goes over the text, and says whether it has escapes that hide letters.
    fn run(&mut self) -> bool {
        let mut done = 0;
        let mut has_odd_escapes = false;
        SEARCH.each(self.whole, |hit| {
            if hit.start < done {
                return;
            }
            if let Trigger::OddEscape = hit.kind {
                has_odd_escapes |= self.text.coded(hit.start + 1).is_some_and(|byte| byte.is_ascii_alphanumeric());
            } else if let Some(behind) = self.look(hit.kind, hit.start, hit.end) {
                done = behind;
            }
        });
        has_odd_escapes
    }

    /// Masks the secret that a word belongs to, if there is one.
    fn look(&mut self, kind: Trigger, start: usize, end: usize) -> Option<usize> {
        let text = self.text;
        let found = match kind {
            Trigger::Name(at) => {
                let (_, kind) = WORDS.get(at)?;
                let end = names::name_end(text, *kind, start, end)?;
                return value::mask_after(self, *kind, start, end);
            }
            Trigger::Form(at) => FORMATS.get(at)?.secret(text, start, end)?,
            Trigger::Jwt => formats::jwt(text, start, end)?,
            Trigger::SendGrid => formats::sendgrid(text, start, end)?,
            Trigger::Telegram => formats::telegram(text, start, end)?,
            Trigger::Bearer => formats::bearer(text, start, end)?,
            Trigger::Basic => formats::basic(text, start, end)?,
            Trigger::PrivateKey => formats::private_key(text, start, end)?,
            Trigger::Address => formats::address(text, end)?,
            Trigger::IdentifiedBy if text.at(end) == b'\'' => {
                return value::mask_after(self, names::NameKind::Any, start, end - 1);
            }
            Trigger::IdentifiedBy | Trigger::OddEscape => return None,
        };
        let behind = found.end;
        self.out.replace(found, STARS);
        Some(behind)
    }

    /// Goes over a part of the text by itself.
    fn within(&mut self, range: Range<usize>) {
        let part = self.text.slice(range.clone());
        let before = self.out.base;
        self.out.base += range.start;
        SecretScan::new(part, &mut *self.out).run();
        self.out.base = before;
    }

    fn is_json(&self) -> bool {
        *self.is_json.get_or_init(|| json::read_server(self.whole.as_bytes()).is_ok())
    }
}

/// The masked text as far as it is written. Nothing is copied before the first secret.
struct MaskedOutput<'t> {
    text: &'t str,
    written: String,
    /// Up to where the text is written.
    done: usize,
    /// Where the part begins that is being looked at.
    base: usize,
}

impl<'t> MaskedOutput<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, written: String::new(), done: 0, base: 0 }
    }

    /// Puts something in the place of a part, unless nothing stands there, or stars already.
    fn replace(&mut self, range: Range<usize>, with: &str) {
        let (start, end) = (self.base + range.start, self.base + range.end);
        let part = self.text.get(start..end).unwrap_or_default();
        let is_masked = part == with || (part.starts_with(STARS) && part.bytes().all(|b| b == b'*'));
        if start < self.done || part.is_empty() || is_masked {
            return;
        }
        self.written.push_str(self.text.get(self.done..start).unwrap_or_default());
        self.written.push_str(with);
        self.done = end;
    }

    /// Puts a string in the place of a number.
    fn replace_quoted(&mut self, range: Range<usize>, quote: Quote) {
        let mut with = "\\".repeat(quote.backslashes);
        match (quote.coded, quote.mark) {
            (false, mark) => with.push(char::from(mark)),
            (true, mark) => with.push_str(&format!("u00{mark:02x}")),
        }
        let with = format!("{with}{STARS}{with}");
        self.replace(range, &with);
    }

    fn finish(mut self) -> Option<String> {
        if self.done == 0 && self.written.is_empty() {
            return None;
        }
        self.written.push_str(self.text.get(self.done..).unwrap_or_default());
        Some(self.written)
    }
}

/// The same JSON with letters and digits in place of their escapes.
fn without_odd_escapes(text: &str) -> String {
    let seen = Text::new(text);
    let mut plain = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    loop {
        at = seen.skip(at, |b| b != b'\\');
        if at >= text.len() {
            plain.push_str(seen.slice(done..at));
            return plain;
        }
        if let Some(byte) = seen.coded(at + 1).filter(u8::is_ascii_alphanumeric) {
            plain.push_str(seen.slice(done..at));
            plain.push(char::from(byte));
            at += 6;
            done = at;
        } else {
            at = seen.skip(at + 2, |b| !b.is_ascii());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::quote;

    /// Were anything looked at again and again, the steps per byte would grow with the text.
    #[test]
    fn hostile_texts_take_a_bounded_number_of_steps() {
        const STEPS_PER_BYTE: usize = 24;
        for part in [
            "password",
            "password=",
            "\"password\":",
            "{\"token\":",
            "[{\"secret\":[",
            "\"token\":{\"type\":\"",
            "PWD=/",
            "auth=!",
            ".sig=",
            "&sig=",
            "-sk-",
            "-sk-a1",
            "eyJ",
            "eyJ.",
            "-eyJa",
            "://",
            "://a:b",
            "<password>",
            "\\",
            "\\\"",
            "password\\",
            "\"password\\\":\\\"",
            "auth=\\\"",
            "\"auth\":\"\\\"auth\\\":\\\"",
            "token '",
            "password: '",
            "-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAAAAAAA",
            "PRIVATE KEY",
            "Bearer ",
            "Basic AAAA",
            "--token ",
            "\"--token\",\"",
            "\"password\",\"value\":",
            "a_password",
            "api_key ",
            "identified by '",
            "\\u0061",
            "cookie: a=",
            "authorization: basic ",
            "token=\"",
            "{'password': '",
            "`token`:`",
            "\\u0022password\\u0022:\\u0022",
        ] {
            let text = part.repeat((1 << 14) / part.len());
            for text in [quote(&text), quote(&quote(&text)), text] {
                let before = text::STEPS.get();
                let _masked = mask(&text, &[]);
                let steps = text::STEPS.get() - before;
                assert!(steps < STEPS_PER_BYTE * text.len(), "{steps} steps for {} bytes of {part}", text.len());
            }
        }
    }
}
