//! Records of what users do on the console.
//!
//! Each has the user's name, and its beginning is on disk before the action. The end of the action is part of the same
//! record, so a record never says that something was done which then failed.

use mcpproxy_core::ServerName;
use mcpproxy_store::{Kind, NewRecord, OpenRecord, Outcome, RecordId, Status, StoreError, WaitFor};
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

/// An action whose beginning is recorded.
#[must_use]
pub(crate) struct BegunAction {
    open: OpenRecord,
    /// The end of a record has its own code, so it is repeated there.
    code: &'static str,
}

impl<'a> Action<'a> {
    pub(crate) fn on_server(code: &'static str, server: &'a ServerName) -> Self {
        Self { code, server: Some(server), facts: json!({}) }
    }

    /// Records the beginning. Without it, the action must not happen.
    pub(crate) async fn begin(&self, app: &AppState, signed: &SignedInUser) -> Result<BegunAction, StoreError> {
        let record = self.new_record(app, signed, Status::Started);
        let open = app.web.ledger.open(record, WaitFor::Disk).await?;
        Ok(BegunAction { open, code: self.code })
    }

    /// Records an action that has been done already, as a part of another one.
    pub(crate) async fn record(&self, app: &AppState, signed: &SignedInUser) -> Result<RecordId, StoreError> {
        app.web.ledger.append(self.new_record(app, signed, Status::Success), WaitFor::Disk).await
    }

    fn new_record(&self, app: &AppState, signed: &SignedInUser, status: Status) -> NewRecord {
        let mut metadata = self.facts.clone();
        if let Value::Object(members) = &mut metadata {
            members.insert("user".to_owned(), signed.name().into());
        }
        NewRecord {
            time_ms: app.now_ms(),
            random: rand::random(),
            kind: if self.server.is_some() { Kind::Server } else { Kind::Auth },
            status,
            server: self.server.map(ToString::to_string),
            ..records::done_with(self.code, &metadata)
        }
    }
}

impl BegunAction {
    pub(crate) async fn done(self, app: &AppState) {
        self.end(app, Outcome::bare(Status::Success)).await;
    }

    pub(crate) async fn failed(self, app: &AppState, reason: &str) {
        self.end(app, Outcome { message: Some(reason.to_owned()), ..Outcome::bare(Status::Error) }).await;
    }

    /// An end that cannot be written now is written later, by the ledger.
    async fn end(self, app: &AppState, outcome: Outcome) {
        let outcome = Outcome { code: Some(self.code.to_owned()), ..outcome };
        if let Err(error) = app.web.ledger.close(self.open, outcome, WaitFor::Disk).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not record the end of an action");
        }
    }
}
