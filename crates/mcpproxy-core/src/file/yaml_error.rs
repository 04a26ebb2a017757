//! Messages for syntax errors in YAML.

use granit_parser::ErrorKind;

use super::DEPTH_MAX;
use super::yaml::ANCHOR;

/// Returns our own message, because the parser's messages are an optional feature of the crate.
pub(super) fn message(kind: &ErrorKind) -> String {
    let text = match kind {
        kind if is_about_tabs(kind) => "found a tab; YAML is indented with spaces",
        ErrorKind::RecursionLimitExceeded => return format!("nested deeper than {DEPTH_MAX} levels"),
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnclosedFlowCollection { open: '[' }
        | ErrorKind::ExpectedFlowSequenceSeparator => "error in `[ … ]`: expected `,` or `]`",
        ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::ExpectedFlowMappingSeparator => "error in `{ … }`: expected `,` or `}`",
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return format!("found `{close}`, but `{open}` is open");
        }
        ErrorKind::MisplacedFlowCollectionEnd => "found a closing bracket without an opening one",
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => {
            "this text has no closing quote"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "found text after the closing quote; quote the whole text"
        }
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate
        | ErrorKind::InvalidUnicodeEscape => {
            "unknown escape in double quotes; write `\\\\` for one backslash, or use single quotes"
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::MappingKeyNotAllowed | ErrorKind::InvalidColonPlacement => {
            "`: ` is not allowed here; quote text that contains `: `, or check the indentation"
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey | ErrorKind::ExpectedBlockMappingKey => {
            "expected `key: value`; check the indentation, and that a `:` follows the key"
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::ExpectedBlockSequenceEntry => "the indentation does not match the lines before",
        ErrorKind::UnexpectedCharacter { character } if !character.is_ascii_graphic() => {
            return format!(
                "found U+{:04X}, which YAML allows only as an escape in double quotes",
                u32::from(*character)
            );
        }
        ErrorKind::UnexpectedCharacter { .. } => "text cannot begin with this character; quote it",
        ErrorKind::CommentNotSeparated | ErrorKind::CommentInterceptedScalar => {
            "a comment needs a space before its `#`, and ends the text before it"
        }
        ErrorKind::DirectiveDisallowed => "directives (`%`) are not supported; remove the line",
        ErrorKind::UndeclaredTagHandle => "tags (`!`) are not supported; quote text that begins with `!`",
        ErrorKind::MissingAnchorOrAliasName | ErrorKind::UnknownAnchor => ANCHOR,
        ErrorKind::ExpectedDocumentStart => "expected the end of the document; start another one with `---`",
        _ => "this is not YAML; check indentation, quotes and brackets here and above",
    };
    text.to_owned()
}

pub(super) fn is_about_tabs(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::InvalidBlockEntryWhitespace
            | ErrorKind::InvalidMappingValueWhitespace
            | ErrorKind::TabInPlainScalar
    )
}
