//! Property tests: no text makes the parser panic.

use proptest::prelude::*;

use super::{PASTED, World, mistakes};
use crate::settings::{Mistake, parse};

fn check(text: &str) {
    let errors = mistakes(text);
    assert!(parse(text, &World).is_ok() || (1..=101).contains(&errors.len()), "{} errors", errors.len());
    let lines: Vec<&str> = text.split(['\n', '\r']).collect();
    for Mistake { line, column, message } in errors {
        assert!(line >= 1 && line <= lines.len().max(1), "{line}: {message}");
        assert!(column >= 1 && column <= text.chars().count() + 1, "{column}: {message}");
        assert!(!message.contains("hidden"), "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

/// Generates fragments of files, so that random files get past the first brace.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "//",
            "/*",
            "*/",
            "\n",
            "\r",
            "\\",
            "true",
            "null",
            "1",
            "-1e9",
            "${",
            "$${",
            "}",
            "${env:BROKEN}",
            "${file:zero}",
            "\"mcpServers\":",
            "\"a\":{",
            "\"command\":\"x\"",
            "\"command\":[\"x\",",
            "\"servers\":{\"A b\":{",
            "\"inputs\":[],",
            "\"httpUrl\":\"http://h\",",
            "\"timeout\":",
            "\"tools\":",
            "\"env_http_headers\":{\"A\":\"B\"},",
            "\"envFile\":\"zero\",",
            "${input:x}",
            "${NAME:-default}",
            "\"url\":\"http://h\"",
            "\"headers\":{\"A\":\"${env:BROKEN}\"}",
            "\"env\":",
            "\"args\":[",
            "\"listen\":\"",
            "\"activity\":{\"retention\":{",
            "\"payloads\":\"",
            "\"payload_bytes\":",
            "\"records\":\"1d\"",
            "forever",
            "9999999999999999999d",
            "\"storage\":{\"url\":\"",
            "postgres://ann:${env:GITHUB_TOKEN}@",
            "sqlite:",
            "\"\\ud800\"",
            "é",
            "\u{FEFF}",
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_text(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(piece(), 0..60)) {
        check(&pieces.concat());
        check(&format!("{{\"mcpServers\": {{\"a\": {{{}}}}}}}", pieces.concat()));
        check(&format!("{{\"activity\": {{\"retention\": {{{}}}}}}}", pieces.concat()));
    }

    #[test]
    fn any_address_of_a_database(rest in "[a-z0-9:/?#@%=&.\\[\\] ]{0,40}", at in 0..41usize, place in 0..3usize) {
        let start = ["postgres://", "postgres://ann:hidden@", "sqlite:"][place];
        let mut rest: Vec<char> = rest.chars().collect();
        rest.splice(at.min(rest.len())..at.min(rest.len()), "hidden".chars());
        let rest: String = rest.into_iter().collect();
        check(&format!("{{\"storage\": {{\"url\": \"{start}{rest}\"}}}}"));
        if let Ok(settings) = parse(&format!("{{\"storage\": {{\"url\": \"postgres://{rest}\"}}}}"), &World) {
            let printed = format!("{settings:?}");
            prop_assert!(!printed.contains("hidden"), "{}", printed);
        }
    }

    #[test]
    fn a_good_file_with_a_wound(at in 0..PASTED.len(), length in 0..80usize, graft in piece()) {
        let mut bytes = PASTED.as_bytes().to_vec();
        bytes.splice(at..(at + length).min(PASTED.len()), graft.into_bytes());
        check(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn deep_and_large_files() {
    check(&"[".repeat(100_000));
    check(&"{\"a\":".repeat(100_000));
    check(&format!("{{\"$schema\":{}{}}}", "[".repeat(500), "]".repeat(500)));
    check(&format!("{{{}}}", "\"a\":1,".repeat(150_000)));
    check(&" ".repeat(2_000_000));
}
