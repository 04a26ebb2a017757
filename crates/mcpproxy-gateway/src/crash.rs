//! Places where a debug build can be made to die, to see what a crash there leaves behind.

/// Ends the process at once, as `kill -9` would, if the environment names this place. Nothing in a release build.
#[cfg(debug_assertions)]
pub(crate) fn crash_point(name: &str) {
    use std::sync::LazyLock;
    static WHERE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MCPPROXY_CRASH_AT").ok());
    if WHERE.as_deref() == Some(name) {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn crash_point(_name: &str) {}
