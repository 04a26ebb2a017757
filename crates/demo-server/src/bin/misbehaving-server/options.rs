//! The switches: which bad manners to show.

use std::time::Duration;

/// What was asked for on the command line.
#[derive(Debug, Default, Clone)]
pub(crate) struct Options {
    /// Other things between the messages on stdout, and a flood on stderr.
    pub(crate) noise: bool,
    /// Messages in small pieces, and an unfinished one at the end.
    pub(crate) half_lines: bool,
    /// How much text the tool `huge` returns.
    pub(crate) huge_bytes: usize,
    /// There is always another page of tools.
    pub(crate) endless_list: bool,
    pub(crate) exit_at_start: bool,
    /// Leave after this many calls.
    pub(crate) exit_after: Option<u64>,
    /// The tool `hang` never answers.
    pub(crate) hang: bool,
    /// Nothing is ever answered.
    pub(crate) mute: bool,
    pub(crate) slow_start: Duration,
    /// A list of tools that breaks the rules in several ways.
    pub(crate) bad_tools: bool,
    /// A process of our own that outlives us.
    pub(crate) grandchild: bool,
    /// Neither SIGTERM nor the end of stdin ends the process.
    pub(crate) ignore_term: bool,
    /// Every answer comes twice.
    pub(crate) duplicate_ids: bool,
    pub(crate) list_changed_every_ms: Option<u64>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { huge_bytes: 1_000_000, ..Self::default() };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let text = arguments.next().ok_or_else(|| format!("`{argument}` needs a number"))?;
                text.parse::<u64>().map_err(|_error| format!("`{text}` after `{argument}` is not a number"))
            };
            match argument.as_str() {
                "--noise" => options.noise = true,
                "--half-lines" => options.half_lines = true,
                "--huge" => options.huge_bytes = usize::try_from(number()?).map_err(|error| error.to_string())?,
                "--endless-list" => options.endless_list = true,
                "--exit-at-start" => options.exit_at_start = true,
                "--exit-after" => options.exit_after = Some(number()?),
                "--hang" => options.hang = true,
                "--mute" => options.mute = true,
                "--slow-start" => options.slow_start = Duration::from_millis(number()?),
                "--bad-tools" => options.bad_tools = true,
                "--grandchild" => options.grandchild = true,
                "--ignore-term" => options.ignore_term = true,
                "--duplicate-ids" => options.duplicate_ids = true,
                "--list-changed-every" => options.list_changed_every_ms = Some(number()?),
                unknown => return Err(format!("unknown switch `{unknown}`")),
            }
        }
        Ok(options)
    }
}
