//! Measures the time of the encoder, on one thread: for tools, and for queries that are new or remembered.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use mcpproxy_core::{Index, Scope};
use serde_json::json;

use super::Part;
use super::measure::{ANSWERED, rounded};
use super::sets::{MEASURED, Set};
use super::table::table;

/// Tools that are encoded.
const TOOLS: usize = 1_000;
/// Queries, which all fit into the cache.
const QUERIES: usize = 500;

pub(super) fn part(root: &Path) -> anyhow::Result<Part> {
    let set = Set::read(root, MEASURED[0])?;
    let index = set.index.with_encoder();
    let pending = index.pending(TOOLS);
    let began = Instant::now();
    for tool in &pending {
        tool.encode().into_iter().for_each(|vector| tool.supply(vector));
    }
    let tools_s = rounded(began.elapsed().as_secs_f64());
    let mut queries = Vec::new();
    for set in MEASURED {
        queries.extend(super::sets::query_texts(root, set)?.into_iter().take(QUERIES / MEASURED.len()));
    }
    let new = times(&index, &queries);
    let remembered = times(&index, &queries);
    let ms = |times: &[Duration], share: f64| {
        let at = (times.len() as f64 * share) as usize;
        rounded(times.get(at).copied().unwrap_or_default().as_secs_f64() * 1e3)
    };
    let data = json!({
        "tools": pending.len(),
        "tools_s": tools_s,
        "new_p50_ms": ms(&new, 0.5),
        "new_p99_ms": ms(&new, 0.99),
        "remembered_p50_ms": ms(&remembered, 0.5),
        "remembered_p99_ms": ms(&remembered, 0.99),
    });
    let head = ["encoder", "", "p50 ms", "p99 ms"].map(str::to_owned).to_vec();
    let tools = vec![format!("{} tools", pending.len()), format!("{tools_s:.2} s"), String::new(), String::new()];
    let row = |name: &str, times: &[Duration]| {
        vec![name.to_owned(), String::new(), format!("{:.2}", ms(times, 0.5)), format!("{:.2}", ms(times, 0.99))]
    };
    let rows = vec![head, tools, row("new query", &new), row("remembered query", &remembered)];
    Ok(Part { text: table(&rows), key: "encoder_speed", data })
}

/// Sorts the times of searches, the shortest first.
fn times(index: &Index, queries: &[String]) -> Vec<Duration> {
    let scope = Scope::everything();
    let mut times: Vec<Duration> = queries
        .iter()
        .map(|query| {
            let began = Instant::now();
            black_box(index.find(black_box(query), &scope, None, ANSWERED));
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}
