//! Open sessions: who, since when, and from where.

use mcpproxy_store::{OpenSession, SessionId};

use crate::auth::session_places::Place;
use crate::ui::pages::labels::Time;
use crate::visible::Visible;

/// Sessions on the page. The rest is counted.
const SHOWN_MAX: usize = 100;

/// The start of the ids of inputs in the form that needs the password, and the id of its input.
const ASKED: &str = "session-asked-";
pub(crate) const ASKED_INPUT: &str = "session-asked-password";

/// The user and the session that look at the page.
pub(crate) struct Looking<'a> {
    pub(crate) name: &'a str,
    pub(crate) session: &'a SessionId,
    /// The session whose form needs the password.
    pub(crate) asked: Option<&'a str>,
    pub(crate) now_ms: i64,
}

pub(crate) struct Sessions {
    pub(crate) rows: Vec<SessionRow>,
    pub(crate) left_out: usize,
}

pub(crate) struct SessionRow {
    pub(crate) id: String,
    /// The start of the ids of inputs in the form.
    pub(crate) prefix: String,
    /// True if the form needs the password.
    pub(crate) is_asked: bool,
    pub(crate) user: Visible,
    /// True for the sessions of the user who looks at the page.
    pub(crate) is_yours: bool,
    /// True for the session that shows the page.
    pub(crate) is_this: bool,
    pub(crate) since: Time,
    pub(crate) used: Time,
    /// Empty if this gateway has not served the session since it started.
    pub(crate) browser: Visible,
    pub(crate) address: String,
}

impl Sessions {
    /// `place` finds the place of a session.
    pub(crate) fn new(
        sessions: &[OpenSession],
        looking: &Looking<'_>,
        place: impl Fn(&SessionId) -> Option<Place>,
    ) -> Self {
        let row = |(number, session): (usize, &OpenSession)| {
            let place = place(&session.id);
            let is_asked = looking.asked == Some(session.id.as_str());
            SessionRow {
                id: session.id.to_string(),
                prefix: if is_asked { ASKED.to_owned() } else { format!("session-{number}-") },
                is_asked,
                user: Visible::of(&session.user),
                is_yours: session.user == looking.name,
                is_this: session.id == *looking.session,
                since: Time::new(session.created_ms, looking.now_ms),
                used: Time::new(session.used_ms, looking.now_ms),
                address: place.as_ref().and_then(|place| place.address).map(|at| at.to_string()).unwrap_or_default(),
                browser: place.map(|place| Visible::of(&place.browser)).unwrap_or_default(),
            }
        };
        let rows: Vec<SessionRow> = sessions.iter().enumerate().take(SHOWN_MAX).map(row).collect();
        Self { left_out: sessions.len() - rows.len(), rows }
    }
}
