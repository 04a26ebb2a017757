//! Quality metrics of answers: recall, MRR and nDCG.

use mcpproxy_core::ToolName;

/// Number of tools of an answer that count.
pub(super) const DEPTH: usize = 10;

/// The name of a metric, and the function that reads it.
pub(super) type Measure = (&'static str, fn(&Quality) -> f64);

pub(super) const MEASURES: [Measure; 5] = [
    ("recall@1", |quality| quality.recall_1),
    ("recall@5", |quality| quality.recall_5),
    ("recall@10", |quality| quality.recall_10),
    ("MRR", |quality| quality.mrr),
    ("nDCG@10", |quality| quality.ndcg_10),
];

/// The metrics of an answer, each 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quality {
    pub(super) recall_1: f64,
    pub(super) recall_5: f64,
    pub(super) recall_10: f64,
    pub(super) mrr: f64,
    pub(super) ndcg_10: f64,
}

impl Quality {
    /// Computes the metrics. One tool of each group is enough, and all groups must be found within the first ten.
    pub(super) fn of(found: &[&ToolName], groups: &[Vec<ToolName>]) -> Self {
        let places = places(found, groups);
        let all = groups.len().max(1) as f64;
        let recall = |depth: usize| places.iter().filter(|place| **place < depth).count() as f64 / all;
        let first = found.iter().take(DEPTH).position(|tool| groups.iter().any(|group| group.contains(tool)));
        // A tool that meets two groups counts once.
        let mut gains = places.clone();
        gains.dedup();
        let ideal: f64 = (0..groups.len().min(DEPTH)).map(gain).sum();
        Self {
            recall_1: recall(1),
            recall_5: recall(5),
            recall_10: recall(DEPTH),
            mrr: first.map_or(0.0, |place| 1.0 / (place + 1) as f64),
            ndcg_10: if ideal > 0.0 { gains.into_iter().map(gain).sum::<f64>() / ideal } else { 0.0 },
        }
    }

    pub(super) fn mean(all: &[Self]) -> Self {
        let mean = |read: fn(&Self) -> f64| all.iter().map(read).sum::<f64>() / all.len().max(1) as f64;
        Self {
            recall_1: mean(|one| one.recall_1),
            recall_5: mean(|one| one.recall_5),
            recall_10: mean(|one| one.recall_10),
            mrr: mean(|one| one.mrr),
            ndcg_10: mean(|one| one.ndcg_10),
        }
    }
}

/// Returns the ranks (from 0) at which the groups are first met, sorted.
fn places(found: &[&ToolName], groups: &[Vec<ToolName>]) -> Vec<usize> {
    let place = |group: &Vec<ToolName>| found.iter().take(DEPTH).position(|tool| group.contains(tool));
    let mut places: Vec<usize> = groups.iter().filter_map(place).collect();
    places.sort_unstable();
    places
}

fn gain(place: usize) -> f64 {
    1.0 / (place as f64 + 2.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a|b c` are two groups, the first with two tools.
    fn check(found: &str, groups: &str, expected: [f64; 5]) {
        let name = |tool: &str| ToolName::parse(&format!("s:{tool}")).unwrap();
        let tools: Vec<ToolName> = found.split_whitespace().map(name).collect();
        let groups: Vec<Vec<ToolName>> =
            groups.split_whitespace().map(|group| group.split('|').map(name).collect()).collect();
        let quality = Quality::of(&tools.iter().collect::<Vec<_>>(), &groups);
        let [recall_1, recall_5, recall_10, mrr, ndcg_10] = expected;
        let expected = Quality { recall_1, recall_5, recall_10, mrr, ndcg_10: round(ndcg_10) };
        assert_eq!(Quality { ndcg_10: round(quality.ndcg_10), ..quality }, expected, "{found} for {groups:?}");
    }

    fn round(number: f64) -> f64 {
        (number * 1e9).round() / 1e9
    }

    #[test]
    fn answers_are_measured() {
        let second = 1.0 / 3f64.log2();
        let third = 0.5;
        check("a", "a", [1.0, 1.0, 1.0, 1.0, 1.0]);
        check("", "a", [0.0; 5]);
        check("x y", "a", [0.0; 5]);
        check("x a", "a", [0.0, 1.0, 1.0, 0.5, second]);
        // Any tool of a group will do, and the next one of it gains nothing.
        check("x b a", "a|b", [0.0, 1.0, 1.0, 0.5, second]);
        check("a b", "a|b", [1.0, 1.0, 1.0, 1.0, 1.0]);
        // All groups must be found.
        check("a b", "a c", [0.5, 0.5, 0.5, 1.0, 1.0 / (1.0 + second)]);
        check("a c", "a c", [0.5, 1.0, 1.0, 1.0, 1.0]);
        check("a b c", "a|b c", [0.5, 1.0, 1.0, 1.0, (1.0 + third) / (1.0 + second)]);
        check("x y c", "a c", [0.0, 0.5, 0.5, 1.0 / 3.0, third / (1.0 + second)]);
        // A tool twice in an answer is not found twice, and a group twice in the labels is met at one place.
        check("a a a", "a b", [0.5, 0.5, 0.5, 1.0, 1.0 / (1.0 + second)]);
        check("a", "a a", [1.0, 1.0, 1.0, 1.0, 1.0 / (1.0 + second)]);
        // The sixth place is in the first ten, and the eleventh is nowhere.
        check("1 2 3 4 5 a", "a", [0.0, 0.0, 1.0, 1.0 / 6.0, 1.0 / 7f64.log2()]);
        check("1 2 3 4 5 6 7 8 9 10 a", "a", [0.0; 5]);
        // More groups than places: ten at the top are as good as it gets, but for recall.
        check("1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 8 9 10 11 12", [1.0 / 12.0, 5.0 / 12.0, 10.0 / 12.0, 1.0, 1.0]);
    }

    #[test]
    fn means_weigh_all_alike() {
        let one = Quality { recall_1: 1.0, recall_5: 0.5, recall_10: 1.0, mrr: 1.0, ndcg_10: 0.25 };
        let mean = Quality { recall_1: 0.5, recall_5: 0.25, recall_10: 0.5, mrr: 0.5, ndcg_10: 0.125 };
        assert_eq!(Quality::mean(&[one, Quality::default()]), mean);
        assert_eq!(Quality::mean(&[]), Quality::default());
    }
}
