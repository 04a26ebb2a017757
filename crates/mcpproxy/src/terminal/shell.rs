//! Quotes text for the shell, so that printed commands can be pasted.

use std::fmt::Write as _;

use crate::terminal::output::line;

/// Quotes a word. Control and invisible characters become escapes that the shell decodes.
pub(crate) fn word(text: &str) -> String {
    if line(text) == text {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    // Bash, zsh and ksh support this form. Other shells have no safe form for these characters.
    let mut out = String::from("$'");
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\\' | '\'' => out.extend(['\\', c]),
            c if line(c.encode_utf8(&mut buffer)) == *c.encode_utf8(&mut [0; 4]) => out.push(c),
            c => {
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    let _infallible = write!(out, "\\x{byte:02x}");
                }
            }
        }
    }
    out + "'"
}

/// Quotes a word only if it needs quotes.
pub(crate) fn plain_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) { text.to_owned() } else { word(text) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn shells_read_back_what_was_meant() {
        let check = |text: &str, expected: &str| {
            assert_eq!(word(text), expected);
            let script = format!("printf %s {}; printf '|%s' {}", word(text), plain_word(text));
            let said = Command::new("bash").args(["-c", &script]).env("LC_ALL", "C.UTF-8").output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("{text}|{text}"), "{expected}");
        };
        check("", "''");
        check("plain", "'plain'");
        check("{\"a\": \"it's\"}", "'{\"a\": \"it'\\''s\"}'");
        check("$(rm -rf /) `x` \\ !", "'$(rm -rf /) `x` \\ !'");
        check("ünï 🙂", "'ünï 🙂'");
        check("{\n\t\"a\": 1}", "$'{\\n\\t\"a\": 1}'");
        check("\u{1b}[2J it's \\", "$'\\x1b[2J it\\'s \\\\'");
        check("a\u{202e}b1", "$'a\\xe2\\x80\\xaeb1'");
    }

    #[test]
    fn quotes_only_where_they_are_needed() {
        for (text, expected) in
            [("/home/you/data", "/home/you/data"), ("/my data", "'/my data'"), ("", "''"), ("~", "'~'")]
        {
            assert_eq!(plain_word(text), expected);
        }
    }
}
