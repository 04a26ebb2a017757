//! Changes what an existing token may do, for the page of agents and for REST.
//!
//! A narrower scope needs a session only, as revoking does. A wider one needs a proof of presence, as creating a token
//! does. [`AllowedChange`] is that proof: nothing else can be handed to [`change`].

use mcpproxy_core::Scope;
use mcpproxy_store::{PresenceProof, StoreError};
use serde_json::{Value, json};

use crate::action::Action;
use crate::auth::identity::{AppState, SignedInUser};

/// A change that may be made.
pub(crate) struct AllowedChange<'a> {
    name: &'a str,
    before: &'a Scope,
    after: &'a Scope,
}

impl<'a> AllowedChange<'a> {
    /// Returns `None` if the new scope allows more than the old one.
    pub(crate) fn narrower(name: &'a str, before: &'a Scope, after: &'a Scope) -> Option<Self> {
        before.covers(after).then_some(Self { name, before, after })
    }

    pub(crate) fn proven(name: &'a str, before: &'a Scope, after: &'a Scope, _: &PresenceProof) -> Self {
        Self { name, before, after }
    }
}

/// Records and makes a change. The next request of the agent follows the new scope.
pub(crate) async fn change(
    app: &AppState,
    signed: &SignedInUser,
    change: &AllowedChange<'_>,
) -> Result<(), StoreError> {
    let mut facts = described(change.name, change.after);
    if let Value::Object(members) = &mut facts {
        members.insert("before".to_owned(), described(change.name, change.before));
    }
    let action = Action { code: "token_changed", server: None, facts }.begin(app, signed).await?;
    match app.web.store.change_token(change.name, change.after).await {
        Ok(()) => {
            app.web.gateway.forget_tokens();
            action.done(app).await;
            Ok(())
        }
        Err(error) => {
            action.failed(app, &error.to_string()).await;
            Err(error)
        }
    }
}

/// Describes a scope for the metadata of a record.
pub(crate) fn described(agent: &str, scope: &Scope) -> Value {
    let servers = scope.servers.as_ref().map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let operations: Vec<&str> = scope.operations.iter().map(|variant| variant.operation()).collect();
    json!({
        "agent": agent, "grants": scope.grants, "servers": servers, "operations": operations,
        "headless": scope.headless,
    })
}
