//! Colours by meaning. A word or a mark always says the same thing, so nothing is lost without colours.
//!
//! Colours are on if the output is a terminal. In order of precedence:
//!
//! 1. `NO_COLOR` with any value turns them off.
//! 2. `CLICOLOR_FORCE` turns them on, also in a pipe, unless it is `0`.
//! 3. `TERM=dumb` and `CLICOLOR=0` turn them off.

use std::io::IsTerminal;

const RESET: &str = "\x1b[0m";

/// The meaning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Works as intended.
    Good,
    /// Needs attention.
    Warning,
    /// Failed or refused.
    Bad,
    /// Less important than the text around it.
    Dim,
    /// A heading or a name.
    Strong,
}

impl Tone {
    fn start(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Warning => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Dim => "\x1b[2m",
            Self::Strong => "\x1b[1m",
        }
    }
}

/// Colours of one output: on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    On,
    Off,
}

impl Colours {
    /// Decides for one output, such as standard error.
    pub(crate) fn of(output: &impl IsTerminal) -> Self {
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::chosen(output.is_terminal(), variable)
    }

    fn chosen(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let is = |name: &str, expected: &str| variable(name).as_deref() == Some(expected);
        let is_on = if is_set("NO_COLOR") {
            false
        } else if is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0") {
            true
        } else {
            is_terminal && !is("TERM", "dumb") && !is("CLICOLOR", "0")
        };
        if is_on { Self::On } else { Self::Off }
    }

    /// Colours a text.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        match (self, tone) {
            (Self::Off, _) | (Self::On, Tone::Plain) => text.to_owned(),
            (Self::On, Tone::Good | Tone::Warning | Tone::Bad | Tone::Dim | Tone::Strong) => {
                format!("{}{text}{RESET}", tone.start())
            }
        }
    }
}

/// Returns the tone of the state of a server, an approval request, a token or a record.
pub(crate) fn of_state(word: &str) -> Tone {
    match word {
        "ready" | "approved" | "consumed" | "success" | "valid" | "active" | "ok" => Tone::Good,
        "connecting" | "pending" | "started" | "requested" | "unapproved" | "quarantined" | "expired" | "cancelled"
        | "interrupted" | "warn" => Tone::Warning,
        "failed" | "waiting" | "misconfigured" | "needs_sign_in" | "denied" | "error" | "refused" | "revoked" => {
            Tone::Bad
        }
        "disabled" => Tone::Dim,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_decide_in_order() {
        let check = |is_terminal: bool, variables: &[(&str, &str)], expected: Colours| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(Colours::chosen(is_terminal, variable), expected, "{is_terminal} {variables:?}");
        };
        check(true, &[], Colours::On);
        check(false, &[], Colours::Off);
        check(true, &[("NO_COLOR", "1")], Colours::Off);
        check(true, &[("NO_COLOR", "")], Colours::On);
        check(true, &[("TERM", "dumb")], Colours::Off);
        check(true, &[("CLICOLOR", "0")], Colours::Off);
        check(false, &[("CLICOLOR_FORCE", "1")], Colours::On);
        check(false, &[("CLICOLOR_FORCE", "0")], Colours::Off);
        check(true, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], Colours::On);
        check(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], Colours::Off);
    }

    #[test]
    fn only_colours_are_added() {
        assert_eq!(Colours::On.paint(Tone::Bad, "✗ denied"), "\x1b[31m✗ denied\x1b[0m");
        assert_eq!(Colours::On.paint(Tone::Plain, "x"), "x");
        assert_eq!(Colours::Off.paint(Tone::Bad, "✗ denied"), "✗ denied");
    }
}
