//! The `metrics` section: whether the gateway measures itself, and where a monitoring system reads the numbers.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::approvals::{check_secret, read_secret};
use super::read::Reader;
use super::{Secret, keys, parse_listen};
use crate::file::Fields;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    pub enabled: bool,
    /// An address of its own for `/metrics`. `None` means the gateway's main address.
    pub listen: Option<SocketAddr>,
    /// A bearer token that opens `/metrics` and nothing else.
    pub token: Option<Secret>,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { enabled: true, listen: None, token: None }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<MetricsSettings> {
    let fields = reader.fields(&fields.find("metrics")?.node, &keys::METRICS)?;
    let metrics = MetricsSettings {
        enabled: reader.boolean_of(&fields, "enabled").unwrap_or(true),
        listen: reader.parsed_of(&fields, "listen", parse_listen),
        token: fields.find("token").and_then(|field| read_secret(reader, &field.node, check_secret)),
    };
    // Whoever reaches a loopback address can also read the data folder. On any other address, a token is needed.
    if let (Some(listen), Some(field)) = (metrics.listen, fields.find("listen"))
        && !listen.ip().to_canonical().is_loopback()
        && fields.find("token").is_none()
    {
        let message = "others on the network could read the metrics; add `metrics.token`, best as `${env:NAME}`, or \
                       listen on 127.0.0.1";
        reader.report(field.node.position, message);
    }
    Some(metrics)
}

/// Returns the part of the JSON Schema for this section.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Metrics for Prometheus, at `/metrics`.",
        "additionalProperties": false,
        "properties": {
            "enabled": {
                "type": "boolean",
                "default": true,
                "description": "Measure calls and answer `/metrics`. false turns both off."
            },
            "listen": {
                "type": "string",
                "description": "An address and port of its own for `/metrics`, such as `127.0.0.1:9464`. Then the main address does not answer `/metrics`. A loopback address needs no credential. Any other address needs `token`."
            },
            "token": {
                "type": "string",
                "minLength": 16,
                "description": "A bearer token that opens `/metrics` and nothing else, best in `${env:NAME}` or `${file:PATH}`. On the main address, the admin key opens it too."
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::bad::check;
    use crate::settings::{Unresolved, parse};

    #[test]
    fn values() {
        let metrics = |text: &str| parse(text, &Unresolved).unwrap().metrics;
        assert_eq!(metrics("{}"), MetricsSettings::default());
        assert_eq!(metrics(r#"{"metrics": {}}"#), MetricsSettings::default());
        assert!(!metrics(r#"{"metrics": {"enabled": false}}"#).enabled);
        let own = metrics(r#"{"metrics": {"listen": "localhost:9464"}}"#);
        assert_eq!(own.listen, Some("127.0.0.1:9464".parse().unwrap()));
        let wide = metrics(r#"{"metrics": {"listen": "0.0.0.0:9464", "token": "long-enough-to-keep"}}"#);
        assert_eq!(wide.token.map(|token| token.expose().to_owned()).as_deref(), Some("long-enough-to-keep"));
    }

    #[test]
    fn another_address_needs_a_token() {
        check(
            r#"{"metrics": {"listen": "0.0.0.0:9464"}}"#,
            &["line 1, column 24: others on the network could read the metrics; add `metrics.token`, best as \
               `${env:NAME}`, or listen on 127.0.0.1"],
        );
        check(
            r#"{"metrics": {"listen": "9464", "token": "short"}}"#,
            &[
                "line 1, column 24: expected an address and a port such as \"127.0.0.1:8080\"",
                "line 1, column 41: a secret of fewer than 16 characters can be guessed; use a longer, random one",
            ],
        );
    }
}
