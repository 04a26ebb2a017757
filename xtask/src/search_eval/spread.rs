//! Spreads work over threads, and returns the results in order.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maximum number of threads, because other checks run at the same time.
const THREADS_MAX: usize = 4;

pub(super) fn spread<'a, T: Sync, R: Send>(all: &'a [T], work: impl Fn(&'a T) -> R + Sync) -> anyhow::Result<Vec<R>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else { return done };
            done.push((at, work(one)));
        }
    };
    let mut done = Vec::with_capacity(all.len());
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        for thread in running {
            done.extend(thread.join().map_err(|_| anyhow::anyhow!("a thread of the evaluation panicked"))?);
        }
        anyhow::Ok(())
    })?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        let all: Vec<usize> = (0..1000).collect();
        assert_eq!(spread(&all, |one| one * 2).unwrap(), all.iter().map(|one| one * 2).collect::<Vec<_>>());
        assert_eq!(spread(&[], |one: &usize| *one).unwrap(), Vec::<usize>::new());
    }
}
