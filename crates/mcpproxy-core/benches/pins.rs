//! Measures the comparison of 10,000 listed tools with their pins: `cargo bench -p mcpproxy-core --bench pins`.
//!
//! Every list of every server is compared, so an unchanged one must be cheap: below 50 ms for 10,000 tools. A list in
//! another form costs a hash for each tool. Only changed tools are scanned.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

#[path = "../tests/data/tools.rs"]
mod tools;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use mcpproxy_core::json::{members, quote};
use mcpproxy_core::trust::scan::Neighbours;
use mcpproxy_core::trust::{
    Accepted, Definition, DefinitionKey, DefinitionKind, Known, OnChange, Pinned, Rules, Verdict, Welcome, judge,
};

const TOOLS: usize = 10_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let listed = real();
    let known = accepted(&listed);
    let rules = Rules::Settings { first_sight: Welcome::Accept, on_change: OnChange::Review };
    let cases = [
        ("the same bytes", listed.clone(), 0),
        ("keys in another order", listed.iter().map(reversed).collect(), 0),
        ("1 of 100 changed", changed(&listed), TOOLS / 100),
    ];
    let mut group = criterion.benchmark_group("pins of 10,000 tools");
    group.throughput(Throughput::Elements(TOOLS as u64)).sample_size(20);
    for (name, listed, expected) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let judged = judge(black_box(&listed), &known, &rules, &Neighbours::default());
                let held = judged.iter().filter(|one| one.verdict != Verdict::Same).count();
                assert_eq!(held, expected, "{name}");
            });
        });
    }
    group.finish();
    criterion.final_summary();
}

/// Returns tools of real servers, again and again under other names.
fn real() -> Vec<Definition> {
    let all: Vec<String> = tools::lists().into_iter().flat_map(|list| list.tools).collect();
    all.iter()
        .cycle()
        .take(TOOLS)
        .enumerate()
        .map(|(n, json)| tool(n, &with(json, "name", &format!("tool_{n}"))))
        .collect()
}

fn tool(n: usize, json: &str) -> Definition {
    Definition::new(DefinitionKind::Tool, &format!("tool_{n}"), json)
}

/// Replaces a text of a tool, and adds it if it has none.
fn with(json: &str, key: &str, text: &str) -> String {
    let old = members(json).unwrap();
    let kept = old.iter().filter(|(name, _)| name != key).map(|(name, value)| format!("{}:{value}", quote(name)));
    let all: Vec<String> = [format!("{}:{}", quote(key), quote(text))].into_iter().chain(kept).collect();
    format!("{{{}}}", all.join(","))
}

fn reversed(one: &Definition) -> Definition {
    let mut all: Vec<String> =
        members(&one.json).unwrap().iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    all.reverse();
    Definition { json: format!("{{{}}}", all.join(",")).into(), ..one.clone() }
}

fn changed(all: &[Definition]) -> Vec<Definition> {
    let change = |(n, one): (usize, &Definition)| match n % 100 {
        0 => tool(n, &with(&one.json, "description", "Does something else now.")),
        _ => one.clone(),
    };
    all.iter().enumerate().map(change).collect()
}

fn accepted(all: &[Definition]) -> Known {
    let pinned = |one: &Definition| -> (DefinitionKey, Pinned) {
        let accepted = Some(Accepted { pin: one.pin(), json: Arc::from(&*one.json) });
        (one.key.clone(), Pinned { accepted, ..Pinned::default() })
    };
    let definitions: HashMap<DefinitionKey, Pinned> = all.iter().map(pinned).collect();
    Known { is_known: true, definitions, ..Known::default() }
}
