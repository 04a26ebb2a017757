//! Explains why a search found nothing or only guesses, and what to do.

use mcpproxy_core::{Doubt, NoMatch, Untrusted};

/// Number of unknown words that are named.
const WORDS_MAX: usize = 5;
const WORD_MAX_CHARS: usize = 32;

const OTHER_WORDS: &str = "Otherwise describe the task in other words, without names or values.";

/// The reader of the explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Agent,
    Operator,
}

pub(super) fn note(nothing: &NoMatch, reader: Reader) -> String {
    match nothing {
        NoMatch::NoWords => {
            "The query contains no words. Describe what the tool should do, such as \"create an issue\".".to_owned()
        }
        NoMatch::NoTools => {
            let next = match reader {
                Reader::Agent => "Another query will not help. Tell the user.",
                Reader::Operator => "Check the servers with `mcpproxy servers list`.",
            };
            format!("There are no tools to search: no connected server offers any. {next}")
        }
        NoMatch::Unrelated { unknown } => {
            format!("No tool is related to the query.{} Describe the task in other words.", unknown_words(unknown))
        }
    }
}

/// Explains why all hits of a search are guesses.
pub(super) fn doubt(doubt: &Doubt) -> String {
    let Doubt { best, floor, unknown } = doubt;
    format!(
        "These are guesses: the best score is {best:.2}, and a match has at least {floor:.2}.{} Call one only if its \
         description fits. {OTHER_WORDS}",
        unknown_words(unknown)
    )
}

fn unknown_words(unknown: &[Untrusted]) -> String {
    let quoted = |word: &Untrusted| {
        let word = Untrusted::shortened(word.for_json(), WORD_MAX_CHARS);
        format!("\"{}\"", word.for_terminal().replace('"', "'"))
    };
    let words: Vec<String> = unknown.iter().take(WORDS_MAX).map(quoted).collect();
    match words.as_slice() {
        [] => String::new(),
        [word] => format!(" No tool contains the word {word}."),
        [words @ .., last] => format!(" No tool contains the words {} and {last}.", words.join(", ")),
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
        let unrelated = |unknown: &[&str]| NoMatch::Unrelated {
            unknown: unknown.iter().map(|word| Untrusted::new(*word)).collect(),
        };
        check(unrelated(&[]), "No tool is related to the query. Describe the task in other words.");
        check(
            unrelated(&["a\u{1b}[2J\"b\""]),
            "No tool is related to the query. No tool contains the word \"a\\u{1b}[2J'b'\". Describe the task in other \
             words.",
        );
        check(
            unrelated(&["a", "b", "c", "d", "e", "f", "g"]),
            "No tool is related to the query. No tool contains the words \"a\", \"b\", \"c\", \"d\" and \"e\". Describe \
             the task in other words.",
        );
        check(
            NoMatch::NoWords,
            "The query contains no words. Describe what the tool should do, such as \"create an issue\".",
        );
        check(
            NoMatch::NoTools,
            "There are no tools to search: no connected server offers any. Another query will not help. Tell the user.",
        );
        assert_eq!(
            note(&NoMatch::NoTools, Reader::Operator),
            "There are no tools to search: no connected server offers any. Check the servers with `mcpproxy servers list`."
        );
    }
}
