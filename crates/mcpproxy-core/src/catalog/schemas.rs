//! The schemas that count for a tool: the server's own and the contract's, which both apply.

use serde_json::{Value, json};

use super::Tool;

impl Tool {
    /// Returns the schema that arguments must match, or `None` if nothing describes them.
    pub fn whole_input_schema(&self) -> Option<Value> {
        let of_contract = self.contract.input_schema.as_ref().map(|schema| schema.value.text());
        both(self.offered.field("inputSchema"), of_contract)
    }

    /// Returns the schema that structured results must match, or `None` if nothing describes them.
    pub fn whole_output_schema(&self) -> Option<Value> {
        let of_contract = self.contract.output_schema.as_ref().map(|output| output.value.schema.text());
        both(self.offered.field("outputSchema"), of_contract)
    }
}

fn both(of_server: Option<&str>, of_contract: Option<&str>) -> Option<Value> {
    let read = |text: &str| serde_json::from_str(text).ok().filter(|schema: &Value| !schema.is_null());
    match (of_server.and_then(read), of_contract.and_then(read)) {
        (Some(server), Some(contract)) => {
            Some(json!({ "type": "object", "allOf": [named(server, "server"), named(contract, "contract")] }))
        }
        (server, contract) => server.or(contract),
    }
}

/// Gives a schema with references an identifier, because `#/$defs/…` starts at the nearest one.
fn named(mut schema: Value, name: &str) -> Value {
    let has_references = schema.to_string().contains("\"$ref\"");
    if let (true, Some(keywords)) = (has_references, schema.as_object_mut()) {
        keywords.entry("$id").or_insert_with(|| format!("urn:mcpproxy:{name}").into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemas_count() {
        let check = |server: Option<&str>, contract: Option<&str>, expected: Option<&str>| {
            assert_eq!(both(server, contract).map(|schema| schema.to_string()).as_deref(), expected);
        };
        check(None, None, None);
        check(Some("null"), None, None);
        check(Some("{\"a\":1}"), None, Some("{\"a\":1}"));
        check(None, Some("{\"b\":2}"), Some("{\"b\":2}"));
        check(
            Some("{\"$ref\":\"#/$defs/x\"}"),
            Some("{\"b\":2}"),
            Some(
                "{\"type\":\"object\",\"allOf\":[{\"$ref\":\"#/$defs/x\",\"$id\":\"urn:mcpproxy:server\"},{\"b\":2}]}",
            ),
        );
    }
}
