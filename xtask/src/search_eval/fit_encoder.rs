//! Chooses how much the encoder counts in the ranking, and tests the choice on queries that it was not made with.
//!
//! Only two numbers are chosen: the share of the table's similarities that stays, and the weight of the encoder's. All
//! other weights are those of the ranking without the encoder. There are few queries to choose with, because the model
//! was trained with the queries of four of the six sets. Weights for every feature follow such a small number of queries
//! too closely: learned from one of the two sets, they rank the other one worse than the table does.

use mcpproxy_core::Features;

use super::Part;
use super::fit::{Example, Weights, calibrate, examples, learned_part};
use super::metrics::Quality;
use super::sets::Set;
use super::spread::spread;

/// Shares of the similarities by the table that are tried.
const SHARES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// Weights of the similarity by the encoder that are tried.
const WEIGHTS: [f64; 10] = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0];
/// Every fifth query is left out, in turn.
const FOLDS: usize = 5;
/// Features that are similarities by the table.
const BY_TABLE: [&str; 3] = ["meaning", "sentence", "request"];

/// A choice, and the quality of every query of every set with it.
struct Tried {
    share: f64,
    weight: f64,
    weights: Weights,
    qualities: Vec<Vec<Quality>>,
}

pub(super) fn part(sets: &[&Set]) -> anyhow::Result<Part> {
    let examples: Vec<Vec<Example>> = sets.iter().map(|set| examples(set)).collect::<anyhow::Result<_>>()?;
    let choices: Vec<(f64, f64)> = SHARES.iter().flat_map(|share| WEIGHTS.map(|weight| (*share, weight))).collect();
    let tried = spread(&choices, |(share, weight)| Tried::of(*share, *weight, &examples))?;
    let mut rows = vec![["set", "chosen with", "share", "weight", "recall@5", "nDCG@10"].map(str::to_owned).to_vec()];
    for (at, set) in sets.iter().enumerate() {
        let mut left_out = Vec::new();
        for fold in 0..FOLDS {
            let best = best(&tried, |_, query| query % FOLDS != fold);
            let qualities = best.iter().flat_map(|best| best.qualities.get(at)).flatten().copied();
            left_out.extend(qualities.skip(fold).step_by(FOLDS));
        }
        rows.push(row(set.name, "other queries of all sets", ["", ""].map(str::to_owned), &left_out));
        if let Some(best) = best(&tried, |set, _| set != at).filter(|_| sets.len() > 1) {
            let qualities = best.qualities.get(at).map(Vec::as_slice).unwrap_or_default();
            rows.push(row(
                set.name,
                "other sets",
                [best.share, best.weight].map(|number| number.to_string()),
                qualities,
            ));
        }
    }
    let best = best(&tried, |_, _| true).ok_or_else(|| anyhow::anyhow!("there are no queries to choose with"))?;
    for (set, qualities) in sets.iter().zip(&best.qualities) {
        rows.push(row(set.name, "all queries", [best.share, best.weight].map(|number| number.to_string()), qualities));
    }
    let all: Vec<&[Example]> = examples.iter().map(Vec::as_slice).collect();
    // The table was calibrated with all sets. Moving both in the same way keeps scores comparable with those of tools
    // that are not encoded.
    let (of_table, offset_of_table) = calibrate(&all, &Features::TABLE_WEIGHTS.map(f64::from));
    let (slope, offset) = calibrate(&all, &best.weights);
    let offset = (offset - offset_of_table) / of_table + f64::from(Features::TABLE_OFFSET);
    Ok(learned_part(&rows, &best.weights, slope / of_table, offset))
}

fn row(set: &str, chosen_with: &str, choice: [String; 2], qualities: &[Quality]) -> Vec<String> {
    let mean = Quality::mean(qualities);
    let [share, weight] = choice;
    let figures = [format!("{:.3}", mean.recall_5), format!("{:.3}", mean.ndcg_10)];
    [set.to_owned(), chosen_with.to_owned(), share, weight].into_iter().chain(figures).collect()
}

impl Tried {
    fn of(share: f64, weight: f64, examples: &[Vec<Example>]) -> Self {
        let mut weights = Features::TABLE_WEIGHTS.map(f64::from);
        for (name, of_feature) in Features::NAMES.iter().zip(&mut weights) {
            if BY_TABLE.contains(name) {
                *of_feature *= share;
            } else if *name == "encoded" {
                *of_feature = weight;
            }
        }
        let qualities = examples.iter().map(|set| set.iter().map(|example| example.quality(&weights)).collect());
        Self { share, weight, qualities: qualities.collect(), weights }
    }

    /// Returns the mean nDCG@10 of the queries that count. Every set counts the same.
    fn ndcg(&self, counts: impl Fn(usize, usize) -> bool) -> f64 {
        let means = self.qualities.iter().enumerate().filter_map(|(set, qualities)| {
            let counted: Vec<Quality> =
                qualities.iter().enumerate().filter(|(query, _)| counts(set, *query)).map(|(_, one)| *one).collect();
            (!counted.is_empty()).then(|| Quality::mean(&counted).ndcg_10)
        });
        means.sum()
    }
}

/// Returns the best choice for the queries that count, by set and number.
fn best(tried: &[Tried], counts: impl Fn(usize, usize) -> bool) -> Option<&Tried> {
    tried.iter().max_by(|one, other| one.ndcg(&counts).total_cmp(&other.ndcg(&counts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_choice_depends_on_the_queries_that_count() {
        let quality = |ndcg_10: f64| Quality { ndcg_10, ..Quality::default() };
        let tried = |weight: f64, sets: [[f64; 2]; 2]| Tried {
            share: 1.0,
            weight,
            weights: Weights::default(),
            qualities: sets.iter().map(|set| set.iter().map(|ndcg| quality(*ndcg)).collect()).collect(),
        };
        let all = [tried(1.0, [[1.0, 0.0], [0.0, 0.0]]), tried(2.0, [[0.0, 0.0], [0.9, 0.0]])];
        let chosen = |counts: fn(usize, usize) -> bool| best(&all, counts).unwrap().weight;
        assert_eq!(chosen(|_, _| true), 1.0);
        assert_eq!(chosen(|set, _| set == 1), 2.0);
        assert!(best(&[], |_, _| true).is_none());
    }
}
