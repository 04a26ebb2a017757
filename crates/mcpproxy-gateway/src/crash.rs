//! Crash points: places where tests can kill a debug build, to check what a crash there leaves behind.

use std::sync::LazyLock;

/// Aborts the process, as `kill -9` would, if `MCPPROXY_CRASH_AT` names this point. Does nothing in a release build.
pub(crate) fn crash_point(name: &str) {
    static WHERE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MCPPROXY_CRASH_AT").ok());
    if cfg!(debug_assertions) && WHERE.as_deref() == Some(name) {
        std::process::abort();
    }
}
