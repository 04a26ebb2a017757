//! A decision in one word, for test cases and replays: `allow`, `ask`, `step_up`, `not_found`, `deny CODE`.

use std::borrow::Cow;
use std::fmt;

use super::Decision;
use crate::denial::Denial;
use crate::error_code::ErrorCode;
use crate::nearest;

/// The outcome of a decision, without the call it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ruling {
    /// The call may be sent, or is answered without a server: a preview, or the first result of a repeated call.
    Allow,
    /// A user must approve the call.
    Ask,
    /// A user must approve the call with a fresh second factor.
    StepUp,
    /// A dry run of the same call must come first.
    DryRunRequired,
    /// The tool does not exist for the agent. A forbidden tool looks the same.
    NotFound,
    /// The call is refused with this code.
    Deny(Cow<'static, str>),
}

/// The words of the rulings without a code.
const WORDS: [(&str, Ruling); 5] = [
    ("allow", Ruling::Allow),
    ("ask", Ruling::Ask),
    ("step_up", Ruling::StepUp),
    ("dry_run_required", Ruling::DryRunRequired),
    ("not_found", Ruling::NotFound),
];

impl Ruling {
    pub fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Allow(_) | Decision::Preview(_) | Decision::Repeat(_) => Self::Allow,
            Decision::Ask(request) if request.needs_step_up() => Self::StepUp,
            Decision::Ask(_) => Self::Ask,
            Decision::Deny(denial) => Self::of_denial(denial),
        }
    }

    pub fn of_denial(denial: &Denial) -> Self {
        Self::of_code(denial.code())
    }

    /// Returns the ruling of a refusal with this code.
    pub fn of_code(code: &'static str) -> Self {
        if code == ErrorCode::ToolNotFound.as_str() {
            Self::NotFound
        } else if code == ErrorCode::DryRunRequired.as_str() {
            Self::DryRunRequired
        } else {
            Self::Deny(code.into())
        }
    }

    /// Reads `allow`, `ask`, `step_up`, `dry_run_required`, `not_found`, or `deny` with the code of a refusal.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, ruling)) = WORDS.into_iter().find(|(word, _)| *word == text) {
            return Ok(ruling);
        }
        let expected = "expected `allow`, `ask`, `step_up`, `dry_run_required`, `not_found`, `deny` or `deny CODE`";
        let code = text.strip_prefix("deny ").ok_or(expected)?.trim();
        let codes = || ErrorCode::ALL.iter().map(|code| code.as_str());
        match codes().find(|known| *known == code) {
            Some(known) => Ok(Self::of_code(known)),
            None => {
                let near = nearest(code, codes()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                Err(format!("no refusal has this code{near}"))
            }
        }
    }

    /// Returns true if the agent's call does not run and no user can let it run.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Allow | Self::Ask | Self::StepUp => false,
            Self::DryRunRequired | Self::NotFound | Self::Deny(_) => true,
        }
    }
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Deny(code) = self {
            return write!(f, "deny {code}");
        }
        let word = WORDS.iter().find(|(_, ruling)| ruling == self).map_or("", |(word, _)| *word);
        f.write_str(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for text in ["allow", "ask", "step_up", "dry_run_required", "not_found", "deny policy_violation"] {
            assert_eq!(Ruling::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Ruling::parse("deny tool_not_found"), Ok(Ruling::NotFound));
        assert_eq!(Ruling::parse("deny dry_run_required"), Ok(Ruling::DryRunRequired));
        assert!(Ruling::parse("deny policy_violations").unwrap_err().contains("did you mean `policy_violation`?"));
        for bad in ["", "deny", "Allow", "denied x"] {
            assert!(Ruling::parse(bad).is_err(), "{bad}");
        }
    }
}
