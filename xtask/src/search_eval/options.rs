//! Parses the options of `search-eval`.

use super::sets::{BESIDE, MEASURED};

pub(super) const USAGE: &str = "\
Usage: cargo run --release -p xtask -- search-eval [OPTIONS]

Runs the queries in xtask/data/search, and reports how high the right tools rank.

      --set SET    Run this set only
      --encoder off  Run without the encoder only; otherwise, run both ways
      --misses     List the queries whose tools are not among the first five
      --floor      Also run the queries of the other sets, which should match nothing
      --fit        Choose the weight of the encoder, and print all weights; with --encoder off, learn the others
      --speed      Also measure time and memory with 100 to 100,000 tools
      --check      Fail if the mean is more than 0.005 below the baseline
      --bless      Save the results as the new baseline
  -o json, --json  Print JSON
";

#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) set: Option<&'static str>,
    /// Without encoder only. Otherwise, both ways are measured, and all other options apply to the encoder.
    pub(super) is_without_encoder: bool,
    pub(super) has_misses: bool,
    pub(super) has_floor: bool,
    pub(super) is_fit: bool,
    pub(super) has_speed: bool,
    pub(super) is_check: bool,
    pub(super) is_bless: bool,
    pub(super) is_json: bool,
    pub(super) is_help: bool,
    /// Measures one size in this process. `--speed` starts a process with this option for each size.
    pub(super) is_speed_of_input: bool,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--set" => options.set = Some(known(words.next())?),
                "--encoder" if words.next() == Some("off") => options.is_without_encoder = true,
                "--misses" => options.has_misses = true,
                "--floor" => options.has_floor = true,
                "--fit" => options.is_fit = true,
                "--speed" => options.has_speed = true,
                "--check" => options.is_check = true,
                "--bless" => options.is_bless = true,
                "--json" => options.is_json = true,
                "-o" if words.next() == Some("json") => options.is_json = true,
                "--speed-of-input" => options.is_speed_of_input = true,
                "--help" | "-h" => options.is_help = true,
                unknown => return Err(format!("unknown option `{}`", unknown.escape_debug())),
            }
        }
        if options.is_without_encoder && (options.is_check || options.is_bless) {
            return Err("the baseline is measured with the encoder; leave out --encoder off".to_owned());
        }
        if options.set.is_some() && (options.is_check || options.is_bless) {
            return Err("the baseline covers all sets; leave out --set".to_owned());
        }
        if cfg!(debug_assertions) && (options.has_speed || options.is_speed_of_input) {
            return Err(
                "--speed needs a release build; run `cargo run --release -p xtask -- search-eval --speed`".to_owned()
            );
        }
        Ok(options)
    }
}

fn known(name: Option<&str>) -> Result<&'static str, String> {
    let mut all = MEASURED.into_iter().chain([BESIDE]);
    all.find(|known| Some(*known) == name).ok_or_else(|| {
        let all: Vec<&str> = MEASURED.into_iter().chain([BESIDE]).collect();
        format!("--set takes one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let check = |line: &str, expected: Result<Options, &str>| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(Options::parse(&words), expected.map_err(str::to_owned), "{line}");
        };
        check("", Ok(Options::default()));
        check(
            "--set bfcl --misses -o json",
            Ok(Options { set: Some("bfcl"), has_misses: true, is_json: true, ..Options::default() }),
        );
        check("--check --json", Ok(Options { is_check: true, is_json: true, ..Options::default() }));
        check("--floor --bless", Ok(Options { has_floor: true, is_bless: true, ..Options::default() }));
        check("--encoder off", Ok(Options { is_without_encoder: true, ..Options::default() }));
        check("--encoder on", Err("unknown option `--encoder`"));
        check("--encoder off --check", Err("the baseline is measured with the encoder; leave out --encoder off"));
        check("-h", Ok(Options { is_help: true, ..Options::default() }));
        check("-o yaml", Err("unknown option `-o`"));
        check("--fast", Err("unknown option `--fast`"));
        check("--set bfcl --check", Err("the baseline covers all sets; leave out --set"));
        check(
            "--set x",
            Err("--set takes one of toucan-mcp, livemcpbench, bfcl, metatool, sealtools, stabletoolbench, \
                mcpproxy-golden"),
        );
    }

    #[test]
    #[cfg(debug_assertions)]
    fn speed_is_not_measured_in_a_slow_build() {
        let mistake = Options::parse(&["--speed".to_owned()]).unwrap_err();
        assert_eq!(mistake, "--speed needs a release build; run `cargo run --release -p xtask -- search-eval --speed`");
    }
}
