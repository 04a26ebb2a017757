//! Tests of the layouts of lists.

use super::*;

fn row(cells: [&str; 4]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn list() -> List {
    let rows = vec![
        row(["demo:list", "low", "-", "Lists everything there is to list."]),
        row(["demo:export_all_without_asking", "critical", "confirmation", "Exports."]),
    ];
    List::new(&["TOOL", "RISK", "NEEDS", "DESCRIPTION"], rows)
}

fn plain(room: Option<usize>) -> Layout {
    Layout { room, colours: Colours::Off }
}

fn fits(text: &str, room: Option<usize>) {
    let widest = text.lines().map(width).max().unwrap_or_default();
    assert!(room.is_none_or(|room| widest <= room.max(30)), "{room:?} {widest}\n{text}");
}

#[test]
fn prose_is_cut_and_names_are_not() {
    let check = |room: Option<usize>, expected: &str| {
        let text = list().text(Flexible::LastIsCut, plain(room));
        assert_eq!(text, expected, "{room:?}");
        fits(&text, room);
    };
    check(
        None,
        "TOOL                            RISK      NEEDS         DESCRIPTION\n\
         demo:list                       low       -             Lists everything there is to list.\n\
         demo:export_all_without_asking  critical  confirmation  Exports.\n",
    );
    check(
        Some(80),
        "TOOL                            RISK      NEEDS         DESCRIPTION\n\
         demo:list                       low       -             Lists everything there …\n\
         demo:export_all_without_asking  critical  confirmation  Exports.\n",
    );
    check(
        Some(70),
        "TOOL                  RISK      NEEDS         DESCRIPTION\n\
         demo:list             low       -             Lists everything there …\n\
         demo:export_all_without_asking\n                      critical  confirmation  Exports.\n",
    );
    check(
        Some(40),
        "demo:list\n  risk: low\n  Lists everything there is to list.\n\n\
         demo:export_all_without_asking\n  risk: critical · needs: confirmation\n  Exports.\n",
    );
}

#[test]
fn columns_without_a_value_are_left_out_where_room_is_short() {
    let rows = vec![row(["demo:list", "-", "-", "Lists everything there is to list."]), row(["demo:a", "", "-", "-"])];
    let list = List::new(&["TOOL", "RISK", "NEEDS", "DESCRIPTION"], rows);
    let check = |room: usize, expected: &str| {
        assert_eq!(list.text(Flexible::LastIsCut, plain(Some(room))), expected, "{room}");
    };
    check(
        80,
        "TOOL       RISK  NEEDS  DESCRIPTION\n\
         demo:list  -     -      Lists everything there is to list.\n\
         demo:a           -      -\n",
    );
    check(50, "TOOL       DESCRIPTION\ndemo:list  Lists everything there is to list.\ndemo:a     -\n");
}

#[test]
fn nothing_is_cut_in_a_table() {
    let check = |room: usize, expected: &str| {
        let rows = vec![
            row(["a", "failed", "3", "the process ended with exit code 1: TOKEN is not set"]),
            row(["b", "ready", "-", "-"]),
        ];
        let list = List::new(&["NAME", "STATE", "RESTARTS", "REASON"], rows);
        let text = list.text(Flexible::WidestIsWrapped, plain(Some(room)));
        assert_eq!(text, expected, "{room}");
        fits(&text, Some(room));
    };
    check(
        80,
        "NAME  STATE   RESTARTS  REASON\n\
         a     failed  3         the process ended with exit code 1: TOKEN is not set\n\
         b     ready   -         -\n",
    );
    check(
        60,
        "NAME  STATE   RESTARTS  REASON\n\
         a     failed  3         the process ended with exit code 1:\n                        TOKEN is not set\n\
         b     ready   -         -\n",
    );
    check(
        40,
        "a\n  state: failed · restarts: 3\n  reason: the process ended with exit\n    code 1: TOKEN is not set\n\n\
         b\n  state: ready\n",
    );
}

#[test]
fn a_long_word_stays_whole() {
    let rows = vec![row(["a", "x", "y", "see https://example.com/a/very/long/address/of/a/page for details"])];
    let text = List::new(&["NAME", "B", "C", "WHERE"], rows).text(Flexible::WidestIsWrapped, plain(Some(40)));
    assert_eq!(
        text,
        "a\n  b: x · c: y\n  where: see\n    https://example.com/a/very/long/address/of/a/page\n    for details\n"
    );
}

#[test]
fn colours_change_no_column() {
    let uncoloured = |text: &str| {
        let mut text = text.to_owned();
        for code in ["\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"] {
            text = text.replace(code, "");
        }
        text
    };
    for room in [None, Some(80), Some(50), Some(30)] {
        let rows = || {
            [vec![
                Cell::new("a", Tone::Plain),
                Cell::new("✓ ready", Tone::Good),
                Cell::new("word ".repeat(20), Tone::Bad),
            ]]
        };
        let text = |colours| {
            List::new(&["NAME", "STATE", "WHY"], rows()).text(Flexible::WidestIsWrapped, Layout { room, colours })
        };
        let coloured = text(Colours::On);
        assert!(coloured.contains("\x1b[32m✓ ready\x1b[0m"), "{coloured}");
        assert_eq!(uncoloured(&coloured), text(Colours::Off), "{room:?}");
    }
}

#[test]
fn whole_lines_or_nothing() {
    let rows = || [vec!["demo".to_owned(), "create_note".to_owned()]];
    let lines = |room| whole_lines(&["SERVER", "TOOL"], rows(), plain(room));
    assert_eq!(lines(Some(19)).as_deref(), Some("SERVER  TOOL\ndemo    create_note\n"));
    assert_eq!(lines(Some(18)), None);
    assert!(lines(None).is_some());
}
