//! Time and memory by the number of tools, each number in a process of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::{Catalog, Index, Offer, Offered, Scope, ServerName};
use serde_json::{Value, json};

use super::measure::{ANSWERED, rounded};
use super::sets::{self, BESIDE, MEASURED};
use super::table::{table, thousands};
use super::{Part, many, progress};

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// Queries asked before the clock counts.
const WARM_UP: usize = 200;

/// How often a server changes, for the middle of the times.
const CHANGES: usize = 11;

/// All sizes, one after the other.
pub(super) fn part(root: &Path) -> anyhow::Result<Part> {
    let mut data = Vec::new();
    for size in SIZES {
        progress(&format!("speed with {} tools", thousands(size)))?;
        data.push(measure_apart(&input(root, size)?).with_context(|| format!("could not measure {size} tools"))?);
    }
    let head = ["tools", "servers", "p50 ms", "p99 ms", "max ms", "build ms", "change ms", "index MB", "first MB"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(data.iter().flat_map(|data| [row(data), scoped_row(data)]));
    let text = format!(
        "{}One thread, the queries of all sets in turn, {ANSWERED} tools asked for.\n\
         half: for an agent that sees every second server.\n\
         change: the next index after one server changed. index: resident memory of each further index of\n\
         the same catalog. first: that of the first one, with what building it left behind.\n",
        table(&rows)
    );
    Ok(Part { text, key: "speed", data: Value::Array(data) })
}

/// The same for an agent that does not see everything.
fn scoped_row(data: &Value) -> Vec<String> {
    let times = ["half_p50_ms", "half_p99_ms", "half_max_ms"].map(|key| float(data, key, 3));
    ["half".to_owned(), String::new()].into_iter().chain(times).collect()
}

fn float(data: &Value, key: &str, digits: usize) -> String {
    format!("{:.digits$}", data.get(key).and_then(Value::as_f64).unwrap_or_default())
}

fn row(data: &Value) -> Vec<String> {
    let whole = |key: &str| thousands(data.get(key).and_then(Value::as_u64).unwrap_or_default() as usize);
    let float = |key: &str, digits: usize| float(data, key, digits);
    vec![
        whole("tools"),
        whole("servers"),
        float("p50_ms", 3),
        float("p99_ms", 3),
        float("max_ms", 3),
        float("build_ms", 1),
        float("change_ms", 2),
        float("index_mb", 2),
        float("first_mb", 2),
    ]
}

/// In a process that has nothing else in its memory, not even what it took to make so many tools.
fn measure_apart(input: &str) -> anyhow::Result<Value> {
    let program = std::env::current_exe().context("could not find this program")?;
    let mut command = Command::new(program);
    command.args(["search-eval", "--speed-of-input"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn()?;
    // It reads to the end before it writes.
    process.stdin.take().context("it takes no input")?.write_all(input.as_bytes())?;
    let output = process.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "it failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The tools as `server JSON` in lines, an empty line, and the queries as JSON in lines.
fn input(root: &Path, tools: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    for (server, tools) in many::servers(root, tools)? {
        for tool in tools {
            let _infallible = writeln!(text, "{server} {}", Value::Object(tool));
        }
    }
    text.push('\n');
    for query in queries(root)? {
        let _infallible = writeln!(text, "{}", json!(query));
    }
    Ok(text)
}

/// One size, in this process.
pub(super) fn measure(input: impl BufRead) -> anyhow::Result<Value> {
    let mut lines = input.lines();
    let mut tools: BTreeMap<ServerName, Vec<_>> = BTreeMap::new();
    for line in lines.by_ref() {
        let line = line?;
        let Some((server, tool)) = line.split_once(' ') else { break };
        let server = ServerName::parse(server)?;
        let tool = Offered::parse(&server, tool);
        tools.entry(server).or_default().push(tool);
    }
    let offers: BTreeMap<ServerName, Arc<Offer>> =
        tools.into_iter().map(|(server, tools)| (server, Arc::new(Offer::new(tools).0))).collect();
    let queries: anyhow::Result<Vec<String>> = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect();
    let queries = queries?;
    let (contracts, policies) = (Arc::<Contracts>::default(), Arc::<Policies>::default());
    let catalog = Catalog::default().next(offers.clone(), &contracts, &policies);

    let before = resident_bytes()?;
    let began = Instant::now();
    let index = Index::build(&catalog);
    let build = began.elapsed();
    let first = resident_bytes()?;
    // The first takes what was free, and leaves free what it needed for a while: the ones after it show the truth.
    let tools = catalog.tools().count();
    let copies = (100_000 / tools.max(1)).clamp(2, 50);
    let kept: Vec<Index> = (0..copies).map(|_| Index::build(&catalog)).collect();
    let more = resident_bytes()?.saturating_sub(first) / copies;
    drop(kept);

    let ms = |time: Duration| rounded(time.as_secs_f64() * 1e3);
    let asked = |scope: &Scope| {
        let times = times(&index, &queries, scope);
        let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len() - 1)).copied();
        [0.5, 0.99, 1.0].map(|share| ms(at(share).unwrap_or_default()))
    };
    let [p50, p99, max] = asked(&Scope::everything());
    let [half_p50, half_p99, half_max] = asked(&half(offers.keys()));
    Ok(json!({
        "tools": tools,
        "servers": offers.len(),
        "queries": queries.len(),
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": max,
        "half_p50_ms": half_p50,
        "half_p99_ms": half_p99,
        "half_max_ms": half_max,
        "build_ms": ms(build),
        "change_ms": ms(change(&index, &catalog, &offers, (&contracts, &policies))?),
        "index_mb": rounded(more as f64 / 1e6),
        "first_mb": rounded(first.saturating_sub(before) as f64 / 1e6),
    }))
}

/// Shortest first.
fn times(index: &Index, queries: &[String], scope: &Scope) -> Vec<Duration> {
    let ask = |query: &String| {
        let began = Instant::now();
        black_box(index.find(black_box(query), scope, None, ANSWERED));
        began.elapsed()
    };
    let times = queries.iter().take(WARM_UP).chain(queries).map(ask).skip(WARM_UP.min(queries.len()));
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times
}

/// Every second server.
fn half<'a>(servers: impl Iterator<Item = &'a ServerName>) -> Scope {
    Scope { servers: Some(servers.step_by(2).cloned().collect()), ..Scope::everything() }
}

/// How long the next index takes when one server, of the size in the middle, lists one tool less.
fn change(
    index: &Index,
    catalog: &Catalog,
    offers: &BTreeMap<ServerName, Arc<Offer>>,
    (contracts, policies): (&Arc<Contracts>, &Arc<Policies>),
) -> anyhow::Result<Duration> {
    let mut by_size: Vec<(&ServerName, &Arc<Offer>)> = offers.iter().collect();
    by_size.sort_by_key(|(_, offer)| offer.len());
    let (server, offer) = by_size.get(by_size.len() / 2).context("there is no server")?;
    let parsed = offer.tools().skip(1).map(|tool| Offered::parse(server, &tool.json));
    let mut changed = offers.clone();
    changed.insert((*server).clone(), Arc::new(Offer::new(parsed).0));
    let changed = catalog.next(changed, contracts, policies);
    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|_| {
            let began = Instant::now();
            let next = index.next(black_box(&changed));
            let time = began.elapsed();
            drop(black_box(next));
            time
        })
        .collect();
    times.sort_unstable();
    times.get(CHANGES / 2).copied().context("nothing was measured")
}

/// The queries of all sets, in turn.
fn queries(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut sets = Vec::new();
    for set in MEASURED.into_iter().chain([BESIDE]) {
        sets.push(sets::query_texts(root, set)?);
    }
    let most = sets.iter().map(Vec::len).max().unwrap_or_default();
    Ok((0..most).flat_map(|at| sets.iter().filter_map(move |set| set.get(at).cloned())).collect())
}

/// Memory of this process that no file lies behind. The allocator is not asked, which would take unsafe code.
fn resident_bytes() -> anyhow::Result<usize> {
    let status = fs::read_to_string("/proc/self/status").context("memory can be measured on Linux only")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes =
        line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|number| number.parse::<usize>().ok());
    Ok(kilobytes.context("`/proc/self/status` has no `RssAnon`")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let data = measure(input(root, 100).unwrap().as_bytes()).unwrap();
        let number = |key: &str| data.get(key).and_then(Value::as_f64).unwrap();
        assert_eq!((number("tools"), number("queries")), (100.0, 2450.0));
        assert!(number("servers") > 2.0 && number("servers") < 100.0, "{data}");
        assert!(number("p50_ms") > 0.0 && number("p50_ms") <= number("p99_ms"), "{data}");
        assert!(number("p99_ms") <= number("max_ms"), "{data}");
        assert!(number("half_p50_ms") > 0.0 && number("half_p99_ms") <= number("half_max_ms"), "{data}");
        assert!(number("build_ms") > 0.0 && number("change_ms") > 0.0, "{data}");
        // What other tests left free in this process may be all it took.
        assert!(number("index_mb") >= 0.0 && number("first_mb") >= 0.0, "{data}");
        assert!(row(&data).iter().all(|cell| !cell.is_empty()));
        assert_eq!(scoped_row(&data).first().map(String::as_str), Some("half"));
    }
}
