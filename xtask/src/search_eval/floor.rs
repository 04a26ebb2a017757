//! Checks the floor: queries for tools of other sets should match nothing, queries for the set's own tools something.

use mcpproxy_core::{Scope, SearchResult};
use serde_json::{Value, json};

use super::Part;
use super::measure::{ANSWERED, rounded};
use super::sets::{BESIDE, Query, Set};
use super::spread::spread;
use super::table::{table, thousands};

/// The answers to a set of queries.
struct Answered {
    queries: usize,
    nothing: usize,
    guessed: usize,
    /// The best score of each query, sorted, including those below the floor.
    best: Vec<f32>,
}

pub(super) fn part(sets: &[Set], is_wanted: impl Fn(&&str) -> bool) -> anyhow::Result<Part> {
    let sets: Vec<&Set> = sets.iter().filter(|set| set.name != BESIDE).collect();
    let head = [
        "tools of", "own", "nothing", "guesses", "p10", "p50", "p90", "foreign", "nothing", "guesses", "p10", "p50",
        "p90",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut data = Vec::new();
    for set in sets.iter().filter(|set| is_wanted(&set.name)) {
        let own = Answered::of(set, &set.queries.iter().collect::<Vec<_>>())?;
        let others = sets.iter().filter(|other| other.name != set.name);
        let foreign = Answered::of(set, &others.flat_map(|other| &other.queries).collect::<Vec<_>>())?;
        let mut row = vec![set.name.to_owned()];
        row.extend(own.cells());
        row.extend(foreign.cells());
        rows.push(row);
        data.push(json!({ "set": set.name, "own": own.data(), "foreign": foreign.data() }));
    }
    let text = format!(
        "{}nothing: queries without a tool. guesses: queries with guesses only. p10 to p90: scores of the best tool.\n\
         Some foreign queries do have a tool that fits.\n",
        table(&rows)
    );
    Ok(Part { text, key: "floor", data: Value::Array(data) })
}

impl Answered {
    fn of(set: &Set, queries: &[&Query]) -> anyhow::Result<Self> {
        let everything = Scope::everything();
        let answers = spread(queries, |query| {
            let found = set.index.find(&query.text, &everything, None, ANSWERED);
            (found.hits.is_empty(), found.doubt.is_some(), best(&found))
        })?;
        let mut best: Vec<f32> = answers.iter().map(|(_, _, best)| *best).collect();
        best.sort_by(f32::total_cmp);
        let nothing = answers.iter().filter(|(is_nothing, _, _)| *is_nothing).count();
        let guessed = answers.iter().filter(|(_, is_guess, _)| *is_guess).count();
        Ok(Self { queries: answers.len(), nothing, guessed, best })
    }

    fn share(&self, count: usize) -> String {
        format!("{:.1}%", count as f64 / self.queries.max(1) as f64 * 100.0)
    }

    fn at(&self, percent: usize) -> f32 {
        self.best.get(self.best.len() * percent / 100).copied().unwrap_or_default()
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![thousands(self.queries), self.share(self.nothing), self.share(self.guessed)];
        cells.extend([10, 50, 90].map(|percent| format!("{:.2}", self.at(percent))));
        cells
    }

    fn data(&self) -> Value {
        let at = |percent: usize| rounded(self.at(percent).into());
        json!({
            "queries": self.queries, "nothing": self.nothing, "guesses": self.guessed, "p10": at(10), "p50": at(50), "p90": at(90),
        })
    }
}

fn best(found: &SearchResult) -> f32 {
    found.hits.first().map_or(0.0, |hit| hit.score)
}
