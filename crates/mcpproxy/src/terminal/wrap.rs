//! Measures and wraps text in columns of the terminal. Wrapping never breaks a word.

use comfy_table::{ContentArrangement, Table, presets};

/// Returns the number of columns that a text without line breaks takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // Wide and combining characters: the table library knows their widths.
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.add_row([text]);
    table.column_max_content_widths().first().copied().map_or(0, usize::from)
}

/// Returns the width of the longest word.
pub(crate) fn longest_word(text: &str) -> usize {
    text.split(' ').map(width).max().unwrap_or_default()
}

/// Splits a text into lines at spaces. A word that is longer than the room gets its own line.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<String> {
    wrap_after(text, room, room)
}

/// Splits a text into lines at spaces. The first line has its own room, and stays empty if no word fits.
pub(crate) fn wrap_after(text: &str, first: usize, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let (left, is_short) = if lines.is_empty() { (first, first < room) } else { (room, false) };
        let needed = if line.is_empty() { width(word) } else { width(&line) + 1 + width(word) };
        if needed > left && (!line.is_empty() || is_short) {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Wraps a text and indents every line but the first.
pub(crate) fn hanging(text: &str, room: usize, indent: usize) -> String {
    wrap(text, room.saturating_sub(indent)).join(&format!("\n{:indent$}", ""))
}

/// Wraps a message for people, line by line. A command between backticks stays whole, and one at the end of a line gets
/// its own line, so that both can be copied. Lines that are indented, aligned or coloured stay as they are.
pub(crate) fn message(text: &str, room: usize) -> String {
    text.split('\n').map(|line| message_line(line, room)).collect::<Vec<_>>().join("\n")
}

fn message_line(line: &str, room: usize) -> String {
    if width(line) <= room || line.starts_with(' ') || line.contains("  ") || line.contains('\u{1b}') {
        return line.to_owned();
    }
    let (prose, command) = match line.find(COMMAND) {
        Some(at) if !line.get(..at).unwrap_or_default().contains('`') => line.split_at(at + 1),
        Some(_) | None => (line, ""),
    };
    // A space that must not be broken is replaced while the text is wrapped.
    let mut is_code = false;
    let kept: String = prose
        .chars()
        .map(|c| {
            is_code ^= c == '`';
            if c == ' ' && is_code { KEPT_SPACE } else { c }
        })
        .collect();
    // Without its second half, a backtick marks nothing.
    let mut out = wrap(if is_code { prose } else { &kept }, room).join("\n").replace(KEPT_SPACE, " ");
    if !command.is_empty() {
        out.push_str(&format!("\n  {}", command.trim_start()));
    }
    out
}

/// Begins a command at the end of a line.
const COMMAND: &str = ": mcpproxy ";
const KEPT_SPACE: char = '\u{F8FF}';

/// Cuts a text at a space and marks the cut with an ellipsis.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        let longer = if kept.is_empty() { word.to_owned() } else { format!("{kept} {word}") };
        if width(&longer) + 2 > room {
            break;
        }
        kept = longer;
    }
    if kept.is_empty() {
        // The first word alone is too long.
        for c in text.chars() {
            let longer = format!("{kept}{c}");
            if width(&longer) + 1 > room {
                break;
            }
            kept = longer;
        }
        return kept + "…";
    }
    kept + " …"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a verylongword b", 5), ["a", "verylongword", "b"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("日本 語の", 4), ["日本", "語の"]);
        assert_eq!(wrap_after("one two three", 2, 7), ["", "one two", "three"]);
        assert_eq!(wrap_after("one two three", 4, 9), ["one", "two three"]);
        assert_eq!(hanging("one two three", 9, 2), "one two\n  three");
        assert_eq!((longest_word("a bcd ef"), width("日本"), width("✓ ok")), (3, 4, 4));
    }

    #[test]
    fn messages_keep_commands_whole() {
        let check = |text: &str, expected: &str| assert_eq!(message(text, 20), expected);
        check("short: mcpproxy a b", "short: mcpproxy a b");
        check("see all of them: mcpproxy tools list --all", "see all of them:\n  mcpproxy tools list --all");
        check("run it with `mcpproxy tools list` and wait", "run it with\n`mcpproxy tools list`\nand wait");
        check("one ` backtick is no code here", "one ` backtick is no\ncode here");
        check(
            "first line is a long one\n  mcpproxy stays as it is here",
            "first line is a long\none\n  mcpproxy stays as it is here",
        );
        check("NAME  STATE   RESTARTS  REASON", "NAME  STATE   RESTARTS  REASON");
    }

    #[test]
    fn cuts_are_marked() {
        assert_eq!(cut("Lists all projects", 18), "Lists all projects");
        assert_eq!(cut("Lists all projects", 17), "Lists all …");
        assert_eq!(cut("Listsallprojects", 6), "Lists…");
        assert_eq!(cut("日本語の", 5), "日本…");
    }
}
