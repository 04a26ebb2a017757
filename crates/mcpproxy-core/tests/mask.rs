//! Checks which values are masked under secret-sounding names and pointers, and which are not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use mcpproxy_core::{Pointer, PointerError, mask};

fn check(text: &str, expected: &str) {
    let masked = mask(text, &[]);
    assert_eq!(masked.as_str(), expected, "of {text}");
    assert_eq!(masked.is_changed(), text != expected, "{text}");
    assert_eq!(mask(expected, &[]).as_str(), expected, "twice, of {text}");
}

fn stays(text: &str) {
    check(text, text);
}

#[test]
fn values_under_names_in_json() {
    check(r#"{"user":"kim","password":"hunter2"}"#, r#"{"user":"kim","password":"***"}"#);
    check(r#"{"password" : "a\"b\\" , "b":1}"#, r#"{"password" : "***" , "b":1}"#);
    check(
        r#"{"dbPassword":"x","GITHUB_TOKEN":"y","clientSecret":"z"}"#,
        r#"{"dbPassword":"***","GITHUB_TOKEN":"***","clientSecret":"***"}"#,
    );
    check(
        r#"{"api_key":"1","apikey":"2","api-key":"3","X-API-Key":"4","apiKey":"5"}"#,
        r#"{"api_key":"***","apikey":"***","api-key":"***","X-API-Key":"***","apiKey":"***"}"#,
    );
    check(
        r#"{"aws_secret_access_key":"abc","private_key":"d","AccountKey":"e"}"#,
        r#"{"aws_secret_access_key":"***","private_key":"***","AccountKey":"***"}"#,
    );
    check(
        r#"{"Authorization":"Bearer abc","Cookie":"a=b; c=d","set-cookie":["x=1","y=2"]}"#,
        r#"{"Authorization":"Bearer ***","Cookie":"***","set-cookie":["***","***"]}"#,
    );
    check(r#"{"token":12345,"otp":123456,"cvv":"123"}"#, r#"{"token":"***","otp":"***","cvv":"***"}"#);
    check(
        r#"{"credentials":{"user":"kim","n":1,"ok":true,"no":null,"list":[["a"],2.5e3]}}"#,
        r#"{"credentials":{"user":"***","n":"***","ok":true,"no":null,"list":[["***"],"***"]}}"#,
    );
    check(
        r#"{"password_hash":"$2b$10$abc","SecretString":"x","secretValue":"y"}"#,
        r#"{"password_hash":"***","SecretString":"***","secretValue":"***"}"#,
    );
    check(r#"{"name":"DB_PASSWORD","value":"hunter2"}"#, r#"{"name":"DB_PASSWORD","value":"***"}"#);
    check(r#"{"args":["run","--token","abc","--verbose"]}"#, r#"{"args":["run","--token","***","--verbose"]}"#);
    let ours = "Invalid intent.data_sensitivity 'secret': must be public, internal, private, or unknown";
    check(ours, ours);
    check(
        r#"{"auths":{"images.example.com":{"auth":"a2ltOmh1bnRlcjIhISE="}}}"#,
        r#"{"auths":{"images.example.com":{"auth":"***"}}}"#,
    );
    check(r#"{"smtp":{"user":"kim","pass":"hunter2"}}"#, r#"{"smtp":{"user":"kim","pass":"***"}}"#);
    check(r#"{"p\u0061ssword":"hunter2","b":"\u00e9"}"#, r#"{"password":"***","b":"\u00e9"}"#);
}

#[test]
fn names_that_are_not_of_secrets() {
    stays(r#"{"max_tokens":100,"token_count":5,"tokens":7,"input_tokens":9,"maxToken":3}"#);
    stays(r#"{"nextPageToken":"abc","page_token":"x","continuationToken":"y","next_token":"z","progressToken":"1"}"#);
    stays(r#"{"tokenizer":"bpe","secretary":"kim","passwordless":"yes","token_type":"Bearer","secretName":"db"}"#);
    stays(r#"{"password":true,"secret":null,"token":"","has_token":false}"#);
    stays(r#"{"key":"a","primary_key":"id","public_key":"ssh-ed25519 AAAA","sort_key":"x","issue_key":"AB-1"}"#);
    stays(r#"{"pass":12,"bypass":"x","auth":"none","oauth":"2.0","author":"kim","compass":"n"}"#);
    stays(r#"{"label":"Password","placeholder":"password","next":1}"#);
    stays(r#"{"a":"password=","b":"x"}"#);
    stays(r#"{"a":"the password: ","b":"x"}"#);
    stays("a token: the one you got, a password: required");
}

#[test]
fn json_in_strings_of_json() {
    check(r#"{"text":"{\"password\":\"hunter2\",\"n\":1}"}"#, r#"{"text":"{\"password\":\"***\",\"n\":1}"}"#);
    check(r#"{"text":"{\n  \"token\": 12\n}"}"#, r#"{"text":"{\n  \"token\": \"***\"\n}"}"#);
    check(r#""{\"t\":\"{\\\"password\\\":\\\"a\\\\\\\"b\\\"}\"}""#, r#""{\"t\":\"{\\\"password\\\":\\\"***\\\"}\"}""#);
    check(
        r#"{"text":"{\u0022password\u0022:\u0022hunter2\u0022,\u0022a\u0022:1}"}"#,
        r#"{"text":"{\u0022password\u0022:\u0022***\u0022,\u0022a\u0022:1}"}"#,
    );
    check(
        r#"{"text":"{\"credentials\":{\"a\":\"b\",\"c\":[1]}}","x":"y"}"#,
        r#"{"text":"{\"credentials\":{\"a\":\"***\",\"c\":[\"***\"]}}","x":"y"}"#,
    );
    check(r#"{"text":"{\"password\":\"hun","x":"y"}"#, r#"{"text":"{\"password\":\"***","x":"y"}"#);
    check(r#"{"text":"{\"secret\":{\"a\":\"hun","x":"y"}"#, r#"{"text":"{\"secret\":{\"a\":\"***","x":"y"}"#);
    check(r#"{"text":"{'password': 'it is', 'n': 1}"}"#, r#"{"text":"{'password': '***', 'n': 1}"}"#);
}

#[test]
fn json_that_was_cut_off() {
    check(r#"{"password":"hunt"#, r#"{"password":"***"#);
    check(r#"{"password":"hunt\"#, r#"{"password":"***"#);
    check(r#"{"credentials":{"a":["b","c"#, r#"{"credentials":{"a":["***","***"#);
    stays(r#"{"password":"#);
    stays(r#"{"password"#);
}

#[test]
fn schemas_keep_what_they_tell() {
    stays(
        r#"{"properties":{"token":{"type":"string","description":"The token.","minLength":1,"title":"Token"}},"required":["token"]}"#,
    );
    stays(
        r#"{"secret":{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x","y"]}},"required":["a"],"additionalProperties":false}}"#,
    );
    check(r#"{"token":{"type":"string","default":"abc"}}"#, r#"{"token":{"type":"string","default":"***"}}"#);
    check(
        r#"{"secret":{"description":"as in {\"password\":\"x\"}","value":"y"}}"#,
        r#"{"secret":{"description":"as in {\"password\":\"***\"}","value":"***"}}"#,
    );
    check(
        r#"{"secret":{"enum":["x",{"a":"y"}],"name":{"b":"z"}}}"#,
        r#"{"secret":{"enum":["x",{"a":"***"}],"name":{"b":"***"}}}"#,
    );
}

#[test]
fn names_in_prose() {
    check("password=hunter2 user=kim", "password=*** user=kim");
    check("DB_PASSWORD='a b' API_KEY: xyz, done", "DB_PASSWORD='***' API_KEY: ***, done");
    check(r#"login --token abc --user kim, password="a b"."#, r#"login --token *** --user kim, password="***"."#);
    check("https://example.com/?token=abc&user=kim", "https://example.com/?token=***&user=kim");
    check("Server=x;Password=a,b;User=y", "Server=x;Password=***;User=y");
    check("Authorization: Bearer a b\nHost: x", "Authorization: Bearer ***\nHost: x");
    check("Cookie: a=b; c=d\nHost: x", "Cookie: ***\nHost: x");
    check(
        "alter user kim with password 'x'; create user b identified by 'y'",
        "alter user kim with password '***'; create user b identified by '***'",
    );
    check("<user>kim</user><password>x</password>", "<user>kim</user><password>***</password>");
    check("**Password:** hunter2", "**Password:** ***");
    check(r#"{"text":"API_KEY=abc\nUSER=kim"}"#, r#"{"text":"API_KEY=***\nUSER=kim"}"#);
    check(r#"{"text":"password=\"a b\" and","b":"c"}"#, r#"{"text":"password=\"***\" and","b":"c"}"#);
    check("https://x/?X-Amz-Signature=abcdef0123&x=1", "https://x/?X-Amz-Signature=***&x=1");
    stays("PWD=/home/kim");
    stays("usage: login <user> <password>");
    stays("Token::new(), secret://path");
}

#[test]
fn addresses() {
    check("postgres://kim:hunter2@db:5432/x", "postgres://kim:***@db:5432/x");
    check("redis://:hunter2@db", "redis://:***@db");
    check("see https://0123456789abcdefghijklmn@github.com/a", "see https://***@github.com/a");
    check("mysql://u:p/w@db/x", "mysql://u:***@db/x");
    stays("https://example.com:8080/@kim http://[::1]:80/ https://kim@example.com/");
}

#[test]
fn pointers() {
    let masked = |text: &str, pointers: &[&str]| {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| Pointer::parse(text).unwrap()).collect();
        mask(text, &pointers).into_owned()
    };
    let text = r#"{"a":{"b":[1,{"c":"x"}],"d/e":true,"f":null},"g":"h"}"#;
    assert_eq!(masked(text, &["/a/b/1/c"]), r#"{"a":{"b":[1,{"c":"***"}],"d/e":true,"f":null},"g":"h"}"#);
    assert_eq!(masked(text, &["/a/b/*", "/a/d~1e"]), r#"{"a":{"b":["***",{"c":"***"}],"d/e":"***","f":null},"g":"h"}"#);
    assert_eq!(masked(text, &["/a"]), r#"{"a":{"b":["***",{"c":"***"}],"d/e":"***","f":null},"g":"h"}"#);
    assert_eq!(masked(text, &["/*"]), r#"{"a":{"b":["***",{"c":"***"}],"d/e":"***","f":null},"g":"***"}"#);
    assert_eq!(masked(text, &[""]), r#"{"a":{"b":["***",{"c":"***"}],"d/e":"***","f":null},"g":"***"}"#);
    assert_eq!(masked(text, &["/x/y", "/g/h", "/a/b/7"]), text);
    assert_eq!(masked(r#"{"\u0061":"x","b":"password=y"}"#, &["/a"]), r#"{"a":"***","b":"password=***"}"#);
    assert_eq!(masked(r#"{"a":{"b":"cut of"#, &["/a/b"]), r#"{"a":{"b":"***"#);
    assert_eq!(masked("no JSON, token=x", &["/a"]), "no JSON, token=***");
    assert_eq!(Pointer::parse("a"), Err(PointerError::NoSlash));
    assert_eq!(Pointer::parse("/a~2"), Err(PointerError::Tilde));
}
