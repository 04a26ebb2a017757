//! Measures schemas: inspecting a long list of tools, the first use of one, and the check of a call.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

#[path = "../tests/data/tools.rs"]
mod tools;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use mcpproxy_core::json::ExactValue;
use mcpproxy_core::schema::Schema;
use serde_json::{Value, json};

const SMALL: &str = r##"{"type":"object","properties":{"owner":{"type":"string","description":"Who owns it"},"repo":{"type":"string"},"title":{"type":"string","minLength":1,"maxLength":200},"labels":{"type":"array","items":{"type":"string"},"maxItems":20},"state":{"anyOf":[{"enum":["open","closed"]},{"type":"null"}]},"since":{"type":"string","pattern":"^\\d{4}-\\d{2}-\\d{2}$"},"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["owner","repo"],"additionalProperties":false}"##;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let texts = schemas();
    let mut group = criterion.benchmark_group("schema");
    group.throughput(Throughput::Elements(texts.len() as u64));
    group.bench_function("inspect, all real ones", |bencher| {
        bencher.iter(|| texts.iter().filter(|text| Schema::inspect(black_box(text)).is_ok()).count());
    });
    group.sample_size(10);
    group.bench_function("first use, all real ones", |bencher| {
        bencher.iter(|| texts.iter().filter(|text| Schema::of_server(black_box(text)).is_ok()).count());
    });
    group.sample_size(100);
    let of_size = |size: usize| texts.iter().min_by_key(|text| text.len().abs_diff(size)).unwrap();
    for (name, text) in [("1 KB", of_size(1_000)), ("10 KB", of_size(10_000)), ("84 KB", of_size(100_000))] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("inspect, {name}"), |bencher| {
            bencher.iter(|| Schema::inspect(black_box(text)).is_ok())
        });
    }
    let schema = Schema::of_server(SMALL).unwrap();
    let large = json!({"owner": "acme", "repo": "site", "labels": (0..20).map(|n| format!("{n}").repeat(512)).collect::<Value>()});
    let mixed = json!(
        (0..100)
            .map(|n| json!({"owner": "acme", "repo": "site", "title": format!("Title {n}"),
        "labels": ["a", "b"], "state": null, "limit": n % 100 + 1}))
            .collect::<Value>()
    );
    let list = Schema::of_server(&format!(r#"{{"items":{SMALL}}}"#)).unwrap();
    let fits = json!({"owner": "acme", "repo": "site", "title": "Login fails", "labels": ["bug", "p1"], "state": "open",
        "since": "2026-11-14", "limit": 10});
    let cases = [
        ("check, fits, small", &schema, fits),
        ("check, fits not, small", &schema, json!({"owner": "acme", "ropo": 1, "state": 5, "limit": 1000})),
        ("check, 10 KB of text", &schema, large),
        ("check, 10 KB of objects", &list, mixed),
    ];
    for (name, schema, value) in cases {
        group.throughput(Throughput::Bytes(value.to_string().len() as u64));
        let value = ExactValue::from(value);
        group.bench_function(name, |bencher| bencher.iter(|| schema.check(black_box(&value)).is_ok()));
    }
    let bombs = [
        (
            "hostile: steps",
            json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}),
            (0..60).fold(json!(1), |inner, _| json!({ "a": inner })),
        ),
        ("hostile: states", json!({"pattern": "[01]*1[01]{100}$"}), json!("01".repeat(32_000))),
        (
            "hostile: items",
            json!({"items": {"oneOf": (0..3_000).map(|n| json!({"const": n})).collect::<Value>()}}),
            json!(vec![7; 32_000]),
        ),
    ];
    for (name, schema, value) in bombs {
        let (schema, value) = (Schema::of_server(&schema.to_string()).unwrap(), ExactValue::from(value));
        group.bench_function(name, |bencher| bencher.iter(|| schema.check(black_box(&value)).is_ok()));
    }
    group.finish();
    criterion.final_summary();
}

/// Returns every schema of every real tool.
fn schemas() -> Vec<String> {
    let tools = tools::lists().into_iter().flat_map(|list| list.tools);
    let schemas = tools.flat_map(|json| {
        let tool: Value = serde_json::from_str(&json).unwrap();
        ["inputSchema", "outputSchema"].map(|field| tool.get(field).map(Value::to_string))
    });
    schemas.flatten().collect()
}
