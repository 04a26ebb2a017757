//! The content of pages: plain values, and the templates that render them.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod agents;
pub(crate) mod amount;
pub(crate) mod assets;
pub(crate) mod confirm;
pub(crate) mod filters;
pub(crate) mod grant_schema;
pub(crate) mod labels;
pub(crate) mod lists;
pub(crate) mod one_line;
pub(crate) mod overview;
pub(crate) mod servers;
pub(crate) mod settings;
#[cfg(test)]
pub(crate) mod test_status;
#[cfg(test)]
mod tests;
pub(crate) mod tools;
pub(crate) mod whole;

use super::events::Topic;
use crate::visible::Visible;
use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};
use http::StatusCode;
use http::header::{self, HeaderValue};

/// The Content-Security-Policy of all pages: only our own styles and scripts, forms only to us, no framing.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

/// The parts that all pages share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) title: String,
    /// The section of the navigation.
    pub(crate) section: &'static str,
    pub(crate) user: Option<FrameUser>,
    pub(crate) pending: u64,
    /// Changes with the content. An open page replaces its content only if the key differs, so that typed text
    /// survives.
    pub(crate) key: String,
    pub(crate) version: &'static str,
    /// The changes that the page listens for, if any.
    pub(crate) live: Option<Topic>,
    /// True if the page key was rejected, so that the form asks for the password.
    pub(crate) asks_password: bool,
    /// Seconds after which a session without requests ends.
    pub(crate) idle_s: i64,
    /// The page to come back to from the identity provider.
    pub(crate) here: String,
    /// A confirmation of the identity provider, which the next form sends.
    pub(crate) confirmed: Option<Confirmed>,
    /// The `--home` that commands on the page need. Empty for the default folder, and for visitors who are not signed in.
    pub(crate) home_option: String,
    /// The time of the page. The script counts from it, because clocks of browsers are wrong.
    pub(crate) now_ms: i64,
    /// The id of the input that the error is about. It gets the focus.
    pub(crate) wrong: Option<&'static str>,
}

/// A confirmation of the identity provider for one purpose.
#[derive(Clone, Debug)]
pub(crate) struct Confirmed {
    pub(crate) purpose: String,
    pub(crate) proof: String,
}

impl Confirmed {
    /// Reads the confirmation with which a user comes back from the provider.
    pub(crate) fn of(uri: &http::Uri) -> Option<Self> {
        let pairs = crate::query::pairs(uri.query()?).ok()?;
        let of = |name: &str| pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        Some(Self { purpose: of("for")?, proof: of("proof")? })
    }
}

/// The signed-in user.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameUser {
    pub(crate) name: String,
    pub(crate) csrf: String,
    /// True if the user has a second factor. Without one, the navigation would lead back to the account page only.
    pub(crate) is_enrolled: bool,
    /// The name of the identity provider, for its users.
    pub(crate) provider: Option<String>,
}

impl Frame {
    /// Builds the frame of a page without a user.
    pub(crate) fn outside(title: &str) -> Self {
        Self { title: title.to_owned(), version: assets::version(), ..Self::default() }
    }

    fn is_at(&self, section: &str) -> bool {
        self.section == section
    }

    /// Renders a sentence of ours: what is between backticks becomes code, and commands name the data folder.
    fn coded(&self, text: impl AsRef<str>) -> Visible {
        Visible::coded(text.as_ref(), &self.home_option)
    }

    /// Returns true if the error is about this input.
    fn is_wrong(&self, prefix: &str, name: &str) -> bool {
        self.wrong.is_some_and(|id| id.strip_prefix(prefix) == Some(name))
    }

    /// Returns true if the error is about the password at this place.
    fn asks_password_at(&self, prefix: &str) -> bool {
        self.asks_password && (self.wrong.is_none() || self.is_wrong(prefix, "password"))
    }

    /// Returns true if an input gets the focus, instead of the error.
    fn has_focus(&self) -> bool {
        self.asks_password && !self.is_of_provider() || self.wrong.is_some()
    }

    fn csrf(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.csrf)
    }

    /// Returns the name of the identity provider, or nothing for local users.
    fn provider(&self) -> &str {
        self.user.as_ref().and_then(|user| user.provider.as_deref()).unwrap_or_default()
    }

    fn is_of_provider(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.provider.is_some())
    }

    fn has_proof(&self, purpose: &str) -> bool {
        !self.proof(purpose).is_empty()
    }

    /// Returns the confirmation of the identity provider for this purpose.
    fn proof(&self, purpose: &str) -> &str {
        let confirmed = self.confirmed.as_ref().filter(|confirmed| confirmed.purpose == purpose);
        confirmed.map_or("", |confirmed| &confirmed.proof)
    }

    fn name(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.name)
    }
}

#[derive(Template)]
#[template(path = "login.html")]
pub(crate) struct Login<'a> {
    pub(crate) frame: Frame,
    pub(crate) error: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) next: &'a str,
    /// Set if the browser uses another address than the links of the gateway.
    pub(crate) elsewhere: Option<Elsewhere>,
    /// `people.password` allows passwords.
    pub(crate) has_password: bool,
    pub(crate) provider: Option<ProviderButton>,
    /// No account exists yet, so nobody can sign in.
    pub(crate) is_empty: bool,
}

/// The address that the links of the gateway lead to. A browser has separate sessions for `localhost` and `127.0.0.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// The host that the browser uses.
    pub(crate) here: String,
    pub(crate) base_url: String,
    /// The same page there.
    pub(crate) href: String,
}

/// A link to the identity provider.
pub(crate) struct ProviderButton {
    pub(crate) name: String,
    pub(crate) href: String,
    /// The address at which a user who has just signed out here can also sign out there.
    pub(crate) sign_out: Option<String>,
}

#[derive(Template)]
#[template(path = "setup.html")]
pub(crate) struct Setup<'a> {
    pub(crate) frame: Frame,
    pub(crate) error: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) invitation: &'a str,
    /// The name is given: the operator invited it, or reset its account.
    pub(crate) is_named: bool,
    pub(crate) has_password: bool,
    pub(crate) provider: Option<ProviderButton>,
}

/// A page that loads another one by itself.
#[derive(Template)]
#[template(path = "onward.html")]
pub(crate) struct Onward<'a> {
    pub(crate) frame: Frame,
    pub(crate) heading: &'a str,
    pub(crate) text: &'a str,
    pub(crate) link: &'a str,
    pub(crate) link_text: &'a str,
}

/// A page with one message and a link.
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
            (StatusCode::INTERNAL_SERVER_ERROR, "this page could not be rendered; the gateway's log has the reason\n")
                .into_response()
        }
    }
}

/// Sets the security headers of all answers below `/ui/`.
pub(crate) fn harden(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // Other sites do not learn our addresses. `no-referrer` would also remove the origin that we check on forms.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
