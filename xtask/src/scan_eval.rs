//! Measures what the scanner finds, and how long it takes: `scan-eval DIR`.
//!
//! The folder has tools in two forms, also in folders below it. A `.jsonl` file has one case per line: `tool`, or a
//! `text` that becomes the description of a tool, and perhaps a `technique` and the names of tools `beside` it, as
//! `server:tool`. A `.json` file is a list of tools of a real server. All lists of one folder are one row of the report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use mcpproxy_core::trust::scan::{Neighbours, Severity, scan};
use serde_json::{Value, json};

/// A tool to scan, with the tools of other servers.
struct Case {
    technique: Option<String>,
    json: String,
    beside: Vec<(String, String)>,
}

/// Counts for one row of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    tools: u32,
    medium: u32,
    high: u32,
    total_ms: f64,
    slowest_ms: f64,
}

impl Counts {
    fn add(&mut self, worst: Option<Severity>, took_ms: f64) {
        self.tools += 1;
        self.medium += u32::from(worst >= Some(Severity::Medium));
        self.high += u32::from(worst == Some(Severity::High));
        self.total_ms += took_ms;
        self.slowest_ms = self.slowest_ms.max(took_ms);
    }

    fn row(&self, name: &str) -> String {
        let tools = f64::from(self.tools.max(1));
        let share = |count: u32| format!("{count} ({:.1} %)", 100.0 * f64::from(count) / tools);
        let (medium, high) = (share(self.medium), share(self.high));
        let (mean, slowest) = (self.total_ms / tools, self.slowest_ms);
        format!("{name:40} {:>6} {medium:>16} {high:>16} {mean:>8.3} {slowest:>8.2}\n", self.tools)
    }
}

pub(crate) fn run(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut rows: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    read(folder, folder, &mut rows)?;
    anyhow::ensure!(!rows.is_empty(), "`{}` has no .json or .jsonl files with tools", folder.display());
    // The first scan builds the tables.
    let _built = scan("{}", &Neighbours::default());
    let mut text = format!(
        "{:40} {:>6} {:>16} {:>16} {:>8} {:>8}\n",
        "FILE", "TOOLS", "MEDIUM OR HIGH", "HIGH", "MS MEAN", "MS MAX"
    );
    for (name, cases) in &rows {
        let (all, techniques) = measure(cases);
        text.push_str(&all.row(name));
        for (technique, counts) in techniques {
            text.push_str(&counts.row(&format!("  {technique}")));
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn measure(cases: &[Case]) -> (Counts, BTreeMap<&str, Counts>) {
    let mut all = Counts::default();
    let mut techniques: BTreeMap<&str, Counts> = BTreeMap::new();
    for case in cases {
        let neighbours = Neighbours::new(case.beside.iter().map(|(server, tool)| (server.as_str(), [tool.as_str()])));
        let start = Instant::now();
        let worst = scan(&case.json, &neighbours).iter().map(|finding| finding.severity).max();
        let took_ms = start.elapsed().as_secs_f64() * 1000.0;
        all.add(worst, took_ms);
        if let Some(technique) = &case.technique {
            techniques.entry(technique).or_default().add(worst, took_ms);
        }
    }
    (all, techniques)
}

/// Reads all cases below a folder, by the name of their row.
fn read(root: &Path, folder: &Path, rows: &mut BTreeMap<String, Vec<Case>>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not read `{}`", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, rows)?;
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let cases = match extension {
            "jsonl" | "json" => cases(&path, extension).with_context(|| format!("in `{}`", path.display()))?,
            _ => continue,
        };
        let shown = path.strip_prefix(root).unwrap_or(&path);
        let name = match extension {
            "json" => shown.with_file_name("*.json"),
            _ => shown.to_path_buf(),
        };
        if !cases.is_empty() {
            rows.entry(name.display().to_string()).or_default().extend(cases);
        }
    }
    Ok(())
}

fn cases(path: &Path, extension: &str) -> anyhow::Result<Vec<Case>> {
    let text = fs::read_to_string(path)?;
    let values: Vec<Value> = match extension {
        "jsonl" => text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?,
        _ => {
            let mut list: Value = serde_json::from_str(&text)?;
            let tools = list.get_mut("tools").map(Value::take).unwrap_or(list);
            tools.as_array().cloned().unwrap_or_default()
        }
    };
    Ok(values.iter().filter_map(case).collect())
}

/// Reads one case. Lines of other data, such as pairs of tools, are skipped.
fn case(value: &Value) -> Option<Case> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let json = match (value.get("tool"), text("text"), text("name")) {
        (Some(tool), _, _) => tool.to_string(),
        (None, Some(text), _) => described(text),
        (None, None, Some(_)) => value.to_string(),
        (None, None, None) => return None,
    };
    let beside = value.get("beside").and_then(Value::as_array).into_iter().flatten();
    let beside = beside.filter_map(Value::as_str).filter_map(|name| name.split_once(':'));
    let beside = beside.map(|(server, tool)| (server.to_owned(), tool.to_owned())).collect();
    Some(Case { technique: text("technique").map(str::to_owned), json, beside })
}

/// Puts a text into the description of a harmless tool.
fn described(text: &str) -> String {
    let mut description = "Looks up a record by its id and returns its fields.".to_owned();
    let _infallible = write!(description, "\n\n{text}");
    json!({
        "name": "lookup_record",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"id": {"type": "string", "description": "Id of the record"}},
            "required": ["id"],
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_technique() {
        let lines = [
            json!({"technique": "invisible", "tool": {"name": "a", "description": "x\u{200b}y"}}),
            json!({"technique": "plain", "text": "Times are in UTC."}),
            json!({"name": "b", "description": "Lists things."}),
            json!({"before": {}, "after": {}}),
        ];
        let cases: Vec<Case> = lines.iter().filter_map(case).collect();
        let (all, techniques) = measure(&cases);
        assert_eq!((all.tools, all.medium, all.high), (3, 1, 1));
        let shown: Vec<(&str, u32)> = techniques.iter().map(|(name, counts)| (*name, counts.high)).collect();
        assert_eq!(shown, [("invisible", 1), ("plain", 0)]);
    }
}
