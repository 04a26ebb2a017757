//! Reports medians over the rounds, as a table or as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use crate::load::Sample;
use crate::request::Revision;
use crate::{Leg, MANY_TOOLS, Options};

/// The result of one leg in one round.
pub(crate) struct Round {
    pub(crate) connections: u16,
    pub(crate) leg: Leg,
    pub(crate) sample: Sample,
}

/// Resident memory of mcpproxy.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) one_tool_kib: u64,
    pub(crate) many_tools_kib: u64,
    pub(crate) after_load_kib: u64,
}

pub(crate) struct Report<'a> {
    options: &'a Options,
    rows: Vec<Row>,
    memory: Option<Memory>,
}

struct Row {
    connections: u16,
    leg: Leg,
    sample: Sample,
    to_nginx: Option<f64>,
    to_direct: Option<f64>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(options: &'a Options, rounds: &[Round], memory: Option<Memory>) -> Self {
        let mut rows = Vec::new();
        for &connections in &options.connections {
            let of = |leg| median_sample(rounds, connections, leg);
            let ratio = |sample: &Sample, leg| Some(sample.p50_us / of(leg)?.p50_us);
            for &leg in &options.legs {
                let Some(sample) = of(leg) else { continue };
                let (to_nginx, to_direct) = (ratio(&sample, Leg::Nginx), ratio(&sample, Leg::Direct));
                rows.push(Row { connections, leg, sample, to_nginx, to_direct });
            }
        }
        Report { options, rows, memory }
    }

    pub(crate) fn table(&self) -> String {
        let Options { payload, rounds, seconds, .. } = self.options;
        let mut text = format!(
            "MCP {}, {payload} bytes of text, medians of {rounds} rounds of {seconds} s, {} cores\n\n",
            self.version(),
            cores(),
        );
        text += "conns  leg                    p50 µs    p99 µs   calls/s  CPU µs/call  p50/nginx  p50/direct\n";
        for Row { connections, leg, sample, to_nginx, to_direct } in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{connections:>5}  {:<19} {:>9.1} {:>9.1} {:>9.0} {:>12} {:>10} {:>11}",
                leg.label(),
                sample.p50_us,
                sample.p99_us,
                sample.calls_per_s,
                or_dash(sample.cpu_us_per_call, 1),
                or_dash(*to_nginx, 2),
                or_dash(*to_direct, 2),
            );
        }
        if let Some(memory) = self.memory {
            let _ = writeln!(
                text,
                "\nmcpproxy resident memory in MiB: {} idle with one tool, {} idle with {MANY_TOOLS} more tools, {} after the load",
                mib(memory.one_tool_kib),
                mib(memory.many_tools_kib),
                mib(memory.after_load_kib),
            );
        }
        text
    }

    pub(crate) fn json(&self) -> Result<String> {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "connections": row.connections,
                    "leg": row.leg.label(),
                    "p50_us": row.sample.p50_us,
                    "p99_us": row.sample.p99_us,
                    "calls_per_s": row.sample.calls_per_s,
                    "cpu_us_per_call": row.sample.cpu_us_per_call,
                    "p50_to_nginx": row.to_nginx,
                    "p50_to_direct": row.to_direct,
                })
            })
            .collect();
        let memory = self.memory.map(|memory| {
            json!({
                "idle_one_tool_kib": memory.one_tool_kib,
                "idle_many_tools_kib": memory.many_tools_kib,
                "many_tools": MANY_TOOLS + 1,
                "after_load_kib": memory.after_load_kib,
            })
        });
        let report = json!({
            "revision": self.version(),
            "payload_bytes": self.options.payload,
            "rounds": self.options.rounds,
            "seconds": self.options.seconds,
            "cores": cores(),
            "rows": rows,
            "mcpproxy_rss": memory,
        });
        Ok(serde_json::to_string_pretty(&report)? + "\n")
    }

    fn version(&self) -> &'static str {
        let revision = if self.options.legacy { Revision::Legacy } else { Revision::Modern };
        revision.version()
    }
}

fn median_sample(rounds: &[Round], connections: u16, leg: Leg) -> Option<Sample> {
    let of = |figure: fn(&Sample) -> Option<f64>| {
        let series = rounds.iter().filter(|round| round.connections == connections && round.leg == leg);
        median(series.filter_map(|round| figure(&round.sample)).collect())
    };
    Some(Sample {
        p50_us: of(|sample| Some(sample.p50_us))?,
        p99_us: of(|sample| Some(sample.p99_us))?,
        calls_per_s: of(|sample| Some(sample.calls_per_s))?,
        cpu_us_per_call: of(|sample| sample.cpu_us_per_call),
    })
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let upper = figures.get(figures.len() / 2)?;
    let lower = figures.get(figures.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn or_dash(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
}

fn mib(kib: u64) -> String {
    format!("{}.{}", kib / 1024, kib % 1024 * 10 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_figures() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn medians_keep_series_apart() {
        let round = |connections, leg, p50_us| Round {
            connections,
            leg,
            sample: Sample { p50_us, p99_us: 9.0, calls_per_s: 1.0, cpu_us_per_call: None },
        };
        let rounds = [
            round(1, Leg::Direct, 10.0),
            round(1, Leg::Nginx, 30.0),
            round(8, Leg::Direct, 90.0),
            round(1, Leg::Direct, 20.0),
        ];
        let p50 = |connections, leg| median_sample(&rounds, connections, leg).map(|sample| sample.p50_us);
        assert_eq!(p50(1, Leg::Direct), Some(15.0));
        assert_eq!(p50(8, Leg::Direct), Some(90.0));
        assert_eq!(p50(8, Leg::Nginx), None);
    }
}
