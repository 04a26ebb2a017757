//! Copies of the database have the records of all partitions as one table.

use super::common::{Place, all, verified};
use super::{DAY_MS, bounds, count, write};
use mcpproxy_store::{Existing, Loader};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_several_partitions_is_restored_anywhere() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0, DAY_MS, 12 * DAY_MS]).await;
    write(&place, &store, 2, &[0, DAY_MS]).await;
    assert_eq!((bounds(&place).await.len(), count(&place, "records_last").await), (3, 1));
    let mut snapshot = store.snapshot().await.unwrap();
    let (schema, mut batches) = (snapshot.schema(), Vec::new());
    while let Some(batch) = snapshot.next().await.unwrap() {
        batches.push(batch);
    }
    snapshot.close().await.unwrap();
    let tables: Vec<&str> = batches.iter().map(|batch| batch.table.as_str()).collect();
    assert_eq!(tables.iter().filter(|table| table.starts_with("records")).count(), 1, "{tables:?}");
    for left_out in ["chain_heads", "planned_removals"] {
        assert!(!tables.contains(&left_out), "{tables:?}");
    }
    for copy in [Place::postgres(), Place::sqlite()] {
        let mut loader = Loader::begin(&copy.location, schema, Existing::Refuse).await.unwrap();
        for batch in &batches {
            assert_eq!(loader.add(&batch.table, &batch.text).await.unwrap(), batch.rows);
        }
        loader.finish().await.unwrap();
        let restored = copy.store().await;
        assert_eq!((all(&restored).await, verified(&restored).await), (all(&store).await, 5));
        // Both chains go on.
        write(&copy, &restored, 1, &[13 * DAY_MS]).await;
        write(&copy, &restored, 2, &[0]).await;
        assert_eq!(verified(&restored).await, 7);
    }
    // Over a database with partitions of its own.
    let before = all(&store).await;
    let mut loader = Loader::begin(&place.location, schema, Existing::Replace).await.unwrap();
    for batch in &batches {
        loader.add(&batch.table, &batch.text).await.unwrap();
    }
    loader.finish().await.unwrap();
    let restored = place.store().await;
    assert_eq!((all(&restored).await, verified(&restored).await), (before, 5));
}
