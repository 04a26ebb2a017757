//! Command-line options that select the misbehaviour.

use std::time::Duration;

/// The parsed command line.
#[derive(Debug, Default, Clone)]
pub(crate) struct Options {
    /// Writes noise between the messages on stdout, and floods stderr.
    pub(crate) noise: bool,
    /// Writes messages in small pieces, and an incomplete one at the end.
    pub(crate) half_lines: bool,
    /// Size of the text that the tool `huge` returns.
    pub(crate) huge_bytes: usize,
    /// Always announces another page of tools.
    pub(crate) endless_list: bool,
    pub(crate) exit_at_start: bool,
    /// Exits after this many calls.
    pub(crate) exit_after: Option<u64>,
    /// The tool `hang` never answers.
    pub(crate) hang: bool,
    /// Never answers anything.
    pub(crate) mute: bool,
    pub(crate) slow_start: Duration,
    /// Returns a tool list that violates the protocol in several ways.
    pub(crate) bad_tools: bool,
    /// Starts a child process that outlives this one.
    pub(crate) grandchild: bool,
    /// Starts a child process in a session of its own, which outlives this one.
    pub(crate) daemon: bool,
    /// Ignores SIGTERM and the end of stdin.
    pub(crate) ignore_term: bool,
    /// Sends every answer twice.
    pub(crate) duplicate_ids: bool,
    pub(crate) list_changed_every_ms: Option<u64>,
    /// Offers the tool `slow`, which answers after this time.
    pub(crate) delay: Duration,
    /// Offers the tool `flood`, which sends messages without end.
    pub(crate) floods: bool,
    /// Lists this many more tools, all on one page.
    pub(crate) more_tools: u64,
    /// Size of the description of each of these tools.
    pub(crate) description_bytes: usize,
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
                "--daemon" => options.daemon = true,
                "--ignore-term" => options.ignore_term = true,
                "--duplicate-ids" => options.duplicate_ids = true,
                "--list-changed-every" => options.list_changed_every_ms = Some(number()?),
                "--delay" => options.delay = Duration::from_millis(number()?),
                "--floods" => options.floods = true,
                "--more-tools" => options.more_tools = number()?,
                "--description" => {
                    options.description_bytes = usize::try_from(number()?).map_err(|error| error.to_string())?;
                }
                unknown => return Err(format!("unknown switch `{unknown}`")),
            }
        }
        Ok(options)
    }
}
