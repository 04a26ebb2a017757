//! Work that would hold up other requests.

use tokio::task::JoinError;

/// Runs work on a blocking thread: thousands of tools take seconds, and other requests must not wait.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The process is stopping, and no client waits for the answer.
        Err(Err(_)) => std::future::pending().await,
    }
}
