//! Compares the checked-in table with the decisions, combination by combination.

use std::collections::HashSet;
use std::sync::LazyLock;

use mcpproxy_core::decision::TABLE;

use super::compact::{mistakes, read, table};
use super::generator::{self, Section, sections};

const BLESS: &str = "`BLESS=1 cargo test -p mcpproxy-core --test decisions` writes it";

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(sections);

/// Returns the content of the file, or what `BLESS=1` makes of it.
fn checked_in() -> String {
    if is_blessed() { table(&SECTIONS) } else { TABLE.to_owned() }
}

fn is_blessed() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Proves that the table says the same as the decision, for every combination.
#[test]
fn each_combination_matches_exactly_one_row() {
    let mistakes = mistakes(&checked_in(), &SECTIONS);
    let some = mistakes.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(mistakes.is_empty(), "{} decisions changed; if they should have, {BLESS}\n{some}", mistakes.len());
}

/// Proves that the table is written in one way only, so that its diff shows changed decisions and nothing else.
#[test]
fn the_table_is_the_generated_one() {
    let (now, then) = (table(&SECTIONS), checked_in());
    if is_blessed() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/decisions.txt"), &now).unwrap();
    }
    let differs = now.lines().zip(then.lines()).find(|(now, then)| now != then);
    assert_eq!(differs, None, "`decisions.txt` is out of date; {BLESS}");
    assert_eq!(now, then, "`decisions.txt` is out of date; {BLESS}");
}

/// A table that nobody can read protects nothing.
#[test]
fn the_table_stays_short() {
    let text = checked_in();
    let rows: usize = read(&text).iter().map(|section| section.rows.len()).sum();
    assert!((100..500).contains(&rows), "{rows} rows");
}

/// No combination is enumerated twice, and no value looks like the notation of the table.
#[test]
fn combinations_are_distinct_and_plain() {
    for section in SECTIONS.iter() {
        let keys: HashSet<&[String]> = section.rows.iter().map(|row| row.split_last().unwrap().1).collect();
        assert_eq!(keys.len(), section.rows.len(), "{}", section.name);
        for cell in section.rows.iter().flatten() {
            assert!(cell != "any" && !cell.contains("  ") && !cell.contains('|') && !cell.starts_with('#'), "{cell}");
            assert!(!cell.is_empty() && cell.trim() == cell, "{cell}");
        }
    }
}

/// Damages the table in every way that could hide a decision. The proof notices each.
#[test]
fn the_proof_notices_every_kind_of_damage() {
    let sections = [generator::intent_section(), generator::permissions::section()];
    let text = table(&sections);
    assert_eq!(mistakes(&text, &sections), Vec::<String>::new());
    let first_with = |words: &str| text.lines().find(|line| line.contains(words)).unwrap();
    let repeat = format!("{}\n", first_with("allow unverified"));
    let expect = |damaged: String, words: &str| {
        assert_ne!(damaged, text, "{words}");
        let found = mistakes(&damaged, &sections);
        assert!(found.iter().any(|mistake| mistake.contains(words)), "{words}: {found:?}");
    };
    expect(text.replacen("allow unverified", "allow", 1), "is `allow unverified`, not Some(\"allow\")");
    expect(text.replacen(&repeat, "", 1), "no row matches");
    expect(text.replacen(&repeat, &repeat.repeat(2), 1), "2 rows match");
    expect(text.replacen(&repeat, &repeat.replacen("read", "any ", 1), 1), "2 rows match");
    expect(
        text.replacen(&repeat, &format!("{repeat}{}", repeat.replacen("read", "none", 1)), 1),
        "no combination matches",
    );
    expect(text.replacen("variant  ", "variants  ", 1), "the columns differ");
    expect(text.replacen("# permissions:", "# permission:", 1), "the sections differ");
    let (before, _) = text.split_once("\n\n# permissions").unwrap();
    expect(before.to_owned(), "the sections differ");
    expect(text.replacen(&repeat, &repeat.replacen("read", "", 1), 1), "a cell is missing");
}
