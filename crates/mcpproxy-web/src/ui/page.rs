//! Definitions of web pages: one row per page or form.
//!
//! As with REST endpoints (`rest/endpoint.rs`), a row describes a page completely. The router, the access check in
//! front of each handler and the access tests are made from the rows. Each file of handlers has its rows at the top, as
//! `PAGES`. [`super::all_pages`] concatenates them.
//!
//! A page answers a browser, not a program. That is why a refused page redirects to the sign-in page or shows a notice,
//! where a REST endpoint answers with a JSON error.

use std::fmt;

use axum::routing::{MethodFilter, MethodRouter};

use crate::auth::identity::AppState;
use crate::verb::Verb;

pub(crate) struct Page {
    /// The name in messages of tests.
    pub(crate) name: &'static str,
    pub(crate) method: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: PageAccess,
    /// True if the form approves or denies calls. A refused attempt to use it is recorded.
    pub(crate) decides: bool,
    /// The page with this form, to return to after signing in. `None` if it is the page at the same path.
    pub(crate) sent_from: Option<&'static str>,
    /// True if a script reads the answer, so that a redirect to the sign-in page makes no sense.
    pub(crate) is_stream: bool,
    pub(crate) handler: fn(MethodFilter) -> MethodRouter<AppState>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageAccess {
    /// Contains nothing worth protecting.
    Everybody,
    /// For users who are not signed in yet. Agent tokens and the admin key are refused.
    SignedOut,
    /// A signed-in user, with or without a second factor.
    Session,
    /// A signed-in user with a second factor.
    User,
}
