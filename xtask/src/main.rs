//! Runs repository checks that no compiler makes, and evaluates the search and the scanner. `cargo run -p xtask -- check` runs the
//! checks, and so do the tests of this crate.

mod checks;
mod published;
mod scan_eval;
mod search_eval;
mod source;
mod tree;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::checks::CHECKS;
use crate::tree::{Problem, Tree};

const USAGE: &str = "\
Usage: cargo run -p xtask -- check    Check the repository
       cargo run -p xtask -- bless    Write the files that are generated from the code
       cargo run --release -p xtask -- search-eval    Measure the quality of search; see --help
       cargo run --release -p xtask -- scan-eval DIR    Measure what the scanner finds in the tools of a folder\n";

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the folder of xtask has no parent folder")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((_, rest)) = arguments.split_first().filter(|(first, _)| *first == "search-eval") {
        return search_eval::run(root, rest);
    }
    if let [command, folder] = arguments.as_slice()
        && command == "scan-eval"
    {
        return scan_eval::run(Path::new(folder));
    }
    let text = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => return check(root),
        ["bless"] => published::write(root)?,
        ["--help" | "-h"] => USAGE.to_owned(),
        _ => {
            std::io::stderr().write_all(USAGE.as_bytes())?;
            return Ok(ExitCode::from(2));
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn check(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let problems: Vec<Problem> = CHECKS.iter().flat_map(|(_, check)| check(&tree)).collect();
    let mut out = std::io::stdout().lock();
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    writeln!(out, "{} files, {} checks, {} problems", tree.files.len(), CHECKS.len(), problems.len())?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_its_rules() {
        let tree = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
        assert!(tree.files.len() > 100, "the tree was read from the wrong place");
        for (name, check) in CHECKS {
            let problems: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
            assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
        }
    }
}
