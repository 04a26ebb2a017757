//! Invariants of reading any bytes as server-sent events.

use bytes::Bytes;
use futures::{FutureExt, stream};

use crate::event_stream::{Event, EventReader};

const LIMIT: usize = 64;

/// Checks that the events do not depend on where the network cuts the stream.
pub(crate) fn check(bytes: &[u8]) {
    let (whole, whole_ended) = read(bytes, bytes.len().max(1));
    for size in [1, 7] {
        let (events, ended) = read(bytes, size);
        // A line that is too long is noticed earlier if it comes in parts.
        let shared = events.len().min(whole.len());
        assert_eq!(events.get(..shared), whole.get(..shared), "{bytes:?}");
        assert!(!(ended && whole_ended) || events.len() == whole.len(), "{bytes:?}");
    }
    assert!(whole.iter().all(|event| event.data.len() <= LIMIT), "{bytes:?}");
}

/// Returns the events, and whether the stream was read to its end.
fn read(bytes: &[u8], size: usize) -> (Vec<Event>, bool) {
    let chunks = bytes.chunks(size).map(|chunk| Ok::<_, std::convert::Infallible>(Bytes::copy_from_slice(chunk)));
    let mut reader = EventReader::new(stream::iter(chunks.collect::<Vec<_>>()), LIMIT);
    let mut events = Vec::new();
    loop {
        match reader.next().now_or_never() {
            Some(Ok(Some(event))) => events.push(event),
            Some(Ok(None)) => return (events, true),
            Some(Err(_)) | None => return (events, false),
        }
    }
}
