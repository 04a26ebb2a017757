//! The JSON form of a token's scope, as stored in its row.

use mcpproxy_core::{Scope, ServerName, Variant};
use serde::{Deserialize, Serialize};

use crate::StoreError;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeRow {
    grants: Vec<String>,
    servers: Option<Vec<String>>,
    operations: Vec<String>,
    /// Absent in tokens that are older than this field.
    #[serde(default)]
    headless: bool,
}

pub(super) fn to_json(scope: &Scope) -> Result<String, StoreError> {
    let row = ScopeRow {
        grants: scope.grants.clone(),
        servers: scope.servers.as_ref().map(|names| names.iter().map(|name| name.as_str().to_owned()).collect()),
        operations: scope.operations.iter().map(|variant| variant.operation().to_owned()).collect(),
        headless: scope.headless,
    };
    serde_json::to_string(&row).map_err(|error| StoreError::corrupt(error.to_string()))
}

/// Reads a scope completely or not at all: a guess could allow an agent too much.
pub(super) fn from_json(text: &str) -> Result<Scope, StoreError> {
    let row: ScopeRow =
        serde_json::from_str(text).map_err(|error| StoreError::corrupt(format!("a token's scope ({error})")))?;
    let server =
        |name: String| ServerName::parse(&name).map_err(|_| StoreError::corrupt("a server name in a token's scope"));
    let operation = |name: String| {
        Variant::from_operation(&name).ok_or_else(|| StoreError::corrupt("an operation in a token's scope"))
    };
    Ok(Scope {
        grants: row.grants,
        servers: row.servers.map(|names| names.into_iter().map(server).collect()).transpose()?,
        operations: row.operations.into_iter().map(operation).collect::<Result<_, _>>()?,
        headless: row.headless,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_round_trip_through_json() {
        let narrow = Scope {
            grants: vec!["emails:send".into(), "files:*".into()],
            servers: Some(vec![ServerName::parse("mail").unwrap()]),
            operations: vec![Variant::Read, Variant::Write],
            headless: true,
        };
        for scope in [narrow, Scope::everything(), Scope::read_only()] {
            assert_eq!(from_json(&to_json(&scope).unwrap()).unwrap(), scope);
        }
    }

    #[test]
    fn an_unknown_scope_is_rejected() {
        for text in [
            "",
            "{}",
            r#"{"grants":[],"servers":["A B"],"operations":[]}"#,
            r#"{"grants":[],"servers":null,"operations":["admin"]}"#,
            r#"{"grants":[],"servers":null,"operations":[],"denied":["x"]}"#,
        ] {
            assert!(matches!(from_json(text), Err(StoreError::Corrupt { .. })), "{text}");
        }
    }
}
