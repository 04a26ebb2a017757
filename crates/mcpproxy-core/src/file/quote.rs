//! Parts of messages: text from the file, and lists of words.

use crate::Untrusted;

const SHOWN_MAX_CHARS: usize = 60;

/// Quotes text from a file in a message: on one line, escaped for a terminal, and shortened.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_MAX_CHARS).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", Untrusted::new(cut).for_terminal())
}

/// Joins words in backticks with commas.
pub(crate) fn list(words: impl IntoIterator<Item = &'static str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text() {
        assert_eq!(shown("a\x1b[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
