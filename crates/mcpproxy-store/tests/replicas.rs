//! Tests for several gateways with one database: each has its own chain, and each chain has one writer.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, all, call, key, refusal, success, verified};
use mcpproxy_store::{Ledger, LedgerOptions, Status, StoreError, WaitFor};

on_both!(two_chains_grow_side_by_side, an_interrupted_call_is_closed_by_its_own_gateway_alone);

async fn two_chains_grow_side_by_side(place: &Place) {
    let stores = [place.store().await, place.store().await];
    let mut writing = Vec::new();
    for (seed, store) in [1, 2].into_iter().zip(&stores) {
        let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(seed) };
        let ledger = Ledger::start(store, options).await.unwrap();
        writing.push(tokio::spawn(async move {
            for n in 0..100 {
                // Even with the same time and the same random number, the ids differ.
                let open = ledger.open(call(n), WaitFor::Disk).await.unwrap();
                ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
                ledger.close(open, success(), WaitFor::Disk).await.unwrap();
            }
            ledger.finish().await.unwrap();
        }));
    }
    for writing in writing {
        writing.await.unwrap();
    }
    assert_eq!(verified(&stores[0]).await, 600);
    let records = all(&stores[0]).await;
    for chain in [0, 1] {
        let mut positions: Vec<i64> = Vec::new();
        for record in records.iter().filter(|record| record.chain == chain) {
            positions.extend([Some(record.seq), record.end_seq].into_iter().flatten());
        }
        positions.sort_unstable();
        assert_eq!(positions, (1..=300).collect::<Vec<i64>>());
    }
}

async fn an_interrupted_call_is_closed_by_its_own_gateway_alone(place: &Place) {
    let store = place.store().await;
    let first = Ledger::start(&store, place.options(1)).await.unwrap();
    let _running = first.open(call(1), WaitFor::Disk).await.unwrap();
    let second = Ledger::start(&store, place.options(2)).await.unwrap();
    assert_eq!(second.interrupted(), 0);
    second.finish().await.unwrap();
    assert_eq!(all(&store).await[0].status, Status::Started);
    first.finish().await.unwrap();
    let first = Ledger::start(&store, LedgerOptions { newest_checkpoint: None, ..place.options(1) }).await.unwrap();
    assert_eq!(first.interrupted(), 1);
    assert_eq!(all(&store).await[0].status, Status::Interrupted);
}

#[tokio::test]
async fn a_chain_is_in_one_hand() {
    let place = Place::postgres();
    let (store, ledger) = place.open().await;
    let refused = Ledger::start(&store, place.options(1)).await.err().unwrap();
    let expected = StoreError::ChainTaken { chain: key(1).verifier().chain().into() };
    assert_eq!(format!("{refused:?}"), format!("{expected:?}"));
    // The first gateway continues undisturbed.
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    // The chain is free again at once, although the server may notice a moment later that the first gateway is gone.
    let again = place.ledger(&store).await;
    again.append(refusal(2), WaitFor::Disk).await.unwrap();
    assert_eq!(verified(&store).await, 2);
}

/// Another gateway took the chain while the connection was lost.
#[tokio::test]
async fn a_gateway_whose_chain_was_taken_meanwhile_writes_nothing_more() {
    let place = Place::postgres();
    let (store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    let ended = place
        .sql(
            "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_stat_activity USING (pid) \
             WHERE l.locktype = 'advisory' AND datname = current_database()",
        )
        .await;
    assert_eq!(ended, [1]);
    let usurper = place.ledger(&store).await;
    usurper.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.open(call(3), WaitFor::Disk).await.unwrap_err();
    ledger.open(call(3), WaitFor::Disk).await.unwrap_err();
    usurper.finish().await.unwrap();
    // Even if the chain is free, it is not where this gateway left it.
    let mut reason = String::new();
    for _ in 0..3 {
        reason = ledger.open(call(3), WaitFor::Disk).await.unwrap_err().to_string();
    }
    assert!(reason.contains("does not match the checkpoint signed"), "{reason}");
    assert_eq!(verified(&store).await, 2);
}
