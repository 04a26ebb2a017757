//! Parses JSON with comments and trailing commas, and nothing looser.

use jsonc_parser::ast::Value;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, parse_to_ast};

/// JSON with comments and trailing commas, as the files of operators and of AI clients are written.
pub const JSONC: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a text. Returns `None` if it is empty. The error is the byte offset of the first mistake, and how to fix it.
pub(super) fn parse(text: &str) -> Result<Option<Value<'_>>, (usize, String)> {
    // The parser lets a string run over line ends, so it would report a missing quote much too late.
    if let Some(at) = string_over_line_end(text) {
        return Err((at, "this string has no closing `\"` on its line".to_owned()));
    }
    match parse_to_ast(text, &CollectOptions::default(), &JSONC) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) => Err((error.range().start, message(error.kind()))),
    }
}

fn message(kind: &ParseErrorKind) -> String {
    let text = match kind {
        ParseErrorKind::UnterminatedObject => "this `{` is never closed; add the missing `}`",
        ParseErrorKind::UnterminatedArray => "this `[` is never closed; add the missing `]`",
        ParseErrorKind::UnterminatedCommentBlock => "this `/*` is never closed; add the missing `*/`",
        ParseErrorKind::ExpectedColonAfterObjectKey => "expected `:` after the key",
        ParseErrorKind::ExpectedObjectValue => "expected a value after `:`",
        ParseErrorKind::ExpectedStringObjectProperty => "expected a key in double quotes",
        ParseErrorKind::ExpectedComma => "expected `,` before what follows",
        ParseErrorKind::MultipleRootJsonValues => "expected the end of the file; the whole file is one `{ … }`",
        ParseErrorKind::SingleQuotedStringsNotAllowed => "expected double quotes, found a single quote",
        ParseErrorKind::UnexpectedCloseBrace => "expected a value, found `}`",
        ParseErrorKind::UnexpectedCloseBracket => "expected a value, found `]`",
        ParseErrorKind::UnexpectedColon => "expected a value, found `:`",
        ParseErrorKind::UnexpectedComma => "expected a value, found `,`",
        ParseErrorKind::UnexpectedTokenInObject => "expected a key in double quotes, or `}`",
        ParseErrorKind::UnexpectedWord | ParseErrorKind::UnexpectedToken => {
            "expected a value: text in double quotes, a number, true, false, null, `[` or `{`"
        }
        ParseErrorKind::NestingDepthExceeded => "this is nested too deeply",
        ParseErrorKind::ExpectedDigit
        | ParseErrorKind::ExpectedDigitFollowingNegativeSign
        | ParseErrorKind::ExpectedPlusMinusOrDigitInNumberLiteral
        | ParseErrorKind::BareDecimalPointNumbersNotAllowed
        | ParseErrorKind::HexadecimalNumbersNotAllowed
        | ParseErrorKind::UnaryPlusNumbersNotAllowed
        | ParseErrorKind::NonFiniteNumbersNotAllowed => "expected a plain number such as 10",
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => "this string has no closing `\"`",
        ParseErrorKind::String(_) => "unknown escape in a string; write `\\\\` for one backslash",
        // These cannot occur with the options above. The library's own words are better than none.
        ParseErrorKind::CommentsNotAllowed | ParseErrorKind::TrailingCommasNotAllowed | ParseErrorKind::Custom(_) => {
            return kind.to_string();
        }
    };
    text.to_owned()
}

/// Returns the offset of the first string that is still open at the end of its line.
fn string_over_line_end(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match (byte, bytes.peek().map(|(_, next)| *next)) {
            (b'"', _) => loop {
                match bytes.next()?.1 {
                    b'"' => break,
                    b'\n' | b'\r' => return Some(at),
                    b'\\' => match bytes.next()?.1 {
                        b'\n' | b'\r' => return Some(at),
                        _ => {}
                    },
                    _ => {}
                }
            },
            (b'/', Some(b'/')) => while bytes.next_if(|(_, byte)| !matches!(byte, b'\n' | b'\r')).is_some() {},
            (b'/', Some(b'*')) => {
                bytes.next();
                let mut previous = b' ';
                loop {
                    let byte = bytes.next()?.1;
                    if previous == b'*' && byte == b'/' {
                        break;
                    }
                    previous = byte;
                }
            }
            _ => {}
        }
    }
    None
}
