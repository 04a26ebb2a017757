//! The two tool annotations of MCP that decide which `call_tool_*` variant a tool needs.

use crate::Variant;
use crate::json::members;

/// `readOnlyHint` and `destructiveHint` as a server declares them for one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
}

impl Hints {
    /// Reads a tool's `annotations`. The error is the name of a hint that is neither true nor false.
    pub(crate) fn of(annotations: Option<&str>) -> Result<Self, &'static str> {
        let annotations = annotations.and_then(members).unwrap_or_default();
        let hint =
            |wanted: &'static str| match annotations.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value) {
                None | Some("null") => Ok(None),
                Some("true") => Ok(Some(true)),
                Some("false") => Ok(Some(false)),
                Some(_) => Err(wanted),
            };
        Ok(Self { read_only: hint("readOnlyHint")?, destructive: hint("destructiveHint")? })
    }

    /// Returns the variant that an agent has to use: `write` if the hints declare nothing.
    pub fn call_with(self) -> Variant {
        self.operation().unwrap_or(Variant::Write)
    }

    /// Returns the operation that the hints declare. `destructiveHint: false` alone declares none.
    pub fn operation(self) -> Option<Variant> {
        // Destructive wins when a server claims both: the stricter reading is the safe one.
        match (self.destructive, self.read_only) {
            (Some(true), _) => Some(Variant::Destructive),
            (_, Some(true)) => Some(Variant::Read),
            (_, Some(false)) => Some(Variant::Write),
            (Some(false) | None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_with_follows_the_hints() {
        let check = |read_only, destructive, expected| {
            assert_eq!(Hints { read_only, destructive }.call_with(), expected);
        };
        check(None, None, Variant::Write);
        check(Some(true), None, Variant::Read);
        check(Some(true), Some(true), Variant::Destructive);
        check(Some(false), Some(true), Variant::Destructive);
        check(Some(false), Some(false), Variant::Write);
        check(Some(true), Some(false), Variant::Read);
    }
}
