//! Builds the frame of pages for signed-in users: title, navigation and number of pending requests.

use mcpproxy_store::StoreError;

use super::events::Topic;
use crate::auth::identity::{AppState, SignedInUser};
use crate::ui::pages::{Frame, FrameUser, assets};

pub(crate) async fn around(
    app: &AppState,
    signed: &SignedInUser,
    section: &'static str,
    title: &str,
) -> Result<Frame, StoreError> {
    let people = app.web.gateway.settings().people.clone();
    Ok(Frame {
        title: title.to_owned(),
        section,
        user: Some(FrameUser {
            name: signed.name().to_owned(),
            csrf: signed.session.csrf.clone(),
            is_enrolled: signed.session.is_enrolled,
            provider: signed
                .session
                .provider
                .as_ref()
                .map(|_| people.oidc.as_ref().map(|oidc| oidc.name.clone()).unwrap_or_default()),
        }),
        pending: if signed.session.is_enrolled { app.web.store.count_pending().await? } else { 0 },
        key: String::new(),
        version: assets::version(),
        live: signed.session.is_enrolled.then_some(Topic::Approvals),
        asks_password: false,
        idle_s: people.session.idle_ms() / 1000,
        here: String::new(),
        confirmed: None,
        home_option: app.web.facts.home_option.clone(),
        now_ms: app.now_ms(),
        wrong: None,
    })
}
