//! State that all servers share: the store, the sealing key, the flows under way, and the records.

use std::sync::Arc;

use arc_swap::ArcSwap;
use mcpproxy_core::ServerName;
use mcpproxy_store::{Kind, Ledger, NewRecord, SealingKey, Status, Store, StoreError, WaitFor};
use serde_json::{Value, json};

use super::callback::Callback;
use super::flow::Flows;

const CLIENT_DOCUMENT: &str = "/oauth/client.json";
/// The name under which the gateway registers at providers.
pub(super) const CLIENT_NAME: &str = "mcpproxy";

pub(crate) struct OAuth {
    pub(super) store: Store,
    pub(super) ledger: Ledger,
    pub(super) key: SealingKey,
    /// Names this gateway in leases.
    pub(super) holder: String,
    pub(super) now_ms: fn() -> i64,
    /// Start of links for users: `http://localhost:8080`, or `public_url` of the settings.
    base_url: ArcSwap<String>,
    pub(super) flows: Flows,
}

/// A reason why a sign-in did not begin, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("no such server")]
    NoServer,
    /// The server is not one that a user can sign in to.
    #[error("{0}")]
    NotPossible(String),
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The session that began a sign-in. The sign-in ends only while this session lasts.
#[derive(Clone)]
pub struct SignInSession {
    pub user: String,
    /// The secret of the session cookie.
    pub secret: String,
    pub from: StartedFrom,
}

/// The place where a user began a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedFrom {
    /// The browser that returns from the provider need not have a session.
    Terminal,
    /// The browser must return with the same session.
    Page,
}

impl OAuth {
    pub(crate) fn new(
        store: Store,
        ledger: Ledger,
        key: SealingKey,
        base_url: String,
        now_ms: fn() -> i64,
    ) -> Arc<Self> {
        let (holder, base_url) = (format!("{:032x}", rand::random::<u128>()), ArcSwap::from_pointee(base_url));
        Arc::new(Self { store, ledger, key, holder, now_ms, base_url, flows: Flows::default() })
    }

    pub(crate) fn set_base_url(&self, base_url: String) {
        self.base_url.store(Arc::new(base_url));
    }

    pub(super) fn base_url(&self) -> String {
        self.base_url.load().trim_end_matches('/').to_owned()
    }

    /// Returns the page of a server, on which a user signs in.
    pub(super) fn page_of(&self, server: &ServerName) -> String {
        format!("{}/ui/servers/{server}", self.base_url())
    }

    pub(super) fn redirect_uri(&self, callback: &Callback) -> String {
        format!("{}{}", self.base_url(), callback.path())
    }

    /// Returns the URL of the gateway's client metadata, if providers can read it.
    pub(super) fn client_document_url(&self) -> Option<String> {
        let base = self.base_url();
        base.starts_with("https://").then(|| format!("{base}{CLIENT_DOCUMENT}"))
    }

    /// Describes the gateway to providers that read client metadata documents.
    pub(crate) fn client_document(&self) -> Option<Value> {
        let url = self.client_document_url()?;
        Some(json!({
            "client_id": url,
            "client_name": CLIENT_NAME,
            "client_uri": self.base_url(),
            "redirect_uris": [self.redirect_uri(&Callback::Document)],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "web",
        }))
    }

    /// Writes a record about the sign-in at a server, and waits until it is on disk.
    pub(super) async fn record(&self, record: SignInRecord<'_>) -> Result<(), StoreError> {
        let SignInRecord { server, code, status, message, metadata } = record;
        let record = NewRecord {
            server: Some(server.to_string()),
            code: Some(code.to_owned()),
            message: Some(message),
            metadata: metadata.to_string(),
            ..NewRecord::blank(Kind::Server, status, (self.now_ms)(), rand::random())
        };
        self.ledger.append(record, WaitFor::Disk).await.map(drop)
    }
}

/// The content of a record about a sign-in.
pub(super) struct SignInRecord<'a> {
    pub(super) server: &'a ServerName,
    pub(super) code: &'static str,
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) metadata: Value,
}
