//! Tests for policy files that are made to be slow or to overflow the stack.

use std::thread;
use std::time::{Duration, Instant};

use super::*;

const LOAD_MAX: Duration = Duration::from_secs(10);
const DEEP: &str = "brackets are nested deeper than 12 levels: split it into several policies";
const LONG: &str = "this policy has more than 100 operators: split it into several policies";
const MANY: &str = "this policy lists more than 500 elements: split it into several policies";
const LARGE: &str = "this policy is longer than 32 KiB: split it into several policies";
const WORDS: &str = "this policy has more than 2000 tokens: split it into several policies";
const B: &str = "context.hasReason";

fn when(condition: &str) -> String {
    format!("forbid (principal, action, resource) when {{ {condition} }};")
}

fn nested(open: &str, middle: &str, close: &str, depth: usize) -> String {
    format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
}

fn list(count: usize, element: impl Fn(usize) -> String) -> String {
    (0..count).map(element).collect::<Vec<_>>().join(", ")
}

fn chain(count: usize, operand: &str, operator: &str) -> String {
    vec![operand; count].join(operator)
}

/// Loads three times and returns the shortest time, because other tests run at the same time.
fn load(text: &str) -> (Result<Policies, Vec<(String, Mistake)>>, Duration) {
    let files = [("a.cedar".to_owned(), text.to_owned())];
    let attempt = || {
        let began = Instant::now();
        (Policies::parse(&files), began.elapsed())
    };
    let mut best = attempt();
    for _ in 0..2 {
        let next = attempt();
        if next.1 < best.1 {
            best = next;
        }
    }
    best
}

fn bombs() -> Vec<(&'static str, String, &'static str)> {
    let pattern = format!("resource.name like \"{}\"", "*a".repeat(90));
    let read = |_| "Action::\"read\"".to_owned();
    vec![
        ("brackets", when(&nested("(", "true", ")", 100_000)), DEEP),
        ("open brackets", when(&"(".repeat(200_000)), DEEP),
        ("sets", when(&nested("[", "1", "]", 100_000)), DEEP),
        ("records", when(&nested("{a: ", "1", "}", 50_000)), DEEP),
        ("calls", when(&nested("[1].contains(", "1", ")", 15_000)), DEEP),
        ("tests in tests", when(&nested("if (", B, ") then true else false", 9_000)), DEEP),
        ("then in then", when(&nested("if true then (", B, ") else false", 9_000)), DEEP),
        ("and", when(&chain(10_000, B, " && ")), LONG),
        ("or", when(&chain(10_000, B, " || ")), LONG),
        ("not", when(&"!".repeat(250_000)), LONG),
        ("minus", when(&format!("1 == {}1", "-".repeat(250_000))), LONG),
        ("sums", when(&format!("1 == {}", chain(60_000, "1", " + "))), LONG),
        ("products", when(&format!("1 == {}", chain(60_000, "9", " * "))), LONG),
        ("comparisons", when(&chain(30_000, "true", " == ")), LONG),
        ("attributes", when(&format!("context{}", ".time".repeat(50_000))), LONG),
        ("attributes by text", when(&format!("context{}", "[\"time\"]".repeat(30_000))), LONG),
        ("methods", when(&format!("[1]{}", ".contains(1)".repeat(20_000))), LONG),
        ("has", when(&chain(9_000, "resource has name", " && ")), LONG),
        ("has a path", when(&format!("context has time{}", ".hour".repeat(50_000))), LONG),
        ("else if", when(&format!("{} true", "if true then true else ".repeat(6_000))), LONG),
        ("then if", when(&nested("if true then ", "true", " else false", 5_000)), LONG),
        ("when", format!("forbid (principal, action, resource){};", " when { true }".repeat(15_000)), LONG),
        ("paths", when(&format!("resource is {}Tool", "A::".repeat(80_000))), LONG),
        ("is", when(&chain(9_000, "resource is Tool", " && ")), LONG),
        ("actions", format!("forbid (principal, action in [{}], resource);", list(9_000, read)), LONG),
        ("a set", when(&format!("[{}].contains(1)", list(30_000, |n| n.to_string()))), MANY),
        ("a record", when(&format!("{{{}}} == {{}}", list(20_000, |n| format!("a{n}: 1")))), MANY),
        ("a text", when(&format!("resource.name == \"{}\"", "a".repeat(200_000))), LARGE),
        ("a word", when(&"a".repeat(200_000)), LARGE),
        ("a number", when(&format!("1 == {}", "9".repeat(200_000))), LARGE),
        ("annotations", format!("{} forbid (principal, action, resource);", "@id(\"x\")".repeat(30_000)), LONG),
        (
            "a pattern",
            when(&format!("resource.name like \"{}\"", "*a".repeat(10_000))),
            "this pattern is longer than 200 characters: split it",
        ),
        (
            "patterns",
            when(&chain(12, &pattern, " || ")),
            "the patterns of this policy are longer than 2000 characters in total: split it into several policies",
        ),
        ("words", when(&"true ".repeat(6_000)), WORDS),
        ("colons", when(&": ".repeat(12_000)), MANY),
        ("numbers", when(&"1 ".repeat(12_000)), WORDS),
        ("texts", when(&"\"a\" ".repeat(6_000)), WORDS),
        ("colons in a record", when(&format!("{{{}}}", "a: ".repeat(9_000))), MANY),
        ("closing", when(&")".repeat(30_000)), WORDS),
        ("else", when(&"else ".repeat(6_000)), WORDS),
        ("else within the limit", when(&"else ".repeat(1_980)), "unexpected token `else`; expected `}`"),
        (
            "indexes",
            when(&format!("context{}", "[\"time\"]".repeat(97))),
            "attribute `time.time` in context not found; did you mean `hour`?",
        ),
        (
            "calls of calls",
            when(&format!("context{}", "()".repeat(97))),
            "`context(...)` is not a valid function call; variables cannot be called as functions",
        ),
        ("an open text", when(&format!("\"{}", "\\\"".repeat(120_000))), "this string has no end: add a `\"`"),
        ("a file", "// nothing\n".repeat(30_000), "the file is larger than 256 KiB: split it"),
        ("policies", "forbid(principal,action,resource);\n".repeat(1_001), "there are more than 1000 policies"),
        ("ends", ";".repeat(250_000), "there are more than 1000 policies"),
    ]
}

#[test]
fn bombs_are_refused_at_once() {
    for (name, text, expected) in bombs() {
        let (result, took) = load(&text);
        let first = result.err().and_then(|mut mistakes| mistakes.pop()).map(|(_, mistake)| mistake.message);
        assert_eq!(first.as_deref(), Some(expected), "{name}");
        assert!(took < LOAD_MAX, "{name}: {took:?}");
    }
}

#[test]
fn files_are_limited_together() {
    let file = |number| (format!("{number}.cedar"), "// nothing\n".repeat(20_000));
    let files: Vec<(String, String)> = (0..5).map(file).collect();
    let message = "the policy files are larger than 1024 KiB in total".to_owned();
    let expected = vec![("0.cedar".to_owned(), Mistake { line: 1, column: 1, message })];
    assert_eq!(Policies::parse(&files).err(), Some(expected));
    let policy = |number| format!("@id(\"r{number}\") forbid(principal,action,resource);");
    let some = |range: std::ops::Range<usize>| range.map(policy).collect::<String>();
    let files = [("a".to_owned(), some(0..600)), ("b".to_owned(), some(600..1_001))];
    let mistakes = Policies::parse(&files).unwrap_err();
    assert_eq!(
        mistakes.iter().map(|(file, it)| (file.as_str(), it.message.as_str())).collect::<Vec<_>>(),
        [("b", "there are more than 1000 policies")]
    );
}

/// Returns policies just inside the limits, each the worst of its kind.
fn heavy() -> Vec<(&'static str, String)> {
    let one = |n| format!("\"{n:050}\"");
    let pattern = format!("resource.name like \"{}\"", "*a".repeat(90));
    let record = format!("{{{}}}", list(120, |n| format!("a{n}: {n}")));
    let deep = format!("{} == {}", nested("{a: [", "1", "]}", 5), nested("{a: [", "1", "]}", 5));
    vec![
        ("brackets", nested("(", B, ")", 11)),
        ("sets in records", deep),
        ("tests in tests", nested("if (", B, ") then true else false", 11)),
        ("then in then", nested("if context.hasReason then (", B, ") else false", 11)),
        ("both", nested("(context.hasReason && ", B, ") || context.hasReason", 11)),
        ("and", chain(31, "context.variant != \"write\"", " && ")),
        ("or", chain(31, "context.variant == \"write\"", " || ")),
        ("sums", format!("1 == {}", chain(93, "1", " + "))),
        ("has", chain(47, "resource has name", " && ")),
        ("else if", format!("{} true", "if context.hasReason then false else ".repeat(45))),
        ("then if", nested("if context.hasReason then ", B, " else false", 45)),
        ("a set", format!("[{}].contains(resource.name)", list(499, one))),
        ("sets", format!("[{}].contains([resource.name])", list(90, |n| format!("[{}]", one(n))))),
        ("a record", format!("{record} == {record}")),
        ("patterns", chain(10, &pattern, " || ")),
        ("a text", format!("resource.name == \"{}\"", "é".repeat(15_000))),
    ]
}

#[test]
fn what_is_just_allowed_loads_and_runs_on_a_small_stack() {
    for (name, condition) in heavy() {
        let text = when(&condition);
        let run = || {
            let (result, took) = load(&text);
            let policies = result.unwrap_or_else(|mistakes| panic!("{name}: {mistakes:?}"));
            assert!(took < 10 * LOAD_MAX, "{name}: {took:?}");
            let tool = facts(&format!("s:{}", "a".repeat(128)));
            refusals(&policies, &agent("x"), &tool, &intent(Variant::Read), Clock::default())
        };
        thread::scope(|scope| {
            // Half of a thread's default stack.
            let thread = thread::Builder::new().stack_size(1 << 20).spawn_scoped(scope, run).unwrap();
            let _refusals = thread.join().unwrap();
        });
    }
}
