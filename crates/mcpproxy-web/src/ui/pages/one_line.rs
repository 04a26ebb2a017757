//! Shortens untrusted texts to one line of a list: arguments as `name: value`, and reasons.

use mcpproxy_core::json;

use crate::visible::Visible;

/// Longer JSON is not taken apart, because a list has many rows.
const READ_BYTES: usize = 8_192;
const VALUE_CHARS: usize = 60;
const LINE_CHARS: usize = 200;

/// Writes the arguments of a call as `to: anna@acme.example · subject: Q3 update`. The text is as masked as it comes in.
pub(crate) fn arguments(args: &str) -> Visible {
    let args = args.trim();
    let members = if args.len() <= READ_BYTES { json::members(args) } else { None };
    let line = match members {
        Some(members) if members.is_empty() => return Visible::default(),
        Some(members) => {
            let part = |(name, value): &(std::borrow::Cow<'_, str>, &str)| {
                format!("{}: {}", cut(name, VALUE_CHARS), cut(&plain(value), VALUE_CHARS))
            };
            // More parts than this do not fit into the line.
            members.iter().take(LINE_CHARS / 4).map(part).collect::<Vec<_>>().join(" · ")
        }
        None => args.chars().take(LINE_CHARS * 2).collect(),
    };
    text(&line)
}

/// Shortens a text to one line.
pub(crate) fn text(text: &str) -> Visible {
    Visible::of(&cut(text.trim(), LINE_CHARS))
}

/// Shortens one JSON value.
pub(crate) fn value(value: &str) -> Visible {
    Visible::of(&cut(&plain(value), VALUE_CHARS))
}

/// Returns a string without quotes, and any other JSON as it is.
fn plain(value: &str) -> String {
    let value = value.trim();
    json::string_value(value).map_or_else(|| value.to_owned(), std::borrow::Cow::into_owned)
}

fn cut(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    // A line break is written as a space here. The page of the request marks it.
    short.replace(['\n', '\r', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_one_line() {
        let check = |args: &str, expected: &str| assert_eq!(arguments(args).to_string(), expected, "{args}");
        check("{}", "");
        check(r#"{"userId": "u_max"}"#, "userId: u_max");
        check(r#"{"to": ["a@b"], "n": 1.0, "x": null}"#, "to: [&quot;a@b&quot;] · n: 1.0 · x: null");
        check(r#"{"a\n<b>": "line\nbreak"}"#, "a &lt;b&gt;: line break");
        check(
            "{\"\\u202ename\": \"\\u202e\"}",
            "<span class=\"mark\" title=\"changes the direction of text\">U+202E</span>name: \
             <span class=\"mark\" title=\"changes the direction of text\">U+202E</span>",
        );
        check("[1]", "[1]");
    }

    #[test]
    fn long_ones_are_cut() {
        let long = arguments(&format!("{{\"body\": \"{}\", \"to\": 1}}", "x".repeat(500))).to_string();
        assert!(long.ends_with("… · to: 1") && long.len() < 100, "{long}");
        let huge = arguments(&format!("{{\"body\": \"{}\"}}", "x".repeat(1_000_000))).to_string();
        assert!(huge.ends_with('…') && huge.len() < 300, "{huge}");
    }
}
