//! The page before a sign-in at a server: what the user is about to allow, and the link to the provider.

use askama::Template;
use mcpproxy_core::ServerName;
use mcpproxy_gateway::SignInStarted;

use super::short;
use crate::ui::pages::Frame;
use crate::visible::Visible;

#[derive(Template)]
#[template(path = "servers_sign_in.html")]
pub(crate) struct SignIn {
    pub(crate) frame: Frame,
    pub(crate) name: String,
    pub(crate) issuer: Visible,
    pub(crate) scopes: Vec<Visible>,
    /// The page of the provider. The gateway has checked its scheme and address.
    pub(crate) url: String,
    /// The address that the browser returns to.
    pub(crate) redirect_uri: String,
}

impl SignIn {
    pub(crate) fn new(frame: Frame, name: &ServerName, started: &SignInStarted) -> Self {
        Self {
            frame,
            name: name.to_string(),
            issuer: short(&started.issuer),
            scopes: started.scopes.iter().map(|scope| short(scope)).collect(),
            url: started.url.clone(),
            redirect_uri: started.redirect_uri.clone().unwrap_or_default(),
        }
    }
}
