//! The expected figures, in `tests/work.txt`: one line per call, with its name, allocations and bytes.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::rig::Work;

/// The work of each call, by name.
pub(crate) type Figures = Vec<(String, Work)>;

/// The largest difference that passes, in percent. Figures that fell by more fail as well, so that they stay exact.
const TOLERANCE: usize = 5;
const HEADING: &str = "# call allocations bytes; see \"Work per call\" in CONTRIBUTING.md\n";
const ACCEPT: &str = "BLESS=1 cargo test -p bench --test work";

/// Fails if a figure differs from the file. With `BLESS=1`, writes the file.
pub(crate) fn compare(found: &[(String, Work)]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/work.txt");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, write(found)).unwrap();
        return;
    }
    let expected = parse(&std::fs::read_to_string(&path).unwrap_or_default());
    let changes = changes(&expected, found);
    assert!(
        changes.is_empty(),
        "the work per call changed:\n{changes}\nIf that is intended, run `{ACCEPT}` and explain it in the commit. \
         Found:\n{}",
        write(found)
    );
}

fn write(figures: &[(String, Work)]) -> String {
    let mut text = HEADING.to_owned();
    for (name, work) in figures {
        writeln!(text, "{name} {} {}", work.allocations, work.bytes).unwrap();
    }
    text
}

fn parse(text: &str) -> Figures {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figures = lines.map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, allocations, bytes] => {
            let work = Work { allocations: allocations.parse().unwrap(), bytes: bytes.parse().unwrap() };
            (name.to_owned(), work)
        }
        _ => panic!("`{line}` in work.txt is not `call allocations bytes`"),
    });
    figures.collect()
}

/// Describes each call that differs by more than the tolerance, is new, or is gone.
fn changes(expected: &[(String, Work)], found: &[(String, Work)]) -> String {
    let mut changes = String::new();
    for (name, now) in found {
        let Some((_, before)) = expected.iter().find(|(known, _)| known == name) else {
            writeln!(changes, "  {name}: not in work.txt").unwrap();
            continue;
        };
        for (unit, before, now) in
            [("allocations", before.allocations, now.allocations), ("bytes", before.bytes, now.bytes)]
        {
            if before.abs_diff(now) * 100 > before * TOLERANCE {
                let percent = (now as f64 / before as f64 - 1.0) * 100.0;
                writeln!(changes, "  {name}: from {before} to {now} {unit} ({percent:+.1} %)").unwrap();
            }
        }
    }
    for (name, _) in expected.iter().filter(|(name, _)| !found.iter().any(|(known, _)| known == name)) {
        writeln!(changes, "  {name}: in work.txt, but not counted any more").unwrap();
    }
    changes
}
