//! Invariants of searching tools with any text.

use std::sync::{Arc, LazyLock};

use mcpproxy_core::{Catalog, Index, Offer, Offered, Scope, ServerName};

const LIMIT: usize = 3;
const TOOLS: [&str; 5] = [
    r#"{"name":"send_email","description":"Sends an email to a person.","inputSchema":{"properties":{"to":{}}}}"#,
    r#"{"name":"list_invoices","description":"Lists the open invoices of a customer.","inputSchema":{}}"#,
    r#"{"name":"deleteCustomer","description":"Deletes a customer for good.","inputSchema":{}}"#,
    r#"{"name":"weather","description":"Wie wird das Wetter? 天気","inputSchema":{}}"#,
    r#"{"name":"x","description":"","inputSchema":{}}"#,
];
/// Without the encoder, and with it.
static INDEXES: LazyLock<[Index; 2]> = LazyLock::new(|| {
    let server = ServerName::parse("office").unwrap_or_else(|error| panic!("{error}"));
    let offer = Offer::new(TOOLS.map(|tool| Offered::parse(&server, tool))).0;
    let catalog = Catalog::new([(server, Arc::new(offer))]);
    let encoded = Index::build(&catalog).with_encoder();
    for tool in encoded.pending(TOOLS.len()) {
        tool.encode().into_iter().for_each(|vector| tool.supply(vector));
    }
    [Index::build(&catalog), encoded]
});

pub(crate) fn check(bytes: &[u8]) {
    let Ok(query) = str::from_utf8(bytes) else { return };
    for index in INDEXES.iter() {
        let found = index.find(query, &Scope::everything(), None, LIMIT);
        assert!(found.hits.len() <= LIMIT, "{query:?}");
        assert_eq!(found.hits.is_empty(), found.no_match.is_some(), "{query:?}");
        assert!(found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)), "{query:?}");
    }
}
