//! What stands around the page of somebody who is signed in.

use mcpproxy_store::StoreError;

use crate::auth::identity::{Signed, Site};
use crate::ui::pages::{Frame, Person, assets};

pub(crate) async fn around(
    site: &Site,
    signed: &Signed,
    section: &'static str,
    title: &str,
) -> Result<Frame, StoreError> {
    Ok(Frame {
        title: title.to_owned(),
        section,
        person: Some(Person { name: signed.name().to_owned(), csrf: signed.session.csrf.clone() }),
        pending: if signed.session.is_enrolled { site.web.store.count_pending().await? } else { 0 },
        key: String::new(),
        version: assets::version(),
        is_live: signed.session.is_enrolled,
        asks_password: false,
    })
}
