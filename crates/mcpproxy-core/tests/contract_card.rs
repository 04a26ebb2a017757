//! Contract cards. `data/contract_card.json` has the example card of the contract standard: a card that the gateway
//! writes for the same tool has the same parts, in the same order.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should stop there")]

use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::review::docs::docs;
use mcpproxy_core::{Catalog, Offer, Offered, ServerName};
use serde_json::{Map, Value, json};

const CARD: &str = include_str!("data/contract_card.json");

fn words<'c>(card: &'c Value, part: &str) -> Vec<&'c str> {
    card[part].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

/// Returns the schema that the lines of a card describe, such as `to: string[]`.
fn schema(lines: &[&str]) -> Value {
    let (mut properties, mut required, mut choices) = (Map::new(), Vec::new(), Vec::new());
    for line in lines {
        let (name, kind) = line.split_once(": ").unwrap();
        if !name.ends_with('?') {
            required.push(name);
        }
        let property = if kind.ends_with("[]") {
            json!({"type": "array", "items": {"type": "string"}})
        } else if kind.contains(" | ") {
            choices = kind.split(" | ").collect();
            json!({"description": "A definition, as generated schemas have it.", "$ref": "#/$defs/Choices"})
        } else {
            json!({"type": kind})
        };
        properties.insert(name.trim_end_matches('?').to_owned(), property);
    }
    json!({"type": "object", "properties": properties, "required": required, "$defs": {"Choices": {"enum": choices}}})
}

/// Returns the pages for one tool of the server `mail`, without escapes.
fn pages(tool: &Value, contract: &str, file: &str) -> (String, String) {
    let server = ServerName::parse("mail").unwrap();
    let (offer, _) = Offer::new([Offered::parse(&server, &tool.to_string())]);
    let contracts = Contracts::parse(&[(file.to_owned(), contract.to_owned())]).unwrap();
    let catalog = Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default());
    let pages = docs(&catalog);
    (pages[0].text.replace('\\', ""), pages[1].text.replace('\\', ""))
}

/// Returns the list below a heading of a card.
fn section<'p>(page: &'p str, heading: &str) -> Vec<&'p str> {
    let below = page.split(&format!("\n### {heading}\n\n")).nth(1).unwrap();
    below.lines().map_while(|line| line.strip_prefix("- ")).collect()
}

#[test]
fn the_card_of_the_standard() {
    let card: Value = serde_json::from_str(CARD).unwrap();
    let (input, output) = (words(&card, "input_schema"), words(&card, "output_schema"));
    let tool = json!({
        "name": card["name"], "description": card["description"],
        "inputSchema": schema(&input), "outputSchema": schema(&output),
    });
    let contract = json!({
        "tool": format!("mail:{}", card["name"].as_str().unwrap()),
        "riskLevel": "critical",
        "operation": "destructive",
        "category": card["category"],
        "stepUpAuth": {"when": {"anyOf": [{"properties": {"to": {"minItems": 11}}}, {"required": ["attachments"]}]}},
        "auditEvent": card["audit_event"],
        "permissions": card["permissions"],
        "failureModes": card["failure_modes"],
        "sideEffects": card["side_effects"],
    });
    let (_, page) = pages(&tool, &contract.to_string(), "mail.json");
    let text = |part: &str| card[part].as_str().unwrap().to_owned();
    assert!(page.contains(&format!("## {}\n\n**{}**\n\n{}\n", text("name"), text("level"), text("description"))));
    for (row, value) in [
        ("Category", text("category")),
        ("Autonomous execution", text("autonomous_execution")),
        ("Confirmation", text("confirmation")),
        ("Step-up auth", "optional, depending on to, attachments".to_owned()),
        ("Audit event", text("audit_event")),
    ] {
        assert!(page.contains(&format!("| {row} | {value} |\n")), "{row}: {page}");
    }
    // JSON Schema has no type for ids.
    let input: Vec<String> = input.iter().map(|line| line.replace("fileId", "string")).collect();
    assert_eq!(section(&page, "Input schema"), input);
    assert_eq!(section(&page, "Output schema"), output);
    assert_eq!(section(&page, "Permissions"), words(&card, "permissions"));
    assert_eq!(section(&page, "Failure modes"), words(&card, "failure_modes"));
    assert_eq!(section(&page, "Side effects"), words(&card, "side_effects"));
}

#[test]
fn drafts_and_repeats_are_on_the_card() {
    let tool = json!({"name": "link", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}});
    let contract = "tool: mail:link\nriskLevel: medium\noperation: write\n\
                    idempotency: { mode: natural, keyFrom: [id], ttl: 1h, validUntil: /expiresAt }\n";
    let (tables, page) = pages(&tool, contract, "mail.yaml");
    assert!(page.contains("**Medium**\n"), "{page}");
    assert!(page.contains("| Idempotency | natural, by id, for 1h or until /expiresAt |\n"), "{page}");
    assert!(!tables.contains("draft"), "{tables}");
    let (tables, page) = pages(&tool, &format!("# DRAFT: check every field\n{contract}"), "mail.yaml");
    assert!(page.contains("**Medium** (draft, not reviewed)\n"), "{page}");
    assert!(tables.contains("(mail.md#link) (draft, not reviewed) |"), "{tables}");
}

/// A server that refers in circles gets a card all the same.
#[test]
fn a_definition_may_refer_to_itself() {
    let tool = json!({"name": "tree", "inputSchema": {
        "type": "object",
        "properties": {"children": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    }});
    let (_, page) = pages(&tool, "[]", "mail.yaml");
    assert_eq!(section(&page, "Input schema"), ["children?: array[][][][]"]);
}
