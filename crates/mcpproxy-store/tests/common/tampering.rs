//! A small log with every kind of record, and ways to tamper with it.

use mcpproxy_core::RiskLevel;
use mcpproxy_store::{ChainVerdict, Damage, DamageKind, NewRecord, Outcome, Status, Store, VerifyOptions, WaitFor};

use super::{Place, call, refusal, success};

/// Positions: 1 a refusal, 2 and 6 a call, 3 and 4 another, 5 a refusal; signed. 7 and 8 a call, 9 a refusal without
/// arguments, 10 a call that is still open; signed.
pub(crate) async fn write(place: &Place) -> Store {
    let (store, ledger) = place.open().await;
    let full = |n: u32| NewRecord { risk: Some(RiskLevel::High), message: Some("m".into()), ..refusal(n) };
    ledger.append(full(1), WaitFor::Disk).await.unwrap();
    let long = ledger.open(NewRecord { risk: Some(RiskLevel::Low), ..call(2) }, WaitFor::Disk).await.unwrap();
    let short = ledger.open(call(3), WaitFor::Disk).await.unwrap();
    ledger.close(short, success(), WaitFor::Disk).await.unwrap();
    ledger.append(full(4), WaitFor::Disk).await.unwrap();
    let end = Outcome {
        code: Some("SERVER_ERROR".into()),
        message: Some("it failed".into()),
        metadata: Some(r#"{"late":true}"#.into()),
        status: Status::Error,
        ..success()
    };
    ledger.close(long, end, WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    let third = ledger.open(call(5), WaitFor::Disk).await.unwrap();
    ledger.close(third, success(), WaitFor::Disk).await.unwrap();
    ledger.append(NewRecord { args: None, ..refusal(6) }, WaitFor::Disk).await.unwrap();
    let open = ledger.open(call(7), WaitFor::Disk).await.unwrap();
    assert_eq!(open.id().time_ms(), call(7).time_ms);
    ledger.finish().await.unwrap();
    store
}

pub(crate) async fn verdicts(store: &Store, options: VerifyOptions) -> Vec<ChainVerdict> {
    store.verify(options, &mut |_| {}).await.unwrap()
}

pub(crate) async fn damage(store: &Store) -> Option<Damage> {
    verdicts(store, VerifyOptions::default()).await.into_iter().find_map(|verdict| verdict.damage)
}

/// Tampers with the log, verifies it, and restores it.
pub(crate) struct Tampering<'p> {
    pub(crate) place: &'p Place,
    pub(crate) store: Store,
}

pub(crate) const TABLES: [&str; 5] = ["chains", "records", "payloads", "checkpoints", "stubs"];

impl<'p> Tampering<'p> {
    pub(crate) async fn on(place: &'p Place) -> Self {
        Self::over(place, write(place).await).await
    }

    pub(crate) async fn over(place: &'p Place, store: Store) -> Self {
        for table in TABLES {
            place.sql(&format!("CREATE TABLE {table}_before AS SELECT * FROM {table}")).await;
        }
        Self { place, store }
    }

    pub(crate) async fn check(&self, sql: &str, expected: Option<(i64, DamageKind)>) {
        self.run(sql).await;
        let found = damage(&self.store).await;
        assert_eq!(found.map(|damage| (damage.seq, damage.what)), expected, "{sql}");
    }

    /// Runs statements on the original log.
    pub(crate) async fn run(&self, sql: &str) {
        let back = TABLES.map(|table| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_before"));
        self.place.sql(&format!("{}; {sql}", back.join("; "))).await;
    }

    pub(crate) async fn changed(&self, change: &str, row: i64, position: i64) {
        self.check(&format!("UPDATE records SET {change} WHERE seq = {row}"), Some((position, DamageKind::Changed)))
            .await;
    }
}
