//! The width of the output.
//!
//! | where | width |
//! |---|---|
//! | `COLUMNS` is set | its value |
//! | the output is a terminal | the width of the terminal |
//! | neither | lists print one row per line and cut nothing, so that `grep` and `awk` work; prose wraps at 80 |
//!
//! Each output has its own width, because only one of them may be redirected: standard output for lists and prose,
//! standard error for messages. `mcpproxy config check 2>errors.txt` does not wrap the messages in the file.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// The width of prose where the width of the terminal is unknown.
const PROSE_COLUMNS: usize = 80;
/// Longer lines of prose are hard to read.
const PROSE_COLUMNS_MAX: usize = 100;
/// No layout fits less than this.
const COLUMNS_MIN: usize = 20;

/// Returns the width for lists, or `None` if rows may have any length.
pub(crate) fn columns() -> Option<usize> {
    columns_of(&std::io::stdout())
}

/// Returns the width for messages on standard error, or `None` if lines may have any length.
pub(crate) fn message_columns() -> Option<usize> {
    columns_of(&std::io::stderr())
}

fn columns_of(output: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let terminal = if output.is_terminal() { tcgetwinsize(output).ok().map(|size| size.ws_col) } else { None };
    chosen(std::env::var("COLUMNS").ok().as_deref(), terminal)
}

/// Returns the width for prose.
pub(crate) fn prose_columns() -> usize {
    columns().unwrap_or(PROSE_COLUMNS).min(PROSE_COLUMNS_MAX)
}

/// Chooses between `COLUMNS` and the terminal. A terminal that does not know its width reports 0.
fn chosen(variable: Option<&str>, terminal: Option<u16>) -> Option<usize> {
    let variable = variable.and_then(|text| text.trim().parse::<usize>().ok()).filter(|columns| *columns > 0);
    let terminal = terminal.map(|columns| if columns == 0 { PROSE_COLUMNS } else { usize::from(columns) });
    variable.or(terminal).map(|columns| columns.max(COLUMNS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_over_the_terminal() {
        let check = |variable: Option<&str>, terminal: Option<u16>, expected: Option<usize>| {
            assert_eq!(chosen(variable, terminal), expected, "{variable:?} {terminal:?}");
        };
        check(None, None, None);
        check(None, Some(60), Some(60));
        check(None, Some(0), Some(80));
        check(Some("60"), None, Some(60));
        check(Some("60"), Some(120), Some(60));
        check(Some(" 100\n"), Some(80), Some(100));
        check(Some(""), Some(80), Some(80));
        check(Some("wide"), None, None);
        check(Some("0"), None, None);
        check(Some("3"), None, Some(20));
    }
}
