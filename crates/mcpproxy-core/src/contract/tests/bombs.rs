//! Tests that files with excessive cost for their size are refused early.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::bad::mistakes;
use crate::contract::{Contract, Contracts};

/// Time limit. A bomb that works would take hours, so a busy machine gets plenty of room.
const QUICK: Duration = Duration::from_secs(60);

fn quickly<T>(read: impl Fn() -> T) -> T {
    let start = Instant::now();
    let found = read();
    assert!(start.elapsed() < QUICK, "{:?}", start.elapsed());
    found
}

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    let found = quickly(|| mistakes(name, text));
    assert_eq!(found.first().map(String::as_str).unwrap_or_default(), expected);
}

const ANCHOR: &str = "anchors (`&`) and aliases (`*`) are not supported; repeat \
    the value, or quote text that begins with `&` or `*`";

#[test]
fn nests_and_copies() {
    let mut laughs = String::new();
    for n in 1..12 {
        let before = format!("*a{}", n - 1);
        let _infallible = writeln!(laughs, "a{n}: &a{n} [{}]", [before.as_str(); 10].join(", "));
    }
    check("c.yaml", &laughs, &format!("line 1, column 5: {ANCHOR}"));
    check("c.yaml", &format!("x: [{}", "*a ,".repeat(60_000)), &format!("line 1, column 5: {ANCHOR}"));
    check("c.yaml", &"&a ".repeat(80_000), &format!("line 1, column 1: {ANCHOR}"));
    check(
        "c.yaml",
        &"!a ".repeat(80_000),
        "line 1, column 1: tags (`!`) are not supported; remove the tag, and quote text",
    );
    check("c.yaml", &"[".repeat(200_000), "line 1, column 33: nested deeper than 32 levels");
    check("c.yaml", &"{a: ".repeat(60_000), "line 1, column 129: nested deeper than 32 levels");
    check("c.yaml", &"- ".repeat(100_000), "line 1, column 65: nested deeper than 32 levels");
    check("c.yaml", &"? ".repeat(100_000), "line 1, column 65: nested deeper than 32 levels");
    check(
        "c.yaml",
        &format!("{}{}{}", "- ".repeat(20), "[".repeat(20), "]".repeat(20)),
        "line 1, column 53: nested deeper than 32 levels",
    );
    check("c.json", &"[".repeat(200_000), "line 1, column 513: this is nested too deeply");
    check(
        "c.json",
        &format!("{}{}", "[".repeat(40), "]".repeat(40)),
        "line 1, column 33: nested deeper than 32 levels",
    );
}

#[test]
fn crowds() {
    let many = "more than 50000 values in one file; spread the contracts over several";
    check("c.yaml", &format!("[{}]", "1,".repeat(120_000)), &format!("line 1, column 100000: {many}"));
    check("c.json", &format!("[{}]", "1,".repeat(120_000)), &format!("line 1, column 100000: {many}"));
    let keys: String = (0..100_000).map(|n| format!("{n}\n")).collect();
    check(
        "c.yaml",
        &keys.replace('\n', ":\n"),
        "line 1, column 1: larger than 256 KiB; spread the contracts over several files",
    );
    let keys: String = (0..26_000).map(|n| format!("k{n}: \n")).collect();
    check("c.yaml", &keys, &format!("line 25000, column 7: {many}"));
    let keys: String = (0..26_000).map(|n| format!("\"{n}\":1,")).collect();
    check("c.json", &format!("{{{keys}}}"), &format!("line 1, column 238890: {many}"));
    check("c.yaml", &"---\n".repeat(60_000), &format!("line 50001, column 4: {many}"));
    check("c.yaml", &"- \n".repeat(60_000), &format!("line 50000, column 3: {many}"));
    check(
        "c.yaml",
        &"a: b\n".repeat(50_000),
        "line 2, column 1: duplicate key `a`, first used at line 1, column 1; keep one of them",
    );
    check("c.yaml", &"[]: \n".repeat(40_000), "line 1, column 1: a list or an object cannot be a key; use text");
    check(
        "c.yaml",
        &"\"a\" ".repeat(60_000),
        "line 1, column 5: found text after the closing quote; quote the whole text",
    );
    check(
        "c.yaml",
        &format!("{{{}}}", "a, ".repeat(20_000)),
        "line 1, column 5: duplicate key `a`, first used at line 1, column 2; keep one of them",
    );
}

#[test]
fn long_texts() {
    let text = "line 1, column 1: expected object, found string";
    check("c.yaml", &"a".repeat(256 * 1024), text);
    check("c.yaml", &"a ".repeat(128 * 1024), text);
    check("c.yaml", &"a\n".repeat(128 * 1024), text);
    check("c.yaml", &"'".repeat(200_000), text);
    check("c.json", &format!("\"{}\"", "\\u0041".repeat(40_000)), text);
    for nothing in [" ", "\t", "\n", "# c\n"] {
        check("c.yaml", &nothing.repeat(60_000), "");
    }
    check("c.json", &" ".repeat(256 * 1024), "line 1, column 1: the file is empty; write `[]` for no contracts");
    let tool = "expected `server:tool`, such as `mail:emails.send` or `mail:*`";
    check("c.yaml", &format!("tool: |\n{}", "  a\n".repeat(60_000)), &format!("line 2, column 3: {tool}"));
    check("c.yaml", &format!("tool: \"{}\"", "\\n".repeat(120_000)), &format!("line 1, column 7: {tool}"));
    let long = "x".repeat(250_000);
    check("c.yaml", &format!("tool: mail:send\ndescription: {long}"), "line 2, column 14: longer than 4000 characters");
    for (name, size) in [("c.yaml", 256 * 1024 + 1), ("c.json", 10_000_000)] {
        check(
            name,
            &" ".repeat(size),
            "line 1, column 1: larger than 256 KiB; spread the contracts over several files",
        );
    }
}

#[test]
fn bombs_of_servers() {
    let check = |text: &str, expected: &str| {
        let found = quickly(|| Contract::of_server(text).err());
        assert_eq!(found.as_deref(), Some(expected));
    };
    check(&"[".repeat(60_000), "/: this is nested too deeply");
    check(&format!("{{\"inputSchema\":{}{}}}", "[".repeat(100), "]".repeat(100)), "/: nested deeper than 32 levels");
    check(
        &format!("{{\"sensitive\":[{}1]}}", "1,".repeat(25_000)),
        "/sensitive: 25001 entries; at most 64 are possible",
    );
    check(
        &format!("{{{}\"a\":1}}", "\"a\":1,".repeat(10_000)),
        "/: duplicate key `a`, first used at line 1, column 2; keep one of them",
    );
}

#[test]
fn how_many() {
    let file = |name: &str, range: std::ops::Range<usize>| {
        let text: String = range.map(|n| format!("- tool: mail:t{n}\n")).collect();
        (name.to_owned(), text)
    };
    let files = [file("a.yaml", 0..1500), file("b.yaml", 1500..2000)];
    assert_eq!(quickly(|| Contracts::parse(&files)).unwrap().iter().count(), 2000);
    let mistakes = Contracts::parse(&[file("a.yaml", 0..1500), file("b.yaml", 1500..2100)]).unwrap_err();
    let found: Vec<String> = mistakes.iter().map(|(file, mistake)| format!("{file}: {mistake}")).collect();
    assert_eq!(found, ["b.yaml: line 501, column 3: more than 2000 contracts in all files"]);
}
