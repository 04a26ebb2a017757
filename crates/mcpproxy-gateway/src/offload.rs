//! Keeps long computations from delaying other tasks.

use std::cell::Cell;
use std::future::Future;
use std::sync::OnceLock;

use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::JoinError;

/// Texts up to this size are processed in place, because handing them over would take longer.
const LIGHT_BYTES: usize = 64 * 1024;
/// Priority of the threads for large messages. The system gives other threads nine times as much of a busy processor.
const LARGE_PRIORITY: i32 = 10;

thread_local! {
    /// True on the threads for large messages.
    static HAS_LOW_PRIORITY: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on a text of this size. For a long text, the runtime moves other tasks to another thread meanwhile. Not on
/// the threads for large messages, whose number is what leaves processors to everything else.
pub(crate) fn offload<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let is_multi = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_large(bytes) && !HAS_LOW_PRIORITY.get() && is_multi() { tokio::task::block_in_place(work) } else { work() }
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

/// Returns true if work on a message of this size should run at low priority.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > LIGHT_BYTES
}

/// Runs work on a large message on threads with a lower priority: each step takes milliseconds, and one agent may send
/// so many of them that all threads of the runtime would be busy.
pub(crate) async fn at_low_priority<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match large_messages() {
        Some(runtime) => on(runtime.handle(), work).await,
        None => work.await,
    }
}

/// Runs work on another runtime. If the caller stops waiting, the work is dropped, as if it ran in place.
pub(crate) async fn on<T: Send + 'static>(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> T {
    let (work, done) = work.remote_handle();
    runtime.spawn(work);
    done.await
}

/// Returns the runtime for large messages, which starts with the first one. `None` if there can be no more threads.
fn large_messages() -> Option<&'static Runtime> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(cores.div_ceil(2)).thread_name("large-messages").enable_all();
        let on_start = || {
            HAS_LOW_PRIORITY.set(true);
            lower_priority(LARGE_PRIORITY);
        };
        builder.on_thread_start(on_start).build().ok()
    };
    RUNTIME.get_or_init(start).as_ref()
}

/// Lowers the priority of this thread for good. On Linux, priorities belong to threads. Elsewhere they belong to the
/// process, which must keep its own.
pub(crate) fn lower_priority(nice: i32) {
    #[cfg(target_os = "linux")]
    let _unchanged = rustix::process::setpriority_process(None, nice);
    #[cfg(not(target_os = "linux"))]
    let _unused = nice;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn large_messages_have_threads_of_their_own_with_a_lower_priority() {
        let work = async {
            #[cfg(target_os = "linux")]
            assert_eq!(rustix::process::getpriority_process(None).unwrap(), LARGE_PRIORITY);
            std::thread::current().name().map(str::to_owned)
        };
        assert_eq!(at_low_priority(work).await.as_deref(), Some("large-messages"));
        assert_ne!(std::thread::current().name(), Some("large-messages"));
    }

    #[tokio::test]
    async fn work_ends_if_nobody_waits_for_it() {
        let (held, watched) = {
            let held = Arc::new(());
            (Arc::clone(&held), Arc::downgrade(&held))
        };
        let (began, begun) = tokio::sync::oneshot::channel();
        let work = async move {
            let _held = held;
            began.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        let waiting = tokio::spawn(at_low_priority(work));
        begun.await.unwrap();
        waiting.abort();
        let dropped = async {
            while watched.strong_count() > 0 {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), dropped).await.unwrap();
    }
}
