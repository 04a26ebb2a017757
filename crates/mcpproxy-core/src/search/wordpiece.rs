//! Splits a text into the tokens of the table: BERT's WordPiece, in lower case and without accents.

use std::iter;

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

use super::vocabulary::{Place, TokenTable};

/// Longer words have no tokens, as in BERT.
const WORD_MAX_CHARS: usize = 100;

/// Returns the tokens of a text in their order. Words with an unknown part are left out.
pub(crate) fn tokens(table: &TokenTable, text: &str) -> impl Iterator<Item = u32> {
    all_tokens(table, text, None)
}

/// Returns the tokens of a text in their order. Words with an unknown part become the token `unknown`.
pub(crate) fn tokens_with_unknown(table: &TokenTable, text: &str, unknown: u32) -> impl Iterator<Item = u32> {
    all_tokens(table, text, Some(unknown))
}

fn all_tokens(table: &TokenTable, text: &str, unknown: Option<u32>) -> impl Iterator<Item = u32> + use<> {
    let text = clean(text);
    let mut tokens = Vec::with_capacity(text.len() / 4);
    for word in text.split(' ') {
        let mut rest = word;
        while let Some(piece) = first_piece(rest) {
            if !push(table, piece, &mut tokens) {
                tokens.extend(unknown);
            }
            rest = rest.get(piece.len()..).unwrap_or_default();
        }
    }
    tokens.into_iter()
}

/// Splits a word greedily: the longest known prefix of the rest comes next. Returns `false` for a word with an unknown
/// rest, which has no tokens.
fn push(table: &TokenTable, word: &str, tokens: &mut Vec<u32>) -> bool {
    if word.len() > WORD_MAX_CHARS && word.chars().nth(WORD_MAX_CHARS).is_some() {
        return false;
    }
    let before = tokens.len();
    let mut rest = word;
    let mut place = Place::Start;
    while !rest.is_empty() {
        let Some((token, length)) = table.longest(place, rest) else {
            tokens.truncate(before);
            return false;
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
        place = Place::Later;
    }
    true
}

/// Returns the text up to the next punctuation character, or that character.
fn first_piece(text: &str) -> Option<&str> {
    let end = match text.char_indices().find(|(_, c)| is_punctuation(*c)) {
        Some((0, c)) => c.len_utf8(),
        Some((start, _)) => start,
        None => text.len(),
    };
    text.get(..end).filter(|piece| !piece.is_empty())
}

/// Converts to lower case, removes accents and control characters, and puts spaces around ideographs.
fn clean(text: &str) -> String {
    if text.is_ascii() {
        return text
            .chars()
            .filter(|c| is_white(*c) || !c.is_ascii_control())
            .map(|c| if is_white(c) { ' ' } else { c.to_ascii_lowercase() })
            .collect();
    }
    text.chars()
        .filter(|c| !is_dropped(*c))
        .flat_map(|c| {
            let (space, c) = if is_ideograph(c) { (Some(' '), c) } else { (None, c) };
            space.into_iter().chain(iter::once(if is_white(c) { ' ' } else { c })).chain(space)
        })
        .nfd()
        .filter(|c| c.is_ascii() || get_general_category(*c) != GeneralCategory::NonspacingMark)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns `true` for white space. Of the control characters, only tab, line feed and carriage return count.
fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r') || (c.is_whitespace() && !c.is_control())
}

/// Returns `true` for Chinese characters as BERT defines them. Kana and Hangul are not among them.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

fn is_dropped(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    match c {
        _ if is_white(c) => false,
        '\0' | char::REPLACEMENT_CHARACTER => true,
        _ => matches!(get_general_category(c), Control | Format | PrivateUse),
    }
}

fn is_punctuation(c: char) -> bool {
    use GeneralCategory::{
        ClosePunctuation, ConnectorPunctuation, DashPunctuation, FinalPunctuation, InitialPunctuation, OpenPunctuation,
        OtherPunctuation,
    };
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    matches!(
        get_general_category(c),
        ClosePunctuation
            | ConnectorPunctuation
            | DashPunctuation
            | FinalPunctuation
            | InitialPunctuation
            | OpenPunctuation
            | OtherPunctuation
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::vocabulary::TABLE;

    /// Real descriptions and texts of unusual characters, with the tokens of the reference implementation.
    #[test]
    fn is_the_wordpiece_of_bert() {
        let texts: Vec<(String, Vec<u32>)> =
            serde_json::from_str(include_str!("../../data/search/tokens.json")).unwrap();
        assert!(texts.len() >= 100);
        for (text, expected) in texts {
            assert_eq!(tokens(&TABLE, &text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }

    #[test]
    fn long_words_have_no_tokens() {
        let count = |text: &str| tokens(&TABLE, text).count();
        assert!(count(&"x".repeat(WORD_MAX_CHARS)) > 0);
        assert_eq!(count(&"x".repeat(WORD_MAX_CHARS + 1)), 0);
        assert_eq!(count(&"x".repeat(1_000_000)), 0);
        assert_eq!(count(&format!("{}, weather", "x".repeat(1_000))), 2);
    }
}
