//! Aligns the elements of two lists by their longest common subsequence.

/// Longer lists are compared index by index, because alignment takes quadratic time.
const MAX_ELEMENTS: usize = 400;

/// Positions in the old and in the new list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Both(usize, usize),
    Old(usize),
    New(usize),
}

/// Aligns two lists. `equal` compares an index of the old list with one of the new list.
pub(super) fn align(before: usize, after: usize, equal: &dyn Fn(usize, usize) -> bool) -> Vec<Step> {
    let mut steps = Vec::with_capacity(before.max(after));
    let (mut old, mut new) = (0, 0);
    let ends = [(before, after)];
    for (next_old, next_new) in anchors(before, after, equal).into_iter().chain(ends) {
        // Elements between two anchors are paired in order.
        while old < next_old && new < next_new {
            steps.push(Step::Both(old, new));
            (old, new) = (old + 1, new + 1);
        }
        steps.extend((old..next_old).map(Step::Old));
        steps.extend((new..next_new).map(Step::New));
        if next_old < before && next_new < after {
            steps.push(Step::Both(next_old, next_new));
        }
        (old, new) = (next_old + 1, next_new + 1);
    }
    steps
}

/// Returns the longest common subsequence.
fn anchors(before: usize, after: usize, equal: &dyn Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    if before > MAX_ELEMENTS || after > MAX_ELEMENTS {
        return Vec::new();
    }
    let width = after + 1;
    let mut longest = vec![0_u16; (before + 1) * width];
    let at = |table: &[u16], old: usize, new: usize| table.get(old * width + new).copied().unwrap_or_default();
    for old in (0..before).rev() {
        for new in (0..after).rev() {
            let length = if equal(old, new) {
                at(&longest, old + 1, new + 1) + 1
            } else {
                at(&longest, old + 1, new).max(at(&longest, old, new + 1))
            };
            if let Some(cell) = longest.get_mut(old * width + new) {
                *cell = length;
            }
        }
    }
    let mut found = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < before && new < after {
        if equal(old, new) {
            found.push((old, new));
            (old, new) = (old + 1, new + 1);
        } else if at(&longest, old + 1, new) >= at(&longest, old, new + 1) {
            old += 1;
        } else {
            new += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &str) {
        let (before, after): (Vec<String>, Vec<String>) =
            (before.chars().map(String::from).collect(), after.chars().map(String::from).collect());
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.iter().map(String::as_str).collect(), after.iter().map(String::as_str).collect());
        let steps = align(old.len(), new.len(), &|left, right| old[left] == new[right]);
        let shown: Vec<String> = steps
            .iter()
            .map(|step| match *step {
                Step::Both(left, right) if old[left] == new[right] => old[left].to_owned(),
                Step::Both(left, right) => format!("{}>{}", old[left], new[right]),
                Step::Old(left) => format!("-{}", old[left]),
                Step::New(right) => format!("+{}", new[right]),
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{before:?} {after:?}");
        // Every element is there once, in order.
        let olds = steps.iter().filter_map(|step| match step {
            Step::Both(old, _) | Step::Old(old) => Some(*old),
            Step::New(_) => None,
        });
        assert_eq!(olds.collect::<Vec<_>>(), (0..old.len()).collect::<Vec<_>>());
        let news = steps.iter().filter_map(|step| match step {
            Step::Both(_, new) | Step::New(new) => Some(*new),
            Step::Old(_) => None,
        });
        assert_eq!(news.collect::<Vec<_>>(), (0..new.len()).collect::<Vec<_>>());
    }

    #[test]
    fn alignments() {
        check("", "", "");
        check("abc", "abc", "a b c");
        check("", "ab", "+a +b");
        check("ab", "", "-a -b");
        check("abc", "xabc", "+x a b c");
        check("abc", "ac", "a -b c");
        check("abc", "axc", "a b>x c");
        check("abcd", "axd", "a b>x -c d");
        check("ab", "ba", "-a b +a");
        check(&"a".repeat(500), &"a".repeat(500), &["a"; 500].join(" "));
    }
}
