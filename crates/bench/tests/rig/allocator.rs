//! Counts what this process allocates.

use std::alloc::System;
use std::ops::Sub;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Memory requests since the process started, or between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Allocations, and reallocations of a buffer that grew or shrank.
    pub(crate) allocations: usize,
    pub(crate) bytes: usize,
}

/// Memory that is allocated now and not freed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) allocations: usize,
    pub(crate) bytes: usize,
}

impl Work {
    pub(crate) fn so_far() -> Self {
        let stats = ALLOCATOR.stats();
        Self { allocations: stats.allocations + stats.reallocations, bytes: stats.bytes_allocated }
    }

    /// Returns the median of each figure. A task that wakes up during a few of the calls does not change it.
    pub(crate) fn median(of: &[Self]) -> Self {
        let median = |mut figures: Vec<usize>| {
            figures.sort_unstable();
            figures[figures.len() / 2]
        };
        Self {
            allocations: median(of.iter().map(|work| work.allocations).collect()),
            bytes: median(of.iter().map(|work| work.bytes).collect()),
        }
    }
}

impl Sub for Work {
    type Output = Self;

    fn sub(self, start: Self) -> Self {
        Self { allocations: self.allocations - start.allocations, bytes: self.bytes - start.bytes }
    }
}

impl Live {
    pub(crate) fn now() -> Self {
        let stats = ALLOCATOR.stats();
        Self {
            allocations: stats.allocations - stats.deallocations,
            bytes: stats.bytes_allocated - stats.bytes_deallocated,
        }
    }
}
