//! Patterns such as `mail:send` and `mail:*`, by which an operator's contract names its tools.

use std::fmt;

use super::ToolPattern;
use crate::{ServerName, ToolName};

const EXPECTED: &str = "expected `server:tool`, such as `mail:emails.send` or `mail:*`";
const STAR: &str = "`*` is allowed only at the end of the tool part, such as `mail:*` or `mail:emails.*`";

impl ToolPattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (server, tool) = text.split_once(':').ok_or(if text.contains('*') { STAR } else { EXPECTED })?;
        if server.is_empty() || tool.is_empty() || tool.contains(':') {
            return Err(EXPECTED.to_owned());
        }
        let (prefix, is_exact) = match tool.strip_suffix('*') {
            Some(prefix) => (prefix, false),
            None => (tool, true),
        };
        if prefix.contains('*') || server.contains('*') {
            return Err(STAR.to_owned());
        }
        let server = ServerName::parse(server).map_err(|error| error.to_string())?;
        if is_exact || !prefix.is_empty() {
            ToolName::of(&server, prefix).map_err(|error| error.to_string())?;
        }
        Ok(Self { server, prefix: prefix.to_owned(), is_exact })
    }
}

/// Formats the pattern as an operator writes it.
impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.server, self.prefix, if self.is_exact { "" } else { "*" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |text: &str, expected: Result<(&str, bool), &str>| {
            let found = ToolPattern::parse(text);
            if let Ok(pattern) = &found {
                assert_eq!(pattern.to_string(), text);
            }
            let found = found.as_ref().map(|pattern| (pattern.prefix.as_str(), pattern.is_exact));
            assert_eq!(found.map_err(String::as_str), expected, "{text:?}");
        };
        check("mail:emails.send", Ok(("emails.send", true)));
        check("mail:*", Ok(("", false)));
        check("mail:emails.*", Ok(("emails.", false)));
        for bad in ["", "mail", ":x", "mail:", "mail:a:b", "mail::*"] {
            check(bad, Err(EXPECTED));
        }
        for bad in ["*", "*:x", "m*:x", "mail:*.send", "mail:**", "mail:a*b", "mail:*a*"] {
            check(bad, Err(STAR));
        }
        check("Mail:x", Err("server names look like [a-z0-9][a-z0-9_-]{0,62}, without two underscores in a row"));
        check("mail:a b", Err("tool names consist of letters, digits, `_`, `.` and `-`"));
        check(&format!("mail:{}", "a".repeat(129)), Err("tool name longer than 128"));
        check(&format!("mail:{}*", "a".repeat(129)), Err("tool name longer than 128"));
    }

    #[test]
    fn what_they_match() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let matches = ToolPattern::parse(pattern).unwrap().matches(&ToolName::parse(name).unwrap());
            assert_eq!(matches, expected, "{pattern} {name}");
        };
        check("mail:send", "mail:send", true);
        check("mail:send", "mail:send2", false);
        check("mail:send*", "mail:send2", true);
        check("mail:send*", "mail:send", true);
        check("mail:*", "mail:send", true);
        check("mail:*", "files:send", false);
        check("mail:Send*", "mail:send", false);
    }

    #[test]
    fn patterns_within_others() {
        let check = |one: &str, other: &str, expected: bool| {
            let [one, other] = [one, other].map(|text| ToolPattern::parse(text).unwrap());
            assert_eq!(one.is_within(&other), expected, "{one} in {other}");
        };
        check("fx:send", "fx:*", true);
        check("fx:send*", "fx:*", true);
        check("fx:send", "fx:send*", true);
        check("fx:send*", "fx:send", false);
        check("fx:*", "fx:*", false);
        check("fx:send", "fx:send", false);
        check("fx:send", "fx:mail*", false);
        check("fx:send", "other:*", false);
    }
}
