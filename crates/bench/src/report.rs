//! Reports medians over the rounds, as a table or as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use crate::leg::Leg;
use crate::load::Sample;
use crate::tools;

/// The result of one leg of one case in one round.
pub(crate) struct Round {
    pub(crate) case: String,
    pub(crate) connections: u16,
    pub(crate) leg: Leg,
    pub(crate) sample: Sample,
}

/// Resident memory of mcpproxy, where it was measured.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) idle_kib: Option<u64>,
    pub(crate) many_tools_kib: Option<u64>,
    pub(crate) after_load_kib: Option<u64>,
}

/// How long and how often each leg was measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: u16,
    pub(crate) seconds: f64,
}

pub(crate) struct Report {
    effort: Effort,
    rows: Vec<Row>,
    memory: Memory,
}

struct Row {
    case: String,
    connections: u16,
    leg: Leg,
    sample: Sample,
    to_nginx: Option<f64>,
    to_direct: Option<f64>,
}

impl Report {
    pub(crate) fn new(effort: Effort, rounds: &[Round], memory: Memory) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for Round { case, connections, leg, .. } in rounds {
            if rows.iter().any(|row| row.case == *case && row.connections == *connections && row.leg == *leg) {
                continue;
            }
            let of = |leg| median_sample(rounds, case, *connections, leg);
            let Some(sample) = of(*leg) else { continue };
            let ratio = |leg| Some(sample.p50_us / of(leg)?.p50_us);
            let (to_nginx, to_direct) = (ratio(Leg::Nginx), ratio(Leg::Direct));
            rows.push(Row { case: case.clone(), connections: *connections, leg: *leg, sample, to_nginx, to_direct });
        }
        Report { effort, rows, memory }
    }

    pub(crate) fn table(&self) -> String {
        let Effort { rounds, seconds } = self.effort;
        let mut text = format!("medians of {rounds} rounds of {seconds} s, {} cores\n", cores());
        let mut case = "";
        for row in &self.rows {
            // Writing to a string cannot fail.
            if row.case != case {
                case = &row.case;
                let _ = writeln!(text, "\n{case}");
                text += "conns  path                p50 µs     p99 µs   calls/s  CPU µs/call  p50/nginx  p50/direct\n";
            }
            let Row { connections, leg, sample, to_nginx, to_direct, .. } = row;
            let _ = writeln!(
                text,
                "{connections:>5}  {:<16} {:>9.1} {:>10.1} {:>9.0} {:>12} {:>10} {:>11}",
                leg.label(),
                sample.p50_us,
                sample.p99_us,
                sample.calls_per_s,
                or_dash(sample.cpu_us_per_call, 1),
                or_dash(*to_nginx, 2),
                or_dash(*to_direct, 2),
            );
            if let Some(us) = sample.database_us_per_call {
                let _ = writeln!(text, "       and PostgreSQL {us:>44.1}");
            }
        }
        let Memory { idle_kib, many_tools_kib, after_load_kib } = self.memory;
        let many = tools::MANY + tools::OWN;
        for (kib, when) in [
            (idle_kib, "idle".to_owned()),
            (many_tools_kib, format!("with {many} tools")),
            (after_load_kib, "after the load".to_owned()),
        ] {
            if let Some(kib) = kib {
                let _ = write!(text, "\nmcpproxy resident memory, {when}: {} MiB", mib(kib));
            }
        }
        text + "\n"
    }

    pub(crate) fn json(&self) -> Result<String> {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "case": row.case,
                    "connections": row.connections,
                    "path": row.leg.label(),
                    "p50_us": row.sample.p50_us,
                    "p99_us": row.sample.p99_us,
                    "calls_per_s": row.sample.calls_per_s,
                    "cpu_us_per_call": row.sample.cpu_us_per_call,
                    "database_us_per_call": row.sample.database_us_per_call,
                    "p50_to_nginx": row.to_nginx,
                    "p50_to_direct": row.to_direct,
                })
            })
            .collect();
        let Memory { idle_kib, many_tools_kib, after_load_kib } = self.memory;
        let report = json!({
            "rounds": self.effort.rounds,
            "seconds": self.effort.seconds,
            "cores": cores(),
            "rows": rows,
            "mcpproxy_rss": {
                "idle_kib": idle_kib,
                "many_tools_kib": many_tools_kib,
                "many_tools": tools::MANY + tools::OWN,
                "after_load_kib": after_load_kib,
            },
        });
        Ok(serde_json::to_string_pretty(&report)? + "\n")
    }
}

fn median_sample(rounds: &[Round], case: &str, connections: u16, leg: Leg) -> Option<Sample> {
    let of = |figure: fn(&Sample) -> Option<f64>| {
        let series =
            rounds.iter().filter(|round| round.case == case && round.connections == connections && round.leg == leg);
        median(series.filter_map(|round| figure(&round.sample)).collect())
    };
    Some(Sample {
        p50_us: of(|sample| Some(sample.p50_us))?,
        p99_us: of(|sample| Some(sample.p99_us))?,
        calls_per_s: of(|sample| Some(sample.calls_per_s))?,
        cpu_us_per_call: of(|sample| sample.cpu_us_per_call),
        database_us_per_call: of(|sample| sample.database_us_per_call),
    })
}

pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
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
        let round = |case: &str, connections, leg, p50_us| Round {
            case: case.to_owned(),
            connections,
            leg,
            sample: Sample { p50_us, p99_us: 9.0, calls_per_s: 1.0, cpu_us_per_call: None, database_us_per_call: None },
        };
        let rounds = [
            round("a", 1, Leg::Direct, 10.0),
            round("a", 1, Leg::Nginx, 30.0),
            round("a", 8, Leg::Direct, 90.0),
            round("b", 1, Leg::Direct, 500.0),
            round("a", 1, Leg::Direct, 20.0),
        ];
        let p50 = |case, connections, leg| median_sample(&rounds, case, connections, leg).map(|sample| sample.p50_us);
        assert_eq!(p50("a", 1, Leg::Direct), Some(15.0));
        assert_eq!(p50("a", 8, Leg::Direct), Some(90.0));
        assert_eq!(p50("a", 8, Leg::Nginx), None);
        let report = Report::new(Effort { rounds: 2, seconds: 1.0 }, &rounds, Memory::default());
        assert_eq!(report.rows.len(), 4);
        assert_eq!(report.rows[1].to_direct, Some(2.0));
    }
}
