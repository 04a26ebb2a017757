//! Property tests of masking: no planted secret survives, and the invariants hold for any text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "fuzz_corpus/mask.rs"]
mod rules;

use mcpproxy_core::mask;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

/// Pieces of text that are likely to reveal mistakes.
const PIECES: [&str; 70] = [
    "password",
    "token",
    "secret",
    "api_key",
    "apiKey",
    "key",
    "auth",
    "pass",
    "authorization",
    "cookie",
    "sig",
    "PWD",
    "credentials",
    "value",
    "name",
    "type",
    "description",
    "\"",
    "\"",
    "\\\"",
    "\\\\\\\"",
    "\\",
    "'",
    "`",
    "\\u0022",
    "\\\\u0022",
    "\\u0061",
    "\\n",
    "\n",
    ":",
    ": ",
    "=",
    "=>",
    ",",
    ", ",
    " ",
    "  ",
    ".",
    "/",
    "//",
    "://",
    "@",
    "&",
    "?",
    "<",
    ">",
    "</",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "-",
    "--",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0",
    "Bearer ",
    "Basic ",
    "a2ltOmh1bnRlcjI=",
    "eyJhbGciOiJIUzI1NiJ9",
    "sk-",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "AKIA",
    "***",
    "12345",
    "true",
    "é",
    "identified by ",
];

/// Patterns of known token formats. The group in brackets must be masked.
const LOOKS: [(&str, &str); 24] = [
    ("AKIA", "[A-Z0-9]{16}"),
    ("ASIA", "[A-Z0-9]{16}"),
    ("ghp_", "[A-Za-z0-9]{36}"),
    ("ghs_", "[A-Za-z0-9]{36}"),
    ("github_pat_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("glpat-", "[A-Za-z0-9_-]{20}"),
    ("xoxb-", "[0-9]{11}-[0-9]{12}-[A-Za-z0-9]{24}"),
    ("sk_live_", "[A-Za-z0-9]{24}"),
    ("rk_live_", "[A-Za-z0-9]{24}"),
    ("sk_test_", "[A-Za-z0-9]{24}"),
    ("sk-", "[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("sk-ant-", "api03-[A-Za-z0-9_-]{93}AA"),
    ("sk-proj-", "[A-Za-z0-9_-]{48}"),
    ("AIza", "[A-Za-z0-9_-]{35}"),
    ("npm_", "[A-Za-z0-9]{36}"),
    ("pypi-AgE", "[A-Za-z0-9_-]{60}"),
    ("SG.", "[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}"),
    ("mcp_", "[0-9a-f]{64}"),
    ("eyJ", "[A-Za-z0-9_-]{20}\\.eyJ[A-Za-z0-9_-]{30}\\.[A-Za-z0-9_-]{43}"),
    ("Bearer ", "[A-Za-z0-9._~-]{30}"),
    ("-----BEGIN RSA PRIVATE KEY-----\n", "[A-Za-z0-9]{64}"),
    ("https://kim:", "[A-Za-z0-9!$%^*()_+-]{12}"),
    ("password=", "[A-Za-z0-9!$^*()_+-]{12}"),
    ("GITHUB_TOKEN: ", "[A-Za-z0-9]{12}9"),
];

const NAMES: [&str; 30] = [
    "password",
    "Password",
    "dbPassword",
    "DB_PASSWORD",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "client_secret",
    "clientSecret",
    "token",
    "access_token",
    "refreshToken",
    "id_token",
    "auth-token",
    "api_key",
    "apikey",
    "apiKey",
    "api-key",
    "X-API-Key",
    "access_key",
    "secretKey",
    "private_key",
    "Proxy-Authorization",
    "authorization",
    "cookie",
    "Set-Cookie",
    "credentials",
    "GITHUB_TOKEN",
    "user password",
];

/// Embeds JSON as a string in JSON, several times.
fn embedded(value: Value, depth: usize) -> Value {
    (0..depth).fold(value, |inner, level| json!({"n": level, "text": inner.to_string(), "z": [true]}))
}

fn taken_out(value: Value, depth: usize) -> Value {
    (0..depth).fold(value, |outer, _| serde_json::from_str(outer.get("text").and_then(Value::as_str).unwrap()).unwrap())
}

fn look() -> impl Strategy<Value = (String, String)> {
    proptest::sample::select(&LOOKS[..]).prop_flat_map(|(prefix, pattern)| {
        proptest::string::string_regex(pattern).unwrap().prop_map(move |s| (prefix.to_owned(), s))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rules_hold_for_any_text(pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..30)) {
        rules::check(pieces.concat().as_bytes());
    }

    #[test]
    fn rules_hold_for_strings_in_json(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..20),
        key in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..3),
        depth in 0usize..3,
    ) {
        let value = json!({"a": [pieces.concat()], key.concat(): {"b": pieces.concat(), "token": 1}, "x": "y"});
        rules::check(embedded(value, depth).to_string().as_bytes());
    }

    #[test]
    fn no_secret_with_a_look_gets_through(
        (prefix, secret) in look(),
        before in "([a-z ]{0,12}[ \n\"'(:,=])?",
        after in "([ \n\"')<][a-z ]{0,12})?",
        depth in 0usize..4,
        in_key in any::<bool>(),
    ) {
        let after = if prefix.starts_with("https") { format!("@example.com{after}") } else { after };
        let text = format!("{before}{prefix}{secret}{after}");
        let value = if in_key && depth > 0 { json!({text: [1]}) } else { json!({"a": {"b": ["c", text]}}) };
        let whole = embedded(value, depth).to_string();
        let masked = mask(&whole, &[]);
        prop_assert!(!masked.as_str().contains(&secret), "{} became {}", whole, masked.as_str());
        rules::check(whole.as_bytes());
    }

    #[test]
    fn no_value_under_a_name_gets_through(
        name in proptest::sample::select(&NAMES[..]),
        secret in "\\PC{1,12}|[\"\\\\'{}:,a\n]{1,12}",
        depth in 0usize..4,
        shape in 0usize..4,
    ) {
        let held = match shape {
            0 => json!(secret),
            1 => json!([secret, 12]),
            2 => json!({"x": {"y": [secret]}, "type": "z"}),
            _ => json!(12345.5),
        };
        let whole = embedded(json!({"a": "b", name: held, "c": {"d": "e"}}), depth).to_string();
        let masked = taken_out(serde_json::from_str(mask(&whole, &[]).as_str()).unwrap(), depth);
        let expected = match shape {
            1 => json!(["***", "***"]),
            2 => json!({"x": {"y": ["***"]}, "type": "z"}),
            _ => json!("***"),
        };
        let expected = json!({"a": "b", name: expected, "c": {"d": "e"}});
        prop_assert_eq!(masked, expected, "{}", whole);
    }

    #[test]
    fn a_cut_hides_no_less(
        name in proptest::sample::select(&NAMES[..]),
        secret in "[A-Z]{8}[0-9]{4}",
        depth in 0usize..4,
        cut in 0usize..400,
    ) {
        let whole = embedded(json!({"a": "b", name: {"x": secret}, "c": secret.len()}), depth).to_string();
        let cut = whole.get(..cut.min(whole.len())).unwrap();
        let masked = mask(cut, &[]);
        prop_assert!(!masked.as_str().contains(secret.get(..4).unwrap()), "{} became {}", cut, masked.as_str());
    }
}
