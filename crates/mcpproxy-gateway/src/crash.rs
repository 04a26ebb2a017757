//! Crash points: places where tests can kill a debug build, to check what a crash there leaves behind.

/// Aborts the process, as `kill -9` would, if `MCPPROXY_CRASH_AT` names this point. Does nothing in a release build.
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
