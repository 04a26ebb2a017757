//! Pages for people: what they show, as plain values, and the templates that show it.

pub(crate) mod account;
pub(crate) mod assets;
pub(crate) mod confirm;
pub(crate) mod grant_schema;
pub(crate) mod labels;
pub(crate) mod lists;
#[cfg(test)]
mod tests;
pub(crate) mod whole;

use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};
use http::StatusCode;
use http::header::{self, HeaderValue};

/// Nothing is loaded but our own style and script, nothing is sent but to us, and nobody puts a page into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all pages have around their content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) title: String,
    /// The section of the navigation.
    pub(crate) section: &'static str,
    pub(crate) user: Option<FrameUser>,
    pub(crate) pending: u64,
    /// Differs when the content does: an open page takes the new content then, and keeps what is typed otherwise.
    pub(crate) key: String,
    pub(crate) version: &'static str,
    /// Whether the page hears of changes.
    pub(crate) is_live: bool,
    /// Whether the key that the script has did not count, so that the password is asked for.
    pub(crate) asks_password: bool,
}

/// Identity looks at the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameUser {
    pub(crate) name: String,
    pub(crate) csrf: String,
}

impl Frame {
    /// Around a page for nobody in particular.
    pub(crate) fn outside(title: &str) -> Self {
        Self { title: title.to_owned(), version: assets::version(), ..Self::default() }
    }

    fn is_at(&self, section: &str) -> bool {
        self.section == section
    }

    fn csrf(&self) -> &str {
        self.user.as_ref().map_or("", |person| &person.csrf)
    }

    fn name(&self) -> &str {
        self.user.as_ref().map_or("", |person| &person.name)
    }
}

#[derive(Template)]
#[template(path = "login.html")]
pub(crate) struct Login<'a> {
    pub(crate) frame: Frame,
    pub(crate) error: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) next: &'a str,
}

#[derive(Template)]
#[template(path = "setup.html")]
pub(crate) struct Setup<'a> {
    pub(crate) frame: Frame,
    pub(crate) error: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) invitation: &'a str,
}

/// A page that says one thing and where to go from there.
#[derive(Template)]
#[template(path = "notice.html")]
pub(crate) struct Notice<'a> {
    pub(crate) frame: Frame,
    pub(crate) heading: &'a str,
    pub(crate) text: &'a str,
    pub(crate) link: &'a str,
    pub(crate) link_text: &'a str,
}

pub(crate) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "could not render a page");
            (StatusCode::INTERNAL_SERVER_ERROR, "this page could not be made; the gateway's log says why\n")
                .into_response()
        }
    }
}

/// On every answer below `/ui/`.
pub(crate) fn harden(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // Others learn no address of ours. With `no-referrer`, browsers would hide from us too where a form comes from.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
