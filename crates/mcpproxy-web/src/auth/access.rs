//! Who may use a REST endpoint.

use http::Method;
use http::request::Parts;

use super::identity::{Signed, Site, Who};
use super::origin::{self, CSRF_HEADER};
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Says nothing worth protecting.
    Everybody,
    /// The admin key, or a person.
    Operator,
    /// A person alone.
    User,
    /// The agent it is about, the admin key, or a person.
    OwnStatus,
    /// Whoever is not signed in yet, and no program.
    SignIn,
    /// A person, also without a second factor.
    Session,
}

pub(crate) async fn admit(site: &Site, access: Access, decides: bool, who: &Who, parts: &Parts) -> Result<(), Problem> {
    if decides && matches!((access, who), (Access::User, Who::Key | Who::Agent(_)) | (_, Who::Agent(_))) {
        site.note_refused_decision(who, parts.uri.path()).await;
        return Err(if matches!(who, Who::Key) { Problem::KeyDecides } else { Problem::AgentDecides });
    }
    match (access, who) {
        (Access::Everybody, _) | (Access::Operator, Who::Key) | (Access::OwnStatus, Who::Key | Who::Agent(_)) => Ok(()),
        (Access::SignIn, Who::Nobody) => is_own(site, parts),
        (Access::SignIn, Who::Person(_)) => is_own(site, parts),
        (Access::Session, Who::Person(signed)) => is_meant(site, signed, parts),
        (Access::Operator | Access::User | Access::OwnStatus, Who::Person(signed)) => {
            is_meant(site, signed, parts)?;
            if signed.session.is_enrolled { Ok(()) } else { Err(Problem::NotEnrolled) }
        }
        (Access::User | Access::Session | Access::SignIn, Who::Key) => Err(Problem::Key),
        (Access::Operator | Access::User | Access::Session | Access::SignIn, Who::Agent(_)) => Err(Problem::Agent),
        (Access::User | Access::Session, Who::Nobody) => Err(Problem::NotSignedIn),
        (Access::Operator | Access::OwnStatus, Who::Nobody) => Err(Problem::Nobody),
    }
}

/// Whether a person's browser was not made to ask by somebody else's page.
fn is_meant(site: &Site, signed: &Signed, parts: &Parts) -> Result<(), Problem> {
    if is_safe(&parts.method) {
        return Ok(());
    }
    is_own(site, parts)?;
    let given = parts.headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if origin::is_token(given, &signed.session.csrf) { Ok(()) } else { Err(Problem::Forged) }
}

fn is_own(site: &Site, parts: &Parts) -> Result<(), Problem> {
    if origin::is_own(&parts.headers, &site.web.facts.base_url) { Ok(()) } else { Err(Problem::Origin) }
}

pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
