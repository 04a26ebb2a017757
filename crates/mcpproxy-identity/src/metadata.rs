//! The metadata that a provider publishes about itself.

use serde::Deserialize;
use url::Url;

use crate::address;
use crate::error::ProviderError;
use crate::fetch::{Fetch, FetchError};

/// The endpoints of a provider, from its discovery document.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    pub authorization_endpoint: Option<Url>,
    pub token_endpoint: Option<Url>,
    pub end_session_endpoint: Option<Url>,
    /// The provider returns `iss` with every code, so a code without it must be refused (RFC 9207).
    pub sends_issuer: bool,
    pub(crate) jwks_uri: Url,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Reads the discovery document of an issuer: OpenID Connect first, then RFC 8414.
pub(crate) async fn discover(fetch: Fetch, issuer: &str) -> Result<Metadata, ProviderError> {
    let url = address::check_url(issuer)?;
    let mut failed = None;
    for place in places(&url) {
        match fetch.json(&place).await {
            Ok(document) => return read(issuer, document),
            Err(error @ FetchError::Status(_)) => failed = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(failed.map_or(ProviderError::Metadata("the issuer has no address for it"), ProviderError::Fetch))
}

/// OpenID Connect appends the well-known path to the issuer. RFC 8414 puts it in front of the issuer's path.
fn places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/').to_owned();
    let paths =
        [format!("{path}/.well-known/openid-configuration"), format!("/.well-known/oauth-authorization-server{path}")];
    let at = |path: &String| {
        let mut url = issuer.clone();
        url.set_path(path);
        url.set_query(None);
        url
    };
    paths.iter().map(at).collect()
}

fn read(issuer: &str, document: serde_json::Value) -> Result<Metadata, ProviderError> {
    let document: Document = serde_json::from_value(document)
        .map_err(|_| ProviderError::Metadata("its metadata lacks `issuer` or `jwks_uri`, or has a wrong type"))?;
    // A provider that names another issuer could pass for it.
    if document.issuer != issuer {
        return Err(ProviderError::Metadata(
            "its metadata names another issuer; the setting must have exactly the same text, including a slash at the end",
        ));
    }
    let optional = |text: Option<String>| text.map(|text| address::check_url(&text)).transpose();
    Ok(Metadata {
        authorization_endpoint: optional(document.authorization_endpoint)?,
        token_endpoint: optional(document.token_endpoint)?,
        end_session_endpoint: optional(document.end_session_endpoint)?,
        sends_issuer: document.authorization_response_iss_parameter_supported,
        jwks_uri: address::check_url(&document.jwks_uri)?,
    })
}
