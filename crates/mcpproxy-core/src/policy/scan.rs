//! Splits a policy file into statements and tokens, and refuses what is too large before Cedar parses it.

use super::mistake::Fault;
use crate::Untrusted;

pub(super) const FILE_MAX_BYTES: usize = 256 * 1024;
pub(super) const POLICY_MAX_BYTES: usize = 32 * 1024;
/// Maximum nesting of brackets. Cedar's parser takes up to 60 KB of stack for each one in a debug build.
pub(super) const NESTING_MAX: usize = 12;
/// Maximum number of tokens in a statement. Cedar's parser recovers from every unexpected token, which is slow.
pub(super) const TOKENS_MAX: usize = 2_000;
/// Maximum number of statements in a file, one more than all files may have together.
pub(super) const STATEMENTS_MAX: usize = super::POLICIES_MAX + 1;
/// Maximum length of a chain of operators, calls and indexes. Cedar's tree is as deep as the chain, and is walked
/// recursively.
pub(super) const OPERATORS_MAX: usize = 100;
/// Maximum number of elements in sets and records, which Cedar builds again for every call.
pub(super) const ELEMENTS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    /// A string, with its quotes.
    Text,
    Sign,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    /// Byte offset in the file.
    pub(super) at: usize,
    /// The number of brackets that are open around the token.
    pub(super) depth: usize,
}

impl<'t> Token<'t> {
    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    /// Returns the text between the quotes, or `None` if it contains an escape.
    pub(super) fn plain_text(&self) -> Option<&'t str> {
        let inner = self.text.strip_prefix('"')?.strip_suffix('"')?;
        (self.kind == Kind::Text && !inner.contains('\\')).then_some(inner)
    }
}

/// One policy, from its first token to its `;`.
#[derive(Debug)]
pub(super) struct Statement<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) line: usize,
    pub(super) tokens: Vec<Token<'t>>,
}

/// The statements of a file, up to the first error.
#[derive(Debug, Default)]
pub(super) struct Scan<'t> {
    pub(super) statements: Vec<Statement<'t>>,
    /// The error that stopped the scan.
    pub(super) fault: Option<Fault>,
}

pub(super) fn scan(text: &str) -> Scan<'_> {
    if text.len() > FILE_MAX_BYTES {
        let message = format!("the file is larger than {} KiB: split it", FILE_MAX_BYTES / 1024);
        return Scan { statements: Vec::new(), fault: Some(Fault { at: 0, message }) };
    }
    if let Some((at, hidden)) = text.char_indices().find(|(_, letter)| is_hidden(*letter)) {
        let shown = Untrusted::new(hidden.to_string());
        let message = format!("the character {} can hide text: remove it", shown.for_terminal().replace('\\', ""));
        return Scan { statements: Vec::new(), fault: Some(Fault { at, message }) };
    }
    Scanner { text, at: 0, line: 1, scan: Scan::default() }.run()
}

/// Returns true for control characters and those that reorder text. A policy must mean what it appears to say.
fn is_hidden(letter: char) -> bool {
    let is_ordinary = letter.is_ascii_graphic() || matches!(letter, ' ' | '\n' | '\r' | '\t');
    !is_ordinary && letter != '\u{FEFF}' && {
        let text = letter.to_string();
        Untrusted::new(text.as_str()).for_terminal() != text
    }
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    scan: Scan<'t>,
}

impl<'t> Scanner<'t> {
    fn run(mut self) -> Scan<'t> {
        if self.rest().starts_with('\u{FEFF}') {
            self.step('\u{FEFF}'.len_utf8());
        }
        loop {
            self.skip_blanks();
            if self.rest().is_empty() || self.scan.statements.len() >= STATEMENTS_MAX {
                return self.scan;
            }
            if let Err(fault) = self.statement() {
                // The end of the broken policy is unknown, so the rest of the file is not read.
                self.scan.fault = Some(fault);
                return self.scan;
            }
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn step(&mut self, bytes: usize) -> &'t str {
        let taken = self.rest().get(..bytes).unwrap_or_else(|| self.rest());
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        self.at += taken.len();
        taken
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start().len();
            self.step(blanks);
            if !self.rest().starts_with("//") {
                return;
            }
            let end = self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
            self.step(end);
        }
    }

    /// Reads up to and including the next `;`. In Cedar, a `;` only ends a policy.
    fn statement(&mut self) -> Result<(), Fault> {
        let (at, line) = (self.at, self.line);
        let mut tokens = Vec::new();
        let mut size = Size::default();
        let mut is_ended = false;
        while !is_ended && !self.rest().is_empty() {
            let token = self.token(size.depth)?;
            size.add(&token, at)?;
            is_ended = token.is_sign(";");
            tokens.push(token);
            self.skip_blanks();
        }
        let end = tokens.last().map_or(at, Token::end);
        if !is_ended {
            return Err(Fault { at: end, message: "this policy has no end: add a `;`".to_owned() });
        }
        let text = self.text.get(at..end).unwrap_or_default();
        self.scan.statements.push(Statement { text, at, line, tokens });
        Ok(())
    }

    fn token(&mut self, depth: usize) -> Result<Token<'t>, Fault> {
        let at = self.at;
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let run = |belongs: fn(char) -> bool| rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
        let (kind, length) = match first {
            '"' => {
                let message = "this string has no end: add a `\"`".to_owned();
                (Kind::Text, string_length(rest).ok_or(Fault { at, message })?)
            }
            '0'..='9' => (Kind::Number, run(|letter| letter.is_ascii_digit())),
            first if is_part(first) => (Kind::Word, run(is_part_of_word)),
            first => {
                let two = ["==", "!=", "<=", ">=", "||", "&&", "::"];
                let length = if two.iter().any(|sign| rest.starts_with(sign)) { 2 } else { first.len_utf8() };
                (Kind::Sign, length)
            }
        };
        Ok(Token { kind, text: self.step(length), at, depth })
    }
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Returns the length of a string with its quotes.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The size of one policy so far.
#[derive(Default)]
struct Size {
    depth: usize,
    operators: usize,
    elements: usize,
    tokens: usize,
}

impl Size {
    fn add(&mut self, token: &Token<'_>, start: usize) -> Result<(), Fault> {
        match (token.kind, token.text) {
            (Kind::Sign, "(" | "[" | "{") => {
                self.depth += 1;
                self.operators += 1;
            }
            (Kind::Sign, ")" | "]" | "}") => self.depth = self.depth.saturating_sub(1),
            (Kind::Sign, "," | ":") => self.elements += 1,
            (Kind::Sign, ";" | "@") | (Kind::Number | Kind::Text, _) => {}
            (Kind::Sign, _) | (Kind::Word, "if" | "has" | "like" | "is" | "in" | "when" | "unless") => {
                self.operators += 1;
            }
            (Kind::Word, _) => {}
        }
        self.tokens += 1;
        let broken = if token.end() - start > POLICY_MAX_BYTES {
            format!("this policy is longer than {} KiB", POLICY_MAX_BYTES / 1024)
        } else if self.depth > NESTING_MAX {
            format!("brackets are nested deeper than {NESTING_MAX} levels")
        } else if self.operators > OPERATORS_MAX {
            format!("this policy has more than {OPERATORS_MAX} operators")
        } else if self.elements > ELEMENTS_MAX {
            format!("this policy lists more than {ELEMENTS_MAX} elements")
        } else if self.tokens > TOKENS_MAX {
            format!("this policy has more than {TOKENS_MAX} tokens")
        } else {
            return Ok(());
        };
        Err(Fault { at: token.at, message: format!("{broken}: split it into several policies") })
    }
}
