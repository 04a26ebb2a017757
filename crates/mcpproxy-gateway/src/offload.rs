//! Keeps long computations from delaying other tasks.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinError;

/// Texts up to this size are processed in place, because handing them over would take longer.
const LIGHT_BYTES: usize = 64 * 1024;

/// Runs work on a text of this size. For a long text, the runtime moves other tasks to another thread meanwhile.
pub(crate) fn offload<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let can_move = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > LIGHT_BYTES && can_move { tokio::task::block_in_place(work) } else { work() }
}

/// Runs work on a blocking thread: thousands of tools or recorded calls take seconds, and other requests must not wait.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The process is stopping, and no client waits for the answer.
        Err(Err(_)) => std::future::pending().await,
    }
}
