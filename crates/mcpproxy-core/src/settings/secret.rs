//! Secrets, which no log or error can show by accident.

use std::fmt;

use super::TransportSettings;

/// A value of `env` or `headers`, or the URL of a database. It has no `Display`, and its `Debug` is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    stands_in_file: bool,
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), stands_in_file: false }
    }

    pub(super) fn written_in_file(text: String) -> Self {
        Self { text, stands_in_file: true }
    }

    /// Returns the value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns true if the settings file holds the value itself, not a reference to it.
    pub(super) fn stands_in_file(&self) -> bool {
        self.stands_in_file
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

// Arguments and URLs often contain tokens (`--token …`, `?key=…`), so a log must not show them.
impl fmt::Debug for TransportSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &format_args!("{} hidden", args.len()))
                .field("env", env)
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers } | Self::Sse { url, headers } => f
                .debug_struct(if matches!(self, Self::Http { .. }) { "Http" } else { "Sse" })
                .field("url", &origin(url))
                .field("headers", headers)
                .finish(),
            Self::Demo => f.write_str("Demo"),
            Self::Misconfigured { kind, mistakes } => {
                f.debug_struct("Misconfigured").field("kind", kind).field("mistakes", mistakes).finish()
            }
        }
    }
}

fn origin(url: &str) -> String {
    url::Url::parse(url).map_or_else(|_| "***".to_owned(), |url| url.origin().ascii_serialization())
}

/// Returns true if a variable or header of this name usually holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["token", "secret", "password", "passwd", "credential", "authorization", "cookie", "key", "auth"];
    let name = name.to_ascii_lowercase();
    name.split(['_', '-', '.']).any(|word| WORDS.contains(&word))
        // Names without separators: `APIKEY`, `githubToken`.
        || WORDS.iter().take(7).any(|word| name.contains(word))
        || name.ends_with("key")
}
