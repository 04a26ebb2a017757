//! Asks the gateway or the database within a short time, for completions and hints.
//!
//! Nobody waits for a completion. If an answer takes longer than [`LIMIT`], there is none. Errors are silent, because a
//! shell would print them into the command line.

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(700);

/// Runs work on its own thread, and returns its result if it succeeds in time.
pub(crate) fn quickly<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Option<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
{
    let (done, result) = mpsc::channel();
    // Finding the gateway can block, so a timeout inside the runtime would not be enough.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let found = runtime.block_on(work()).ok()?;
        done.send(found).ok()
    });
    result.recv_timeout(LIMIT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quick_success_counts() {
        assert_eq!(quickly(|| async { Ok(1) }), Some(1));
        assert_eq!(quickly(|| async { anyhow::bail!("no") as anyhow::Result<u8> }), None);
        assert_eq!(quickly(std::future::pending::<anyhow::Result<u8>>), None);
    }
}
