//! Work that takes a moment, kept from delaying everybody else.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Texts up to this size are dealt with where they are: handing them over would take longer.
const LIGHT_BYTES: usize = 64 * 1024;

/// Does something with a text of this size. With a long one, other tasks of this thread go on elsewhere meanwhile.
pub(crate) fn offload<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let can_move = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > LIGHT_BYTES && can_move { tokio::task::block_in_place(work) } else { work() }
}
