//! Tests for the search as its users see it: results, hidden tools, and attacks on the ranking.

mod encoder;
mod explain;
mod fields;
pub(super) mod guards;
mod hidden;
mod named;
mod stuffing;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Index, SearchResult};
use crate::catalog::{Catalog, Offer, Offered};
use crate::contract::Contracts;
use crate::{Scope, ServerName};

/// Returns a tool as its server would list it.
pub(super) fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": {} })
}

pub(super) fn server(name: &str) -> ServerName {
    ServerName::parse(name).unwrap()
}

fn offer(server: &ServerName, tools: &[Value]) -> Arc<Offer> {
    let (offer, refused) = Offer::new(tools.iter().map(|tool| Offered::parse(server, &tool.to_string())));
    assert!(refused.is_empty(), "{refused:?}");
    Arc::new(offer)
}

/// Builds a catalog from tools with server names, and from the text of a contract file.
fn catalog_with(tools: &[(&str, Value)], contracts: &str) -> Catalog {
    let mut servers: BTreeMap<ServerName, Vec<Value>> = BTreeMap::new();
    for (name, tool) in tools {
        servers.entry(server(name)).or_default().push(tool.clone());
    }
    let offers = servers.into_iter().map(|(server, tools)| (server.clone(), offer(&server, &tools)));
    let contracts = Contracts::parse(&[("contracts.yaml".to_owned(), contracts.to_owned())]).unwrap();
    Catalog::default().next(offers, &Arc::new(contracts), &Arc::default())
}

pub(super) fn catalog(tools: &[(&str, Value)]) -> Catalog {
    catalog_with(tools, "[]")
}

pub(super) fn only(servers: &[&str]) -> Scope {
    Scope { servers: Some(servers.iter().map(|name| server(name)).collect()), ..Scope::everything() }
}

pub(super) fn find(index: &Index, query: &str, limit: usize) -> SearchResult {
    index.find(query, &Scope::everything(), None, limit)
}

/// Returns names and exact scores.
pub(super) fn exact(found: &SearchResult) -> Vec<(String, u32)> {
    found.hits.iter().map(|hit| (hit.tool.name.to_string(), hit.score.to_bits())).collect()
}

pub(super) fn names(found: &SearchResult) -> Vec<String> {
    found.hits.iter().map(|hit| hit.tool.name.to_string()).collect()
}
