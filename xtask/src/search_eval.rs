//! Measures the quality of the search, on public sets of tools and queries.

mod baseline;
mod encoder_speed;
mod fit;
mod fit_encoder;
mod floor;
mod many;
mod measure;
mod metrics;
mod misses;
mod names;
mod options;
mod schemas;
mod sets;
mod speed;
mod spread;
mod table;
mod vectors;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value};

use baseline::{ENCODED, Figures};
use measure::{Measured, Way};
use options::Options;
use sets::{BESIDE, MEASURED, Set};

/// A part of the report: a text, and a key and data for the JSON output.
struct Part {
    text: String,
    key: &'static str,
    data: Value,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let options = match Options::parse(arguments) {
        Ok(Options { is_help: true, .. }) => return say(options::USAGE, ExitCode::SUCCESS),
        Ok(options) => options,
        Err(mistake) => {
            write!(std::io::stderr(), "{mistake}\n\n{}", options::USAGE)?;
            return Ok(ExitCode::from(2));
        }
    };
    if options.is_speed_of_input {
        return say(&format!("{}\n", speed::measure(std::io::stdin().lock())?), ExitCode::SUCCESS);
    }
    let (parts, is_worse) = parts(root, &options)?;
    let text = if options.is_json {
        let data: Map<String, Value> = parts.into_iter().map(|part| (part.key.to_owned(), part.data)).collect();
        format!("{:#}\n", Value::Object(data))
    } else {
        parts.into_iter().map(|part| part.text).collect::<Vec<_>>().join("\n")
    };
    say(&text, if is_worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the requested parts. Also returns `true` if the search became worse.
fn parts(root: &Path, options: &Options) -> anyhow::Result<(Vec<Part>, bool)> {
    let is_wanted = |name: &&str| options.set.is_none_or(|set| set == *name);
    let wanted: Vec<&'static str> =
        MEASURED.into_iter().chain([BESIDE]).filter(|name| is_wanted(name) || options.has_floor).collect();
    progress(&format!("reading {} sets", wanted.len()))?;
    let sets: anyhow::Result<Vec<Set>> = spread::spread(&wanted, |name| Set::read(root, name))?.into_iter().collect();
    let mut sets = sets?;
    let mut parts = Vec::new();
    let mut figures = Figures::default();
    let mut measured = measure_all(&sets, is_wanted)?;
    parts.push(measure::part(&measured, Way::Table));
    figures.add(Way::Table, &measured);
    if !options.is_without_encoder {
        drop(measured);
        if options.is_check || options.is_bless {
            sets.retain(|set| ENCODED.contains(&set.name));
        }
        for set in &mut sets {
            set.index = vectors::encoded(std::mem::take(&mut set.index), root)?;
        }
        measured = measure_all(&sets, is_wanted)?;
        parts.push(measure::part(&measured, Way::Encoder));
        figures.add(Way::Encoder, &measured);
    }
    if options.has_misses {
        parts.push(misses::part(&measured));
    }
    if options.has_floor {
        progress("running the queries of every set against the tools of the others")?;
        parts.push(floor::part(&sets, is_wanted)?);
    }
    if options.is_fit {
        let counted = sets.iter().filter(|set| set.name != BESIDE && is_wanted(&set.name));
        parts.push(if options.is_without_encoder {
            progress("learning weights, leaving out each set once")?;
            fit::part(&counted.collect::<Vec<_>>())?
        } else {
            progress("choosing the weight of the encoder")?;
            fit_encoder::part(&counted.filter(|set| ENCODED.contains(&set.name)).collect::<Vec<_>>())?
        });
    }
    if options.has_speed {
        parts.push(speed::part(root)?);
        parts.push(encoder_speed::part(root)?);
    }
    let mut is_worse = false;
    if options.is_check {
        let (part, worse) = baseline::part(root, &figures)?;
        parts.push(part);
        is_worse = worse;
    }
    if options.is_bless {
        parts.push(baseline::write(root, &figures)?);
    }
    Ok((parts, is_worse))
}

fn measure_all(sets: &[Set], is_wanted: impl Fn(&&str) -> bool) -> anyhow::Result<Vec<Measured<'_>>> {
    let mut measured = Vec::new();
    for set in sets.iter().filter(|set| is_wanted(&set.name)) {
        progress(&format!("{}: {} queries", set.name, set.queries.len()))?;
        measured.push(Measured::of(set)?);
    }
    Ok(measured)
}

fn progress(what: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stderr(), "search-eval: {what}")?)
}

fn say(text: &str, code: ExitCode) -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(code)
}
