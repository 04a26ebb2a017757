//! "Did you mean": the known word nearest to an unknown one.

/// The closest of `known`, if it is close enough to be a slip of the keyboard.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, in characters and without regard to case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (above, to) in row.iter().skip(1).zip(&b) {
            let cost = usize::from(from != *to);
            left = (diagonal + cost).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_only() {
        let known = ["intent_declaration", "mcpServers", "listen", "args"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(nearest(word, known), expected, "{word}");
        check("intent_declartion", Some("intent_declaration"));
        check("mcpservers", Some("mcpServers"));
        check("lisen", Some("listen"));
        check("arg", Some("args"));
        check("approved", None);
        check("", None);
    }
}
