//! Records of what users do on the console: each has the user's name and is on disk before the action.

use mcpproxy_core::ServerName;
use mcpproxy_store::{Kind, NewRecord, Status, StoreError, WaitFor};
use serde_json::{Value, json};

use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::records;

/// An action of a user, with the thing that it is about.
pub(crate) struct Action<'a> {
    /// The code of the record, such as `server_added`.
    pub(crate) code: &'static str,
    pub(crate) server: Option<&'a ServerName>,
    /// Facts for the metadata of the record, beside the user.
    pub(crate) facts: Value,
}

impl<'a> Action<'a> {
    pub(crate) fn on_server(code: &'static str, server: &'a ServerName) -> Self {
        Self { code, server: Some(server), facts: json!({}) }
    }

    /// Writes the record. Without it, the action must not happen.
    pub(crate) async fn record(&self, app: &AppState, signed: &SignedInUser) -> Result<(), StoreError> {
        self.write(app, signed, Status::Success, None).await
    }

    /// Records that a recorded action failed.
    pub(crate) async fn record_failure(&self, app: &AppState, signed: &SignedInUser, reason: &str) {
        if let Err(error) = self.write(app, signed, Status::Error, Some(reason.to_owned())).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not record that an action failed");
        }
    }

    async fn write(
        &self,
        app: &AppState,
        signed: &SignedInUser,
        status: Status,
        message: Option<String>,
    ) -> Result<(), StoreError> {
        let mut metadata = self.facts.clone();
        if let Value::Object(members) = &mut metadata {
            members.insert("user".to_owned(), signed.name().into());
        }
        let record = NewRecord {
            time_ms: app.now_ms(),
            random: rand::random(),
            kind: if self.server.is_some() { Kind::Server } else { Kind::Auth },
            status,
            server: self.server.map(ToString::to_string),
            message,
            ..records::done_with(self.code, &metadata)
        };
        app.web.ledger.append(record, WaitFor::Disk).await.map(drop)
    }
}
