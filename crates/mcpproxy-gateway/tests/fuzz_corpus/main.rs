//! Checks the invariants of the gateway's fuzz targets on their seed corpora.

mod events;

mod event_stream {
    pub(crate) use mcpproxy_gateway::{Event, EventReader};
}

use std::fs;
use std::path::Path;

/// Runs every input whole, and cut off at every byte, because most mistakes occur at an unexpected end.
#[test]
fn kept_inputs_of_the_event_reader() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/events");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| events::check(bytes.get(..end).unwrap()));
        count += 1;
    }
    assert!(count > 10, "{count} inputs");
}
