//! Why a search found nothing, and what can be done about it.

use mcpproxy_core::{NoMatch, Untrusted};

/// So many unknown words are named.
const WORDS_MAX: usize = 5;
const WORD_MAX_CHARS: usize = 32;

/// Who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Agent,
    Operator,
}

pub(super) fn note(nothing: &NoMatch, reader: Reader) -> String {
    match nothing {
        NoMatch::NoWords => {
            "The query has no word to search by. Say in a few words what the tool should do, such as \"create an issue\"."
                .to_owned()
        }
        NoMatch::NoTools => {
            let next = match reader {
                Reader::Agent => "Other words will not help; tell the user.",
                Reader::Operator => "Look at the servers first.",
            };
            format!("There are no tools to search: no connected server offers any here. {next}")
        }
        NoMatch::BelowFloor { best, floor, unknown } => format!(
            "No tool fits: the best match scores {best:.2}, below {floor:.2}.{} Try other words for what should be done, \
             without names or values.",
            unknown_words(unknown)
        ),
    }
}

fn unknown_words(unknown: &[Untrusted]) -> String {
    let quoted = |word: &Untrusted| {
        let word = Untrusted::shortened(word.for_json(), WORD_MAX_CHARS);
        format!("\"{}\"", word.for_terminal().replace('"', "'"))
    };
    let words: Vec<String> = unknown.iter().take(WORDS_MAX).map(quoted).collect();
    match words.as_slice() {
        [] => String::new(),
        [word] => format!(" No tool here knows the word {word}."),
        [words @ .., last] => format!(" No tool here knows the words {} and {last}.", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_comes_with_the_next_step() {
        let check = |nothing: NoMatch, expected: &str| {
            assert_eq!(note(&nothing, Reader::Agent), expected);
        };
        let fits = |unknown: &[&str]| NoMatch::BelowFloor {
            best: 0.123,
            floor: 0.25,
            unknown: unknown.iter().map(|word| Untrusted::new(*word)).collect(),
        };
        check(
            fits(&[]),
            "No tool fits: the best match scores 0.12, below 0.25. Try other words for what should be done, without names \
             or values.",
        );
        check(
            fits(&["a\u{1b}[2J\"b\""]),
            "No tool fits: the best match scores 0.12, below 0.25. No tool here knows the word \"a\\u{1b}[2J'b'\". Try other \
             words for what should be done, without names or values.",
        );
        check(
            fits(&["a", "b", "c", "d", "e", "f", "g"]),
            "No tool fits: the best match scores 0.12, below 0.25. No tool here knows the words \"a\", \"b\", \"c\", \"d\" and \
             \"e\". Try other words for what should be done, without names or values.",
        );
        check(
            NoMatch::NoWords,
            "The query has no word to search by. Say in a few words what the tool should do, such as \"create an issue\".",
        );
        check(
            NoMatch::NoTools,
            "There are no tools to search: no connected server offers any here. Other words will not help; tell the user.",
        );
        assert_eq!(
            note(&NoMatch::NoTools, Reader::Operator),
            "There are no tools to search: no connected server offers any here. Look at the servers first."
        );
    }
}
