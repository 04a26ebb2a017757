//! Runs all queries of a set.

use mcpproxy_core::json::quote;
use mcpproxy_core::{Keep, Scope, SearchHit, SearchResult, ToolName, brief};
use serde_json::{Map, Value, json};

use super::Part;
use super::metrics::{DEPTH, MEASURES, Quality};
use super::sets::{BESIDE, Query, Set};
use super::spread::spread;
use super::table::{table, thousands};

/// Default number of tools in an answer.
pub(super) const ANSWERED: usize = 5;

pub(super) struct Measured<'s> {
    pub(super) set: &'s Set,
    pub(super) answers: Vec<Answer<'s>>,
    pub(super) quality: Quality,
    /// Mean of `text_bytes`.
    bytes: usize,
    /// Number of queries without hits.
    nothing: usize,
}

pub(super) struct Answer<'s> {
    pub(super) query: &'s Query,
    /// At most `DEPTH` tools, with their scores.
    pub(super) found: Vec<(ToolName, f32)>,
    quality: Quality,
    bytes: usize,
}

impl<'s> Measured<'s> {
    pub(super) fn of(set: &'s Set) -> anyhow::Result<Self> {
        let everything = Scope::everything();
        let answers = spread(&set.queries, |query| {
            let found = set.index.find(&query.text, &everything, None, DEPTH);
            let names: Vec<&ToolName> = found.hits.iter().map(|hit| &hit.tool.name).collect();
            let quality = Quality::of(&names, &query.groups);
            let bytes = text_bytes(&found);
            let found = found.hits.iter().map(|hit| (hit.tool.name.clone(), hit.score)).collect();
            Answer { query, found, quality, bytes }
        })?;
        let qualities: Vec<Quality> = answers.iter().map(|answer| answer.quality).collect();
        Ok(Self {
            set,
            quality: Quality::mean(&qualities),
            bytes: answers.iter().map(|answer| answer.bytes).sum::<usize>() / answers.len().max(1),
            nothing: answers.iter().filter(|answer| answer.found.is_empty()).count(),
            answers,
        })
    }

    /// Returns `true` if the set counts towards the mean.
    pub(super) fn counts(&self) -> bool {
        self.set.name != BESIDE
    }

    fn row(&self) -> Vec<String> {
        let mut row =
            vec![self.set.name.to_owned(), thousands(self.set.catalog.tools().count()), thousands(self.answers.len())];
        row.extend(numbers(&self.quality));
        row.extend([thousands(self.bytes), thousands(self.nothing)]);
        row
    }

    fn data(&self) -> Value {
        let mut data = Map::new();
        data.insert("set".to_owned(), json!(self.set.name));
        data.insert("tools".to_owned(), json!(self.set.catalog.tools().count()));
        data.insert("queries".to_owned(), json!(self.answers.len()));
        data.extend(quality_data(&self.quality));
        data.insert("text_bytes".to_owned(), json!(self.bytes));
        data.insert("nothing".to_owned(), json!(self.nothing));
        Value::Object(data)
    }
}

/// Counts the bytes of text that an agent reads: names, short descriptions and short schemas.
fn text_bytes(found: &SearchResult) -> usize {
    let shown = found.hits.iter().take(ANSWERED);
    let bytes = |hit: &SearchHit| {
        let schema = hit.tool.offered.field("inputSchema").unwrap_or("{}");
        let short = brief(hit.tool.offered.description.for_json(), schema, Keep::Meaning);
        quote(&hit.tool.name.to_string()).len() + quote(&short.description).len() + short.schema.len()
    };
    shown.map(bytes).sum()
}

/// Computes the mean over the sets. Each set counts the same.
pub(super) fn mean(all: &[Measured<'_>]) -> Quality {
    let qualities: Vec<Quality> = all.iter().filter(|one| one.counts()).map(|one| one.quality).collect();
    Quality::mean(&qualities)
}

/// The source of the vectors.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Encoder,
    /// As with `search.encoder: "off"`, or before tools are encoded.
    Table,
}

impl Way {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Table => "table",
        }
    }
}

pub(super) fn part(all: &[Measured<'_>], way: Way) -> Part {
    let (title, key) = match way {
        Way::Encoder => ("With the encoder:", "quality"),
        Way::Table => ("Without the encoder:", "quality_without_encoder"),
    };
    let head =
        ["set", "tools", "queries"].into_iter().chain(MEASURES.map(|(name, _)| name)).chain(["text bytes", "nothing"]);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    rows.extend(all.iter().filter(|one| one.counts()).map(Measured::row));
    let counted: Vec<&Measured<'_>> = all.iter().filter(|one| one.counts()).collect();
    if counted.len() > 1 {
        let bytes = counted.iter().map(|one| one.bytes).sum::<usize>() / counted.len();
        let nothing = counted.iter().map(|one| one.nothing).sum();
        let mut row = vec!["mean".to_owned(), String::new(), String::new()];
        row.extend(numbers(&mean(all)));
        row.extend([thousands(bytes), thousands(nothing)]);
        rows.push(row);
    }
    rows.extend(all.iter().filter(|one| !one.counts()).map(Measured::row));
    let mut data = json!({ "sets": all.iter().map(Measured::data).collect::<Vec<_>>() });
    if let Some(data) = data.as_object_mut().filter(|_| counted.len() > 1) {
        data.insert("mean".to_owned(), Value::Object(quality_data(&mean(all)).collect()));
    }
    let text = format!(
        "{title}\n{}text bytes: names, descriptions and schemas of the first {ANSWERED} tools in brief, the mean\n\
         nothing: queries told that nothing fits\n",
        table(&rows)
    );
    Part { text, key, data }
}

fn numbers(quality: &Quality) -> impl Iterator<Item = String> {
    MEASURES.map(|(_, read)| format!("{:.3}", read(quality))).into_iter()
}

fn quality_data(quality: &Quality) -> impl Iterator<Item = (String, Value)> {
    MEASURES.map(|(name, read)| (name.to_owned(), json!(rounded(read(quality))))).into_iter()
}

/// Rounds to four digits, which is finer than any difference that matters.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::{Catalog, Index};

    use super::*;

    #[test]
    fn sets_weigh_the_same_and_the_last_one_nothing() {
        let set = |name| {
            let catalog = Catalog::default();
            Set { name, index: Index::build(&catalog), catalog, queries: Vec::new() }
        };
        let sets = [set("bfcl"), set("stabletoolbench"), set(BESIDE)];
        let measured = |set, recall_5: f64, bytes, nothing| {
            let quality = Quality { recall_1: 0.0, recall_5, recall_10: 1.0, mrr: 1.0 / 3.0, ndcg_10: 0.5 };
            Measured { set, answers: Vec::new(), quality, bytes, nothing }
        };
        let [bfcl, stable, golden] = &sets;
        let all = [measured(bfcl, 0.5, 1000, 0), measured(stable, 0.75, 12_345, 7), measured(golden, 0.125, 9, 9)];
        let part = part(&all, Way::Encoder);
        assert_eq!(
            part.text,
            "\
With the encoder:
set              tools  queries  recall@1  recall@5  recall@10    MRR  nDCG@10  text bytes  nothing
bfcl                 0        0     0.000     0.500      1.000  0.333    0.500       1,000        0
stabletoolbench      0        0     0.000     0.750      1.000  0.333    0.500      12,345        7
mean                                0.000     0.625      1.000  0.333    0.500       6,672        7
mcpproxy-golden      0        0     0.000     0.125      1.000  0.333    0.500           9        9
text bytes: names, descriptions and schemas of the first 5 tools in brief, the mean
nothing: queries told that nothing fits
"
        );
        assert_eq!(
            part.data["mean"],
            json!({"recall@1": 0.0, "recall@5": 0.625, "recall@10": 1.0, "MRR": 0.3333, "nDCG@10": 0.5})
        );
        assert_eq!(part.data["sets"][1]["text_bytes"], 12_345);
    }
}
