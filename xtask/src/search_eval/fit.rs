//! Learns the weights of the features without the encoder, and tests them on tools they were not learned from.
//!
//! The model is a softmax over the candidates of a query, in which the right tools should have the largest share. Every
//! set counts the same. Every set is also ranked with weights that were learned without it (leave-one-out).

use std::sync::Arc;

use mcpproxy_core::{Features, Scope, Tool, ToolName};
use serde_json::{Value, json};

use super::Part;
use super::metrics::{DEPTH, Quality};
use super::sets::Set;
use super::spread::spread;
use super::table::table;

const FEATURES: usize = Features::NAMES.len();
pub(super) type Weights = [f64; FEATURES];

const STEPS: usize = 400;
const STEP: f64 = 0.1;
/// Regularization, which keeps unimportant weights near 0.
const SHRINK: f64 = 1e-3;
/// Number of candidates per query, the best ones, that the calibration uses.
const CALIBRATED: usize = 3;

pub(super) struct Example {
    tools: Vec<Arc<Tool>>,
    features: Vec<[f64; FEATURES]>,
    /// The candidates that meet each group.
    groups: Vec<Vec<usize>>,
    all_groups: Vec<Vec<ToolName>>,
}

/// Returns the candidates of all queries of a set.
pub(super) fn examples(set: &Set) -> anyhow::Result<Vec<Example>> {
    let everything = Scope::everything();
    spread(&set.queries, |query| {
        let candidates = set.index.candidates(&query.text, &everything);
        Example::of(candidates, &query.groups)
    })
}

pub(super) fn part(sets: &[&Set]) -> anyhow::Result<Part> {
    let examples: Vec<Vec<Example>> = sets.iter().map(|set| examples(set)).collect::<anyhow::Result<_>>()?;
    let mut rows = vec![["not learned from", "recall@5", "nDCG@10"].map(str::to_owned).to_vec()];
    let mut qualities = Vec::new();
    let numbers: Vec<usize> = (0..sets.len()).collect();
    let learned = spread(&numbers, |left_out| {
        let others: Vec<&[Example]> =
            examples.iter().enumerate().filter(|(set, _)| set != left_out).map(|(_, set)| set.as_slice()).collect();
        learn(&others)
    })?;
    for ((set, examples), weights) in sets.iter().zip(&examples).zip(&learned) {
        let quality = quality(examples, weights);
        rows.push(vec![set.name.to_owned(), format!("{:.3}", quality.recall_5), format!("{:.3}", quality.ndcg_10)]);
        qualities.push(quality);
    }
    let mean = Quality::mean(&qualities);
    rows.push(vec!["mean".to_owned(), format!("{:.4}", mean.recall_5), format!("{:.4}", mean.ndcg_10)]);
    let all: Vec<&[Example]> = examples.iter().map(Vec::as_slice).collect();
    let weights = learn(&all);
    let (slope, offset) = calibrate(&all, &weights);
    Ok(learned_part(&rows, &weights, slope, offset))
}

/// Reports weights and the rows of a table about them.
pub(super) fn learned_part(rows: &[Vec<String>], weights: &Weights, slope: f64, offset: f64) -> Part {
    let named: Vec<Value> = Features::NAMES
        .iter()
        .zip(weights)
        .map(|(name, weight)| json!([name, super::measure::rounded(*weight)]))
        .collect();
    let mut text = table(rows);
    for (name, weight) in Features::NAMES.iter().zip(weights) {
        text.push_str(&format!("{name:<12} {:6.2}\n", weight * slope));
    }
    text.push_str(&format!("{:<12} {offset:6.2}\n", "offset"));
    Part { text, key: "fit", data: json!({ "weights": named, "slope": slope, "offset": offset }) }
}

impl Example {
    fn of(candidates: Vec<(Arc<Tool>, Features)>, groups: &[Vec<ToolName>]) -> Self {
        let (tools, features): (Vec<_>, Vec<Features>) = candidates.into_iter().unzip();
        let place = |name: &ToolName| tools.iter().position(|tool| tool.name == *name);
        Self {
            groups: groups.iter().map(|group| group.iter().filter_map(place).collect()).collect(),
            all_groups: groups.to_vec(),
            features: features.iter().map(|features| features.values().map(f64::from)).collect(),
            tools,
        }
    }

    fn sums(&self, weights: &Weights) -> Vec<f64> {
        self.features.iter().map(|features| features.iter().zip(weights).map(|(a, b)| a * b).sum()).collect()
    }

    /// Returns the candidates, best first.
    fn ranked(&self, weights: &Weights) -> Vec<(usize, f64)> {
        let mut ranked: Vec<(usize, f64)> = self.sums(weights).into_iter().enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    pub(super) fn quality(&self, weights: &Weights) -> Quality {
        let ranked = self.ranked(weights);
        let names: Vec<&ToolName> =
            ranked.iter().take(DEPTH).filter_map(|(at, _)| self.tools.get(*at)).map(|tool| &tool.name).collect();
        Quality::of(&names, &self.all_groups)
    }

    /// Adds the gradient of the right candidates' share.
    fn add_gradient(&self, weights: &Weights, rate: f64, gradient: &mut Weights) {
        let sums = self.sums(weights);
        let largest = sums.iter().copied().fold(f64::MIN, f64::max);
        let shares: Vec<f64> = sums.iter().map(|sum| (sum - largest).exp()).collect();
        let total: f64 = shares.iter().sum();
        let rate = rate / self.groups.len().max(1) as f64;
        for group in self.groups.iter().filter(|group| !group.is_empty()) {
            let share = |at: usize| shares.get(at).copied().unwrap_or_default();
            let met: f64 = group.iter().map(|at| share(*at)).sum::<f64>().max(f64::MIN_POSITIVE);
            for (at, features) in self.features.iter().enumerate() {
                let wanted = if group.contains(&at) { share(at) / met } else { 0.0 };
                let pull = rate * (wanted - share(at) / total);
                for (gradient, feature) in gradient.iter_mut().zip(features) {
                    *gradient += pull * feature;
                }
            }
        }
    }
}

/// Runs Adam with non-negative weights, because no feature counts against a tool.
fn learn(sets: &[&[Example]]) -> Weights {
    let mut weights = [1.0; FEATURES];
    let (mut mean, mut square) = ([0.0; FEATURES], [0.0_f64; FEATURES]);
    for step in 1..=STEPS {
        let mut gradient = weights.map(|weight| -SHRINK * weight);
        for set in sets {
            for example in *set {
                example.add_gradient(&weights, 1.0 / set.len() as f64, &mut gradient);
            }
        }
        let correction = |decay: f64| 1.0 - decay.powi(step as i32);
        for (((weight, gradient), mean), square) in weights.iter_mut().zip(gradient).zip(&mut mean).zip(&mut square) {
            *mean = 0.9 * *mean + 0.1 * gradient;
            *square = 0.99 * *square + 0.01 * gradient * gradient;
            let rate = STEP * (1.0 - 0.9 * step as f64 / STEPS as f64);
            let change = rate * (*mean / correction(0.9)) / ((*square / correction(0.99)).sqrt() + 1e-9);
            *weight = (*weight + change).max(0.0);
        }
    }
    weights
}

/// Fits the logistic function that turns a sum of features into the probability that a tool is right.
pub(super) fn calibrate(sets: &[&[Example]], weights: &Weights) -> (f64, f64) {
    let mut points = Vec::new();
    for set in sets {
        for example in *set {
            for (at, sum) in example.ranked(weights).into_iter().take(CALIBRATED) {
                let is_right = example.groups.iter().any(|group| group.contains(&at));
                points.push((sum, f64::from(u8::from(is_right)), 1.0 / set.len() as f64));
            }
        }
    }
    let (mut slope, mut offset) = (0.0, 0.0);
    // Newton's method, starting where every probability is one half. The function is concave.
    for _ in 0..50 {
        let (mut g, mut h) = ([0.0; 2], [0.0; 3]);
        for (sum, is_right, weight) in &points {
            let chance = 1.0 / (1.0 + (offset - slope * sum).exp());
            let (error, curve) = (weight * (is_right - chance), weight * chance * (1.0 - chance));
            g = [g[0] + error * sum, g[1] - error];
            h = [h[0] + curve * sum * sum, h[1] - curve * sum, h[2] + curve];
        }
        let determinant = h[0] * h[2] - h[1] * h[1];
        if determinant.abs() < 1e-12 {
            break;
        }
        slope += (h[2] * g[0] - h[1] * g[1]) / determinant;
        offset += (h[0] * g[1] - h[1] * g[0]) / determinant;
    }
    (slope, offset)
}

fn quality(examples: &[Example], weights: &Weights) -> Quality {
    Quality::mean(&examples.iter().map(|example| example.quality(weights)).collect::<Vec<_>>())
}
