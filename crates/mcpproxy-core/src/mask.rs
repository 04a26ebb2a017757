//! Masks secrets in arguments and results before the activity log or an approval page sees them.
//!
//! ```text
//! {"user":"kim","password":"hunter2"}        {"user":"kim","password":"***"}
//! curl -H "Authorization: Bearer abc.def.x"  curl -H "Authorization: Bearer ***"
//! postgres://app:s3cret@db/prod              postgres://app:***@db/prod
//! ghp_0123456789abcdefghijABCDEFGHIJ012345   ghp_***
//! ```
//!
//! Three kinds of secrets are masked:
//! 1. values at the JSON pointers of a contract's `sensitive` list (`pointer`),
//! 2. values that follow a name such as `password` or `api_key` (`names`, `value`),
//! 3. well-known token formats, whatever they are called (`formats`).
//!
//! The first is exact. The other two are heuristics, and run as one pass: `search` stops at every trigger word, such as
//! `token` or `ghp_`. The text around the word then decides whether a secret is there and where it ends.
//!
//! Everything works on the text itself, not on parsed JSON. Secrets also occur in JSON inside a string of JSON, in
//! truncated text, in log lines and in shell commands. A parser would see none of these. The price is `text::Quote`,
//! which knows how quotes look at every level of escaping.
//!
//! Invariants:
//! - [`Masked`] can be made by this module only. The log accepts nothing else, so unmasked text cannot reach it.
//! - JSON stays JSON: a masked number becomes the string `"***"`, and quotes keep their escapes.
//! - Masking a masked text changes nothing.
//! - The work grows linearly with the text, also if an attacker wrote it. The test below counts steps.

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

/// Replaces every secret, whatever its length.
const STARS: &str = "***";

/// Text without known secrets. Only this module can make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked<'t> {
    text: Cow<'t, str>,
}

impl<'t> Masked<'t> {
    /// Returns the masked text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the masked text as an owned string.
    pub fn into_owned(self) -> String {
        self.text.into_owned()
    }

    /// Returns the masked text, borrowed if nothing was masked.
    pub fn into_cow(self) -> Cow<'t, str> {
        self.text
    }

    /// Returns `true` if anything was masked.
    pub fn is_changed(&self) -> bool {
        matches!(self.text, Cow::Owned(_))
    }
}

/// Masks the values at the `sensitive` pointers, values under secret-sounding names, and well-known token formats.
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

/// Masks secrets that need no contract to be known. Returns `None` if there are none.
fn known(text: &str) -> Option<String> {
    let mut out = MaskedOutput::new(text);
    let has_odd_escapes = SecretScan::new(text, &mut out).run();
    if has_odd_escapes && json::read_server(text.as_bytes()).is_ok() {
        // No common JSON writer escapes `a` as `\u0061`. It may hide a name, so look at the plain text.
        let plain = without_odd_escapes(text);
        let mut out = MaskedOutput::new(&plain);
        SecretScan::new(&plain, &mut out).run();
        return out.finish();
    }
    out.finish()
}

/// The kind of secret that a trigger word announces.
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

/// One pass over a text, or over a part of it.
struct SecretScan<'t, 'o> {
    text: Text<'t>,
    whole: &'t str,
    out: &'o mut MaskedOutput<'t>,
    /// `true` if the whole text is JSON. Computed at first use, because few texts need to know.
    is_json: OnceCell<bool>,
}

impl<'t, 'o> SecretScan<'t, 'o> {
    fn new(text: &'t str, out: &'o mut MaskedOutput<'t>) -> Self {
        Self { text: Text::new(text), whole: text, out, is_json: OnceCell::new() }
    }

    /// Masks the text. Returns `true` if it has escapes that hide letters or digits.
    fn run(&mut self) -> bool {
        let mut done = 0;
        let mut has_odd_escapes = false;
        SEARCH.each(self.whole, |found| {
            if found.start < done {
                return;
            }
            if let Trigger::OddEscape = found.kind {
                has_odd_escapes |= self.text.coded(found.start + 1).is_some_and(|byte| byte.is_ascii_alphanumeric());
            } else if let Some(behind) = self.look(found.kind, found.start, found.end) {
                done = behind;
            }
        });
        has_odd_escapes
    }

    /// Masks the secret that a trigger word announces, if there is one. Returns where the search may continue.
    fn look(&mut self, trigger: Trigger, start: usize, end: usize) -> Option<usize> {
        let text = self.text;
        let found = match trigger {
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

    /// Masks a part of the text as if it stood alone.
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

/// The masked text so far. Nothing is copied before the first secret.
struct MaskedOutput<'t> {
    text: &'t str,
    written: String,
    /// End of the input that was written already.
    done: usize,
    /// Start of the part that is being scanned.
    base: usize,
}

impl<'t> MaskedOutput<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, written: String::new(), done: 0, base: 0 }
    }

    /// Replaces a range, unless it is empty or masked already.
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

    /// Replaces a number by a string, so that JSON stays JSON.
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

/// Returns the same JSON with letters and digits instead of their `\u` escapes.
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

    /// A quadratic scan would show here: its steps per byte grow with the text.
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
