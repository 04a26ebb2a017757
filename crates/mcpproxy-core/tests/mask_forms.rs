//! Checks that known token formats are masked, and similar texts are not.

use mcpproxy_core::mask;

fn check(text: &str, expected: &str) {
    assert_eq!(mask(text, &[]).as_str(), expected, "of {text}");
    assert_eq!(mask(expected, &[]).as_str(), expected, "twice, of {text}");
}

fn stays(text: &str) {
    check(text, text);
}

/// Forty letters and digits for made-up tokens. The prefix is separate, so that secret scanners ignore this file.
const RANDOM: &str = "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T";

#[test]
fn prefixes_stay_and_the_rest_goes() {
    for (prefix, count) in [
        ("AIza", 35),
        ("ghp_", 36),
        ("gho_", 36),
        ("ghu_", 36),
        ("ghs_", 36),
        ("ghr_", 36),
        ("github_pat_", 40),
        ("glpat-", 20),
        ("xoxb-", 24),
        ("xoxp-", 24),
        ("sk_live_", 24),
        ("sk_test_", 24),
        ("rk_live_", 24),
        ("sk-", 40),
        ("sk-ant-", 40),
        ("sk-proj-", 40),
        ("npm_", 36),
        ("pypi-AgE", 40),
        ("hf_", 34),
        ("ya29.", 40),
        ("GOCSPX-", 28),
        ("dckr_pat_", 27),
        ("hvs.", 24),
    ] {
        let secret = RANDOM.get(..count).unwrap_or_default();
        check(&format!("{prefix}{secret}"), &format!("{prefix}***"));
        check(&format!("a {prefix}{secret}, b"), &format!("a {prefix}***, b"));
        check(&format!(r#"{{"a":"x\n{prefix}{secret}\ny"}}"#), &format!(r#"{{"a":"x\n{prefix}***\ny"}}"#));
        check(&format!(r#"{{"a":"\u0022{prefix}{secret}\u0022"}}"#), &format!(r#"{{"a":"\u0022{prefix}***\u0022"}}"#));
        stays(&format!("x{prefix}{secret}").replace(['_', '-', '.'], ""));
        stays(prefix);
    }
}

#[test]
fn our_own_tokens_and_key_ids() {
    let hex = "0123456789abcdef".repeat(4);
    check(&format!("mcp_{hex}"), "mcp_***");
    stays("mcp_server_name mcp_0123");
    check("AKIAABCDEFGHIJKLMNOP", "AKIA***");
    check("ASIAABCDEFGHIJKLMNOP/20261115", "ASIA***/20261115");
    stays("AKIAABCDEFGHIJKLMNOPQRSTUVWXYZ akiaabcdefghijklmnop");
}

#[test]
fn tokens_in_parts() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl-_x";
    check(jwt, "eyJ***");
    check(&format!("got {jwt}."), "got eyJ***");
    stays("eyJsYXN0IjoiMjAyNi0xMS0xNSJ9");
    check(&format!("SG.{}.{RANDOM}abc", RANDOM.get(..22).unwrap_or_default()), "SG.***");
    check("bot 123456789:AAabcdefghijklmnopqrstuvwxyz_-01234", "bot 123456789:***");
}

#[test]
fn schemes() {
    check("Bearer abc123def", "Bearer ***");
    check("bearer abcdefghijklmnopqrstuvwxyz", "bearer ***");
    check(r#"{"h":"Bearer ab\/cd12+\u002B34"}"#, r#"{"h":"Bearer ***"}"#);
    check("Basic a2ltOmh1bnRlcjI=", "Basic ***");
    check(r#"["Authorization","Basic a2ltOmh1bnRlcjI="]"#, r#"["Authorization","Basic ***"]"#);
    stays("Bearer authentication, Bearer token, Basic authentication, basic understanding");
}

#[test]
fn private_keys() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSj+/x=\n-----END RSA PRIVATE KEY-----\n";
    let masked = "-----BEGIN RSA PRIVATE KEY-----\n***\n-----END RSA PRIVATE KEY-----\n";
    check(key, masked);
    let escaped = |text: &str| format!("{{\"k\":\"{}\"}}", text.replace('\n', "\\n"));
    check(&escaped(key), &escaped(masked));
    check(key.split("BKcw").next().unwrap_or_default(), "-----BEGIN RSA PRIVATE KEY-----\n***\n");
    check(
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END EC PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\n***\n-----END EC PRIVATE KEY-----",
    );
    stays("begins with -----BEGIN PRIVATE KEY----- and is long");
    stays("-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PUBLIC KEY-----");
}
