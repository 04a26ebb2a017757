//! Measures masking of small arguments, long results and hostile texts.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use mcpproxy_core::{Pointer, mask};

const SMALL: &str = r#"{"owner":"acme","repo":"website","title":"Login fails on Safari","labels":["bug","p1"],"body":"Since Tuesday the page reloads without an error. Steps: open, click, wait.","assignees":["kim"]}"#;
const SMALL_SECRET: &str = r#"{"host":"db.example.com","port":5432,"user":"app","password":"correct horse battery","sslmode":"require","options":{"statement_timeout":"30s","application_name":"reports"},"query":"select 1"}"#;
const RECORD: &str = r#"{"id":48213,"name":"quarterly report","state":"open","url":"https://example.com/reports/48213","author":{"login":"kim","admin":false},"created_at":"2026-11-14T09:30:00Z","description":"Numbers of the third quarter, with a comparison to the year before and a table per region."},"#;
const LEAKY: &str = r#"{"id":1,"password":"hunter2","url":"https://u:p@example.com/","text":"{\"api_key\":\"abc\",\"note\":\"ghp_0123456789abcdefghijABCDEFGHIJ012345\"}"},"#;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let repeated = |part: &str, size: usize| part.repeat(size / part.len() + 1);
    let list = |part: &str, size: usize| format!("[{}0]", repeated(part, size));
    let cases = [
        ("arguments, 200 B", SMALL.to_owned()),
        ("arguments with a password, 200 B", SMALL_SECRET.to_owned()),
        ("result, 4 KiB", list(RECORD, 4 << 10)),
        ("result, 64 KiB", list(RECORD, 64 << 10)),
        ("prose, 64 KiB", repeated("Plain text, as in a file that somebody wrote. ", 64 << 10)),
        ("many secrets, 64 KiB", list(LEAKY, 64 << 10)),
        ("many words, 64 KiB", repeated("the token of a key, a token and a password token ", 64 << 10)),
        ("schemas, 64 KiB", list(r#"{"token":{"type":"string","description":"The token."}},"#, 64 << 10)),
        ("hostile: names, 64 KiB", repeated("password", 64 << 10)),
        ("hostile: open objects, 64 KiB", repeated(r#"{"token":"#, 64 << 10)),
        ("hostile: backslashes, 64 KiB", repeated(r#"password\\\\\\\\":"#, 64 << 10)),
        ("hostile: prefixes, 64 KiB", repeated("-sk-eyJ-AKIA://a:b", 64 << 10)),
    ];
    let mut group = criterion.benchmark_group("mask");
    for (name, text) in &cases {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| mask(black_box(text), &[]).is_changed()));
    }
    let pointers = ["/user", "/options/*", "/*/author/login"].map(|text| Pointer::parse(text).unwrap());
    for (name, text) in
        [("arguments, 200 B, pointers", SMALL_SECRET.to_owned()), ("result, 64 KiB, pointers", list(RECORD, 64 << 10))]
    {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| mask(black_box(&text), &pointers).is_changed()));
    }
    group.finish();
    criterion.final_summary();
}
