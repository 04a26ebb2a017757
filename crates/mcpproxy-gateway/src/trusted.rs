//! How servers came into the settings, and the rules that follow from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcpproxy_core::Digest;
use mcpproxy_core::lock::Lock;
use mcpproxy_core::settings::{ServerSettings, Settings};
use mcpproxy_core::trust::{Rules, Welcome};

use crate::upstream::Origin;

/// Time between the announcement of a server at a terminal, and the reload that brings it.
const CHOICE_LASTS: Duration = Duration::from_secs(60);

/// Rules for definitions that do not come from the settings.
#[derive(Default)]
pub(crate) struct Trust {
    /// With a lock file, exactly its definitions are accepted.
    pub(crate) lock: Option<Arc<Lock>>,
    pub(crate) choices: Choices,
}

impl Trust {
    pub(crate) fn new(lock: Option<Arc<Lock>>) -> Self {
        Self { lock, choices: Choices::default() }
    }

    /// Returns the rules for one server.
    pub(crate) fn rules(&self, settings: &Settings, server: &ServerSettings, origin: Origin) -> Rules {
        if let Some(lock) = &self.lock {
            return lock.rules_for(server);
        }
        let by_origin = match origin {
            Origin::Start | Origin::Terminal => Welcome::Accept,
            Origin::FileChange => settings.trust.first_sight,
        };
        Rules::Settings { first_sight: server.first_sight.unwrap_or(by_origin), on_change: settings.trust.changes }
    }
}

/// Servers that a user announced, and that are not in the settings yet. An announcement is for one command or address,
/// so that nobody can put another program under the announced name.
#[derive(Default)]
pub(crate) struct Choices {
    /// By identity.
    announced: Mutex<HashMap<String, Instant>>,
}

/// Announcements that wait for their reload, at most.
const CHOICES_MAX: usize = 100;

impl Choices {
    /// Notes that a user is about to add a server with this identity.
    pub(crate) fn announce(&self, identity: Digest) {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        announced.retain(|_, at| at.elapsed() < CHOICE_LASTS);
        if announced.len() < CHOICES_MAX {
            announced.insert(identity.to_string(), Instant::now());
        }
    }

    /// Returns the origin of a server that a reload brings. An announcement counts once.
    pub(crate) fn origin_of(&self, server: &ServerSettings) -> Origin {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        match announced.remove(server.identity.key()) {
            Some(at) if at.elapsed() < CHOICE_LASTS => Origin::Terminal,
            Some(_) | None => Origin::FileChange,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::settings::{Unresolved, parse};

    use super::*;

    fn server(command: &str) -> ServerSettings {
        let text = format!(r#"{{"mcpServers": {{"fx": {{"command": "{command}"}}}}}}"#);
        parse(&text, &Unresolved).unwrap().servers.remove(0)
    }

    fn identity(server: &ServerSettings) -> Digest {
        Digest::parse(server.identity.key()).unwrap()
    }

    #[test]
    fn an_announcement_counts_once_and_for_one_program() {
        let (fx, other) = (server("fx"), server("evil"));
        let choices = Choices::default();
        assert_eq!(choices.origin_of(&fx), Origin::FileChange);
        choices.announce(identity(&fx));
        assert_eq!(choices.origin_of(&other), Origin::FileChange, "the same name, another program");
        assert_eq!(choices.origin_of(&fx), Origin::Terminal);
        assert_eq!(choices.origin_of(&fx), Origin::FileChange);
    }
}
