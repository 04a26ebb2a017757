//! The browser and the address from which each open session was last used, for the list of sessions.
//!
//! They are kept in memory only. They help a user to recognize a session, and nothing depends on them: the store has the
//! sessions themselves. After a restart, a session has a place again with its next request. If several gateways share a
//! database, each knows the sessions that it served.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::USER_AGENT;
use mcpproxy_store::SessionId;

use crate::peer::Peer;

/// Sessions with a place. Only signed-in users add one. Beyond this, the one that was used longest ago is forgotten.
const SESSIONS_MAX: usize = 1_000;
/// Characters of a program's name that has no words below.
const NAME_CHARS: usize = 60;

#[derive(Default)]
pub(crate) struct SessionPlaces(Mutex<HashMap<SessionId, Place>>);

/// The place from which a session was last used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name that the program gives itself, worded from its `User-Agent`. Not verified.
    pub(crate) browser: String,
    pub(crate) address: Option<IpAddr>,
    used_ms: i64,
}

impl SessionPlaces {
    /// Notes a request of a session.
    pub(crate) fn note(&self, id: SessionId, headers: &HeaderMap, peer: Option<Peer>, now_ms: i64) {
        let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let place = Place { browser: browser(agent), address: peer.map(Peer::address), used_ms: now_ms };
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= SESSIONS_MAX && !places.contains_key(&id) {
            let oldest = places.iter().min_by_key(|(_, place)| place.used_ms).map(|(id, _)| id.clone());
            oldest.map(|oldest| places.remove(&oldest));
        }
        places.insert(id, place);
    }

    pub(crate) fn find(&self, id: &SessionId) -> Option<Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// Words the header `User-Agent`: `Firefox on Linux`. Browsers name others for compatibility, so the order matters.
fn browser(agent: &str) -> String {
    const BROWSERS: [(&str, &str); 7] = [
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("FxiOS/", "Firefox"),
        ("CriOS/", "Chrome"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    const SYSTEMS: [(&str, &str); 7] = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    let find =
        |names: &[(&str, &'static str)]| names.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        // Other programs say `curl/8.5.0`.
        (None, _) => agent.split(' ').next().unwrap_or_default().chars().take(NAME_CHARS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_in_words() {
        let check = |agent: &str, expected: &str| assert_eq!(browser(agent), expected, "{agent}");
        check("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux");
        check(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        );
        check(
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
            "Safari on macOS",
        );
        check(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile Safari/604.1",
            "Safari on iPhone",
        );
        check(
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        );
        check("curl/8.5.0", "curl/8.5.0");
        check("", "");
        assert_eq!(browser(&"<b>".repeat(1_000)).chars().count(), NAME_CHARS);
    }

    #[test]
    fn the_oldest_place_is_forgotten() {
        let places = SessionPlaces::default();
        let id = |number: usize| SessionId::of(&number.to_string());
        for number in 0..=SESSIONS_MAX {
            places.note(id(number), &HeaderMap::new(), None, i64::try_from(number).unwrap());
        }
        assert_eq!((places.find(&id(0)), places.find(&id(1)).is_some()), (None, true));
        assert!(places.find(&id(SESSIONS_MAX)).is_some());
        assert_eq!(places.0.lock().unwrap().len(), SESSIONS_MAX);
    }
}
