//! Encodes tools for the search in the background.
//!
//! ```text
//!  tools without a vector ─▶ store, by the hash of the text ─▶ index
//!                              └─ not there: encode, 8 at a time ─▶ store and index
//! ```
//!
//! A task of the gateway does this after every new snapshot. A thread of its own computes the vectors, with the lowest
//! priority, so that calls get the processor first. There is no such thread while nothing has to be computed.
//!
//! Invariants:
//!
//! - **No search waits for this.** Until a tool has its vector, it is ranked with the table of word meanings.
//! - **Memory is bounded.** At most [`ROUND`] tools are looked at in one round.
//! - **A restart encodes nothing again**, and neither does a gateway that starts later with the same database. Vectors are
//!   stored before the next ones are computed. Gateways that start together may compute the same ones.
//! - **A damaged vector is computed again**, because its checksum does not fit. A store that fails costs time, not vectors.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::{PendingTool, ToolVector, VectorKey};
use mcpproxy_store::StoredVector;
use tokio::sync::oneshot;

use crate::offload::lower_priority;
use crate::record::now_ms;
use crate::state::SharedState;

/// Tools whose vectors are looked up together.
const ROUND: usize = 256;
/// Tools that are encoded before their vectors are stored.
const BATCH: usize = 8;
/// Servers connect one after the other, and each changes the snapshot. Their tools are encoded when this is over.
const SETTLE: Duration = Duration::from_secs(2);
/// The time before another attempt, if nothing could be encoded.
const PAUSE: Duration = Duration::from_secs(60);
/// The lowest priority of a thread.
const LOWEST_PRIORITY: i32 = 19;

/// Gives the tools of every snapshot their vectors, until the gateway stops.
pub(crate) async fn keep_encoding(state: Arc<SharedState>) {
    let encode = async {
        loop {
            tokio::time::sleep(SETTLE).await;
            loop {
                let pending = state.snapshot.load().index.pending(ROUND);
                if pending.is_empty() {
                    break;
                }
                round(&state, pending).await;
            }
            state.tools_changed.notified().await;
        }
    };
    tokio::select! {
        () = state.stopping.cancelled() => {}
        () = encode => {}
    }
}

/// Gives these tools their vectors: from the store, or computed.
async fn round(state: &SharedState, pending: Vec<PendingTool>) {
    let stored = find(state, &pending).await;
    let mut missing = Vec::new();
    for tool in pending {
        match stored.get(&tool.key()) {
            Some(vector) => tool.supply(vector.clone()),
            None => missing.push(tool),
        }
    }
    let mut missing = missing.into_iter().peekable();
    while missing.peek().is_some() {
        let batch: Vec<PendingTool> = missing.by_ref().take(BATCH).collect();
        let vectors = encode(batch).await.filter(|vectors| !vectors.is_empty());
        let Some(vectors) = vectors else {
            tracing::warn!("could not encode tools; trying again in a minute");
            tokio::time::sleep(PAUSE).await;
            return;
        };
        if let Err(error) = state.store.store_tool_vectors(&vectors, now_ms()).await {
            tracing::debug!(%error, "could not store vectors of tools; they will be computed again after a restart");
        }
    }
}

/// Returns the stored vectors. If the store fails, none are found, and all are computed.
async fn find(state: &SharedState, pending: &[PendingTool]) -> HashMap<VectorKey, ToolVector> {
    let keys: Vec<[u8; 32]> = pending.iter().map(|tool| tool.key().0).collect();
    let stored = state.store.find_tool_vectors(&keys).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "could not read vectors of tools; computing them");
        Vec::new()
    });
    let read = |(key, bytes): StoredVector| {
        let key = VectorKey(key);
        Some((key, ToolVector::from_bytes(&key, &bytes)?))
    };
    stored.into_iter().filter_map(read).collect()
}

/// Computes vectors on a thread with low priority, and supplies each as soon as it is there. Returns what to store.
///
/// A thread for each batch costs less than one vector. Threads of the runtime cannot be used: a lowered priority stays.
/// Returns `None` if no thread can be started.
async fn encode(batch: Vec<PendingTool>) -> Option<Vec<StoredVector>> {
    let (done, vectors) = oneshot::channel();
    let work = move || {
        lower_priority(LOWEST_PRIORITY);
        let encoded = batch.iter().filter_map(|tool| {
            let (key, vector) = (tool.key(), tool.encode()?);
            tool.supply(vector.clone());
            Some((key.0, vector.to_bytes(&key)))
        });
        // If the gateway stops, nobody waits for the result.
        let _stopped = done.send(encoded.collect());
    };
    let _thread = std::thread::Builder::new().name("encode-tools".to_owned()).spawn(work).ok()?;
    vectors.await.ok()
}
