//! Checks the schemas of real tools: all are usable, and the skipped keywords are known.

#[path = "data/tools.rs"]
mod tools;
#[path = "data/values.rs"]
mod values;

use std::time::{Duration, Instant};

use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Offered, ServerName};
use serde_json::Value;
use values::{mistaken, sample};

/// Patterns with look-ahead, which need a backtracking engine.
const UNCHECKED: [&str; 3] = [
    "dynatrace-oss-dynatrace-mcp-server:send_email /properties/toRecipients/items/pattern",
    "dynatrace-oss-dynatrace-mcp-server:send_email /properties/ccRecipients/items/pattern",
    "dynatrace-oss-dynatrace-mcp-server:send_email /properties/bccRecipients/items/pattern",
];

#[test]
fn every_real_schema_is_used() {
    let began = Instant::now();
    let (mut tools, mut schemas, mut unchecked) = (0, 0, Vec::new());
    for list in tools::lists() {
        let server = ServerName::parse(&list.server.replace('.', "-")).unwrap();
        for json in &list.tools {
            let tool = Offered::parse(&server, json).unwrap_or_else(|error| panic!("{server} {error:?}"));
            tools += 1;
            for field in ["inputSchema", "outputSchema"] {
                let Some(text) = tool.field(field) else { continue };
                let schema = Schema::of_server(text).unwrap_or_else(|error| panic!("{} {field}: {error}", tool.name));
                schemas += 1;
                unchecked.extend(schema.unchecked().iter().map(|pointer| format!("{} {pointer}", tool.name)));
            }
        }
    }
    assert_eq!((tools, schemas), (3_004, 3_741));
    assert_eq!(unchecked, UNCHECKED);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Our walker and the `jsonschema` crate agree on generated values for each real schema, valid and with one mistake.
#[test]
fn the_library_agrees_on_real_schemas() {
    let (mut fitting, mut not_fitting) = (0, 0);
    for json in tools::lists().iter().flat_map(|list| &list.tools) {
        let tool: Value = serde_json::from_str(json).unwrap();
        for schema in ["inputSchema", "outputSchema"].iter().filter_map(|field| tool.get(*field)) {
            let ours = Schema::of_server(&schema.to_string()).unwrap();
            if !ours.unchecked().is_empty() {
                continue;
            }
            let engine = jsonschema::PatternOptions::regex();
            let options = jsonschema::options().with_pattern_options(engine).should_validate_formats(false);
            let theirs = options.build(schema).unwrap();
            for value in mistaken(&sample(schema, schema, 0)) {
                let exact = value.clone().into();
                let admitted = ours.admits(&exact);
                assert_eq!(admitted, theirs.is_valid(&value), "{} {value}", tool["name"]);
                assert_eq!(admitted, ours.check(&exact).is_ok());
                *(if admitted { &mut fitting } else { &mut not_fitting }) += 1;
            }
        }
    }
    assert!(fitting > 5_000 && not_fitting > 10_000, "{fitting} {not_fitting}");
}
