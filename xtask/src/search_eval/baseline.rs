//! Compares the results with a saved baseline, below which the mean must not fall, neither with the encoder nor without.
//!
//! Encoding the tools of all six sets takes minutes. So the encoder is compared on two of them ([`ENCODED`]), which are
//! also the two whose queries the model was not trained with. Without the encoder, all sets are compared.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::Part;
use super::measure::{self, Measured, Way, rounded};
use super::metrics::{Measure, Quality};
use super::sets::FOLDER;

/// Allowed loss. Small differences are chance, such as the order of tools with equal scores.
const FALL_MAX: f64 = 0.005;

const BLESS: &str = "cargo run --release -p xtask -- search-eval --bless";

/// The sets that are compared with the encoder.
pub(super) const ENCODED: [&str; 2] = ["toucan-mcp", "livemcpbench"];

/// The measure that is compared.
const GUARDED: [Measure; 2] = [("recall@5", |quality| quality.recall_5), ("nDCG@10", |quality| quality.ndcg_10)];

/// Compares the results with the baseline. Also returns `true` if the search is worse.
pub(super) fn part(root: &Path, now: &Figures) -> anyhow::Result<(Part, bool)> {
    let path = root.join(FOLDER).join("baseline.json");
    let text = fs::read_to_string(&path).with_context(|| format!("there is no baseline; create one with `{BLESS}`"))?;
    let baseline = serde_json::from_str(&text).with_context(|| format!("could not read `{}`", path.display()))?;
    let verdict = compare(&baseline, &now.0)?;
    let data = json!({ "is_worse": verdict.is_worse, "text": verdict.text });
    Ok((Part { text: verdict.text, key: "check", data }, verdict.is_worse))
}

pub(super) fn write(root: &Path, now: &Figures) -> anyhow::Result<Part> {
    let name = format!("{FOLDER}/baseline.json");
    let path = root.join(&name);
    fs::write(&path, format!("{:#}\n", Value::Object(now.0.clone())))
        .with_context(|| format!("could not write `{name}`"))?;
    Ok(Part { text: format!("wrote {name}\n"), key: "bless", data: json!(name) })
}

/// The figures of the baseline, for each [`Way`].
#[derive(Default)]
pub(super) struct Figures(Map<String, Value>);

impl Figures {
    pub(super) fn add(&mut self, way: Way, all: &[Measured<'_>]) {
        let of = |quality: &Quality| -> Map<String, Value> {
            GUARDED.iter().map(|(name, read)| ((*name).to_owned(), json!(rounded(read(quality))))).collect()
        };
        let sets = all.iter().filter(|one| one.counts()).map(|one| (one.set.name.to_owned(), json!(of(&one.quality))));
        let figures = json!({ "mean": of(&measure::mean(all)), "sets": sets.collect::<Map<_, _>>() });
        self.0.insert(way.as_str().to_owned(), figures);
    }
}

#[derive(Debug, PartialEq)]
struct Verdict {
    text: String,
    is_worse: bool,
}

fn compare(baseline: &Value, now: &Map<String, Value>) -> anyhow::Result<Verdict> {
    let mut text = String::new();
    let mut is_worse = false;
    let mut is_better = false;
    let guarded = now.iter().flat_map(|(way, now)| GUARDED.map(|(measure, _)| (way, now, measure)));
    for (way, now, measure) in guarded {
        let baseline = baseline.get(way).unwrap_or(&Value::Null);
        let read = |figures: &Value, path: &str| figures.pointer(&format!("{path}/{measure}")).and_then(Value::as_f64);
        let before = read(baseline, "/mean")
            .with_context(|| format!("the baseline has no mean of `{way}`; write a new one with `{BLESS}`"))?;
        let mean = read(now, "/mean").context("nothing was measured")?;
        // Round to four digits, as the figures are.
        let change = rounded(mean - before);
        let fell = change < -FALL_MAX;
        let verdict = if fell { format!("worse by more than {FALL_MAX}") } else { "ok".to_owned() };
        let _infallible =
            writeln!(text, "{way}, mean {measure}: {before:.4} before, {mean:.4} now, {change:+.4}: {verdict}");
        is_worse |= fell;
        is_better |= change > FALL_MAX;
        for set in now.get("sets").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name) {
            let path = format!("/sets/{set}");
            let change = read(now, &path).zip(read(baseline, &path)).map(|(now, before)| rounded(now - before));
            if let Some(change) = change.filter(|change| fell && *change < 0.0) {
                let _infallible = writeln!(text, "  {set}: {change:+.4}");
            }
        }
    }
    if is_worse {
        let _infallible =
            writeln!(text, "List the misses with `search-eval --misses`. To accept the loss, run `{BLESS}`.");
    } else if is_better {
        let _infallible = writeln!(text, "Better than the baseline. To save it as the new baseline, run `{BLESS}`.");
    }
    Ok(Verdict { text, is_worse })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(recall: [f64; 2], ndcg: f64) -> Map<String, Value> {
        let set = |recall: f64| json!({ "recall@5": recall, "nDCG@10": ndcg });
        let mean = recall.iter().sum::<f64>() / 2.0;
        let figures = json!({ "mean": set(mean), "sets": { "a": set(recall[0]), "b": set(recall[1]) } });
        Map::from_iter([("table".to_owned(), figures)])
    }

    #[test]
    fn a_mean_that_falls_is_found() {
        let good = figures([0.8, 0.9], 0.7);
        let baseline = Value::Object(good.clone());
        let check = |now: Map<String, Value>, is_worse: bool, text: &str| {
            let expected = Verdict { text: text.to_owned(), is_worse };
            assert_eq!(compare(&baseline, &now).unwrap(), expected);
        };
        check(
            good.clone(),
            false,
            "table, mean recall@5: 0.8500 before, 0.8500 now, +0.0000: ok\n\
             table, mean nDCG@10: 0.7000 before, 0.7000 now, +0.0000: ok\n",
        );
        // One set may lose what another gains, and the mean a little.
        check(
            figures([0.7, 0.99], 0.7),
            false,
            "table, mean recall@5: 0.8500 before, 0.8450 now, -0.0050: ok\n\
             table, mean nDCG@10: 0.7000 before, 0.7000 now, +0.0000: ok\n",
        );
        check(
            figures([0.7, 0.9898], 0.75),
            true,
            "table, mean recall@5: 0.8500 before, 0.8449 now, -0.0051: worse by more than 0.005\n  a: -0.1000\n\
             table, mean nDCG@10: 0.7000 before, 0.7500 now, +0.0500: ok\n\
             List the misses with `search-eval --misses`. To accept the loss, run \
             `cargo run --release -p xtask -- search-eval --bless`.\n",
        );
        check(
            figures([0.8, 0.9], 0.69),
            true,
            "table, mean recall@5: 0.8500 before, 0.8500 now, +0.0000: ok\n\
             table, mean nDCG@10: 0.7000 before, 0.6900 now, -0.0100: worse by more than 0.005\n  a: -0.0100\n  b: -0.0100\n\
             List the misses with `search-eval --misses`. To accept the loss, run \
             `cargo run --release -p xtask -- search-eval --bless`.\n",
        );
        check(
            figures([0.9, 0.9], 0.7),
            false,
            "table, mean recall@5: 0.8500 before, 0.9000 now, +0.0500: ok\n\
             table, mean nDCG@10: 0.7000 before, 0.7000 now, +0.0000: ok\n\
             Better than the baseline. To save it as the new baseline, run \
             `cargo run --release -p xtask -- search-eval --bless`.\n",
        );
        assert!(compare(&json!({}), &good).is_err());
        // Each way has its own baseline.
        let encoded = Map::from_iter([("encoder".to_owned(), good["table"].clone())]);
        assert!(compare(&baseline, &encoded).is_err());
    }
}
