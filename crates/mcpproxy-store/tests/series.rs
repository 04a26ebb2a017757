//! Tests for the roll-up of counts: whatever happens and whenever counts move, a summary is what the records say.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::time::Duration;

use common::facts::{Fact, brute_force, brute_force_hours};
use common::{NO_RETENTION, Place, all, call, now_ms, payload, refusal, success, until};
use mcpproxy_core::settings::Retention;
use mcpproxy_core::{RiskLevel, Variant};
use mcpproxy_store::{
    Announcement, CallMark, Existing, Kind, Ledger, LedgerOptions, Loader, NewRecord, OpenRecord, Outcome, Status,
    Store, Summary, WaitFor,
};

on_both!(
    a_summary_is_what_the_records_say,
    a_summary_is_what_retention_left,
    counts_are_exact_while_they_move,
    a_failed_move_changes_nothing,
    chains_without_a_gateway_move_too,
    counts_wait_for_gateways_that_do_not_know_series,
    a_damaged_series_holds_up_its_own_chain_only,
    whole_steps_of_retention_leave_nothing_behind,
    a_copy_has_the_counts,
);

const HOUR_MS: i64 = 3_600_000;
/// The first millisecond of an hour.
const BEGIN_MS: i64 = 472_222 * HOUR_MS;

/// A linear congruential generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// A log that is written at random, and what it must hold.
struct Log {
    random: Random,
    /// Records that have ended.
    ended: Vec<Fact>,
    running: Vec<(Fact, CallMark, OpenRecord)>,
    time_ms: i64,
    number: u32,
}

impl Log {
    fn new(seed: u64) -> Self {
        Self { random: Random(seed), ended: Vec::new(), running: Vec::new(), time_ms: BEGIN_MS, number: 0 }
    }

    fn facts(&self) -> Vec<Fact> {
        self.ended.iter().chain(self.running.iter().map(|(fact, ..)| fact)).cloned().collect()
    }

    async fn write(&mut self, ledger: &Ledger) {
        let random = &mut self.random;
        // Most records share an hour with others, some come days later.
        self.time_ms += match random.below(12) {
            0 => i64::try_from(random.below(72)).unwrap() * HOUR_MS,
            1..4 => HOUR_MS,
            _ => i64::try_from(random.below(60_000)).unwrap(),
        };
        self.number += 1;
        let metadata =
            [r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":1}"#, r#"{"dry_run":"server"}"#, r#"{"replayed_from":"01X"}"#];
        let record = NewRecord {
            time_ms: self.time_ms,
            server: Some("server".to_owned()),
            // Few series, so that each has many points. These names sort differently by locale and by bytes.
            tool: Some(random.pick(&["b", "B", "a_"]).to_owned()),
            intent_type: random.pick(&[None, Some(Variant::Read), Some(Variant::Write)]),
            risk: random.pick(&[None, None, None, Some(RiskLevel::High)]),
            metadata: random.pick(&metadata).to_owned(),
            args: Some(payload("{}")),
            ..call(self.number)
        };
        let mut fact = Fact {
            hour: self.time_ms / HOUR_MS,
            kind: Kind::Call,
            status: Status::Started,
            server: record.server.clone(),
            tool: record.tool.clone(),
            intent: record.intent_type,
            risk: record.risk,
            mark: CallMark::Real,
            duration_us: None,
        };
        let mark = match record.metadata.as_str() {
            r#"{"dry_run":"server"}"# => CallMark::DryRun,
            r#"{"replayed_from":"01X"}"# => CallMark::Replayed,
            _ => CallMark::Real,
        };
        if random.below(3) == 0 {
            (fact.kind, fact.status, fact.mark) = (Kind::Refusal, Status::Refused, mark);
            let refused = NewRecord { kind: Kind::Refusal, status: Status::Refused, ..record };
            ledger.append(refused, WaitFor::Disk).await.unwrap();
            self.ended.push(fact);
        } else {
            // A call that ends at once is one line of the log. Its caller waits for that line only.
            let is_fast = random.below(3) == 0;
            let open = ledger.open(record, if is_fast { WaitFor::Queue } else { WaitFor::Disk }).await.unwrap();
            self.running.push((fact, mark, open));
            if is_fast {
                self.end_at(self.running.len() - 1, ledger).await;
            }
        }
    }

    /// Ends a running call, maybe days after its beginning.
    async fn end(&mut self, ledger: &Ledger) {
        if self.running.is_empty() {
            return;
        }
        let index = usize::try_from(self.random.below(self.running.len() as u64)).unwrap();
        self.end_at(index, ledger).await;
    }

    async fn end_at(&mut self, index: usize, ledger: &Ledger) {
        let (fact, mark, open) = self.running.swap_remove(index);
        let status = self.random.pick(&[Status::Success, Status::Success, Status::Error, Status::Cancelled]);
        let duration_us = (self.random.below(8) > 0).then(|| self.random.below(16));
        let outcome = Outcome { duration_us, ..Outcome::bare(status) };
        ledger.close(open, outcome, WaitFor::Disk).await.unwrap();
        self.ended.push(Fact { status, mark, duration_us, ..fact });
    }

    /// Compares random ranges, and everything, with the facts.
    async fn check(&mut self, store: &Store) {
        let facts = self.facts();
        let (begin, now) = (BEGIN_MS / HOUR_MS, self.time_ms / HOUR_MS);
        let span = u64::try_from(now - begin + 3).unwrap();
        for _ in 0..3 {
            let [first, last] = [(); 2].map(|()| begin - 1 + i64::try_from(self.random.below(span)).unwrap());
            let found = store.summary(Some(first * HOUR_MS), Some(last * HOUR_MS + 7)).await.unwrap();
            assert_eq!(found, brute_force(&facts, first, last), "hours {first} to {last}");
        }
        let found = store.summary(None, None).await.unwrap();
        let everything = brute_force(&facts, 0, now);
        assert_eq!(found, Summary { from_ms: found.from_ms, to_ms: found.to_ms, ..everything });
        let hours = store.hourly_calls(0, self.time_ms).await.unwrap();
        assert_eq!(hours, brute_force_hours(&facts, now - 31 * 24 + 1, now));
    }

    async fn go_on(&mut self, store: &Store, ledger: &Ledger, operations: u32) {
        for _ in 0..operations {
            match self.random.below(10) {
                0..5 => self.write(ledger).await,
                5..8 => self.end(ledger).await,
                8 => ledger.roll_up().await.unwrap(),
                _ => self.check(store).await,
            }
        }
        self.check(store).await;
    }
}

async fn a_summary_is_what_the_records_say(place: &Place) {
    let (store, ledger) = place.open().await;
    for seed in 1..=2 {
        let mut log = Log::new(seed);
        // Both runs write to one log, the second after the first.
        if seed > 1 {
            log.ended = all(&store).await.iter().map(Fact::of).collect();
            log.time_ms = log.ended.iter().map(|fact| fact.hour).max().unwrap() * HOUR_MS + HOUR_MS;
        }
        log.go_on(&store, &ledger, 400).await;
        while !log.running.is_empty() {
            log.end(&ledger).await;
        }
        log.check(&store).await;
        let (mut written, mut listed) = (log.facts(), all(&store).await.iter().map(Fact::of).collect::<Vec<_>>());
        for facts in [&mut written, &mut listed] {
            facts.sort_by_key(|fact| format!("{fact:?}"));
        }
        assert_eq!(written, listed, "the test counts what was written");
    }
    ledger.roll_up().await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM tallies").await, [0]);
    // Points of late ends are where they belong: each series ends with its last point, and never falls.
    let wrong = "SELECT count(*) FROM tally_series AS s WHERE NOT EXISTS (SELECT 1 FROM tally_points AS p \
                 WHERE p.chain = s.chain AND p.series = s.number AND p.hour = s.last_hour AND p.counts = s.counts)";
    assert_eq!(place.sql(wrong).await, [0]);
    let points = place.sql("SELECT count(*) FROM tally_points").await[0];
    assert!(points > 100, "{points}");
}

async fn a_summary_is_what_retention_left(place: &Place) {
    let store = place.store().await;
    let mut log = Log::new(7);
    let mut oldest = BEGIN_MS / HOUR_MS;
    for round in 1..=3 {
        let ledger = place.ledger(&store).await;
        log.go_on(&store, &ledger, 250).await;
        while !log.running.is_empty() {
            log.end(&ledger).await;
        }
        // In one round, retention also removes counts that have not moved.
        if round != 2 {
            ledger.roll_up().await.unwrap();
        }
        ledger.finish().await.unwrap();
        // The older half is removed. The age is that of the first minute of an hour, whose counts stay.
        let cutoff = (oldest + log.time_ms / HOUR_MS) / 2;
        let retention = removing_before(place, cutoff);
        let ledger = Ledger::start(&store, LedgerOptions { retention, ..place.options(1) }).await.unwrap();
        let before = log.ended.len();
        log.ended.retain(|fact| fact.hour >= cutoff);
        assert!(log.ended.len() < before && !log.ended.is_empty(), "round {round}");
        let old = |table: &str, hour: &str| format!("SELECT count(*) FROM {table} WHERE {hour} < {cutoff}");
        let is_done = async || {
            let found = store.summary(None, None).await.unwrap();
            let points = place.sql(&old("tally_points", "hour")).await;
            found.total == log.ended.len() as u64 && points == [0]
        };
        until("old counts are gone", is_done).await;
        log.check(&store).await;
        let left = [place.sql(&old("tally_hours", "hour")).await, place.sql(&old("tally_series", "last_hour")).await];
        assert_eq!(left, [[0], [0]], "round {round}");
        ledger.finish().await.unwrap();
        oldest = cutoff;
    }
    let bases = place.sql("SELECT count(*) FROM tally_series WHERE base IS NOT NULL").await[0];
    assert!(bases > 10, "{bases}");
}

/// The retention that removes everything before an hour. PostgreSQL deletes rows when they are a tenth older.
fn removing_before(place: &Place, hour: i64) -> Retention {
    let age = Duration::from_millis(u64::try_from(now_ms() - hour * HOUR_MS).unwrap());
    let age = if place.cluster.is_some() { age * 10 / 11 } else { age };
    Retention { records: Some(age), ..NO_RETENTION }
}

/// A reader finds every record once, also in the moment in which its count moves.
async fn counts_are_exact_while_they_move(place: &Place) {
    let (store, ledger) = place.open().await;
    let moving = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            let mut rounds = 0;
            while ledger.roll_up().await.is_ok() {
                rounds += 1;
            }
            rounds
        }
    });
    for n in 1..=300 {
        let record = NewRecord { time_ms: BEGIN_MS + i64::from(n) * HOUR_MS / 9, ..refusal(n) };
        ledger.append(record, WaitFor::Disk).await.unwrap();
        assert_eq!(store.summary(None, None).await.unwrap().total, u64::from(n));
        assert_eq!(store.summary(Some(BEGIN_MS), Some(BEGIN_MS + HOUR_MS * 99)).await.unwrap().total, u64::from(n));
    }
    ledger.finish().await.unwrap();
    let rounds = moving.await.unwrap();
    assert!(rounds > 10, "{rounds}");
    assert_eq!(store.summary(None, None).await.unwrap().total, 300);
}

async fn a_failed_move_changes_nothing(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..=20 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    let before = store.summary(None, None).await.unwrap();
    let (broken, mended) = if place.cluster.is_some() {
        let broken = "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full'; END $$; \
                      CREATE TRIGGER broken BEFORE INSERT ON tally_hours EXECUTE FUNCTION broken();";
        (broken, "DROP TRIGGER broken ON tally_hours")
    } else {
        let broken = "CREATE TRIGGER broken BEFORE INSERT ON tally_hours BEGIN SELECT raise(ABORT, 'full'); END;";
        (broken, "DROP TRIGGER broken")
    };
    place.sql(broken).await;
    ledger.roll_up().await.unwrap_err();
    assert_eq!(place.sql("SELECT count(*) FROM tally_points").await, [0]);
    assert_eq!(store.summary(None, None).await.unwrap(), before);
    // Calls go on.
    ledger.append(refusal(21), WaitFor::Disk).await.unwrap();
    place.sql(mended).await;
    ledger.roll_up().await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM tallies").await, [0]);
    assert_eq!(store.summary(None, None).await.unwrap().total, 21);
}

async fn chains_without_a_gateway_move_too(place: &Place) {
    let store = place.store().await;
    let other_place = Place::sqlite();
    let other = Ledger::start(&store, other_place.options(2)).await.unwrap();
    for n in 1..=3 {
        other.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    let ledger = place.ledger(&store).await;
    ledger.append(refusal(4), WaitFor::Disk).await.unwrap();
    ledger.roll_up().await.unwrap();
    // On PostgreSQL, the lock of a chain tells that its gateway runs. A SQLite database has one gateway.
    let left = if place.cluster.is_some() { vec![i64::from(other.chain())] } else { vec![] };
    assert_eq!(place.sql("SELECT DISTINCT chain FROM tallies").await, left);
    let name = other.verifier().chain().to_owned();
    other.finish().await.unwrap();
    // A gateway that was seen lately may come back, and needs its chain.
    store.announce_member(&announcement(&name), 1).await.unwrap();
    ledger.roll_up().await.unwrap();
    assert_eq!(place.sql("SELECT DISTINCT chain FROM tallies").await, left);
    store.remove_member(&name).await.unwrap();
    ledger.roll_up().await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM tallies").await, [0]);
    assert_eq!(place.sql("SELECT chain FROM tally_series ORDER BY chain").await, [0, 1]);
    let summary = store.summary(None, None).await.unwrap();
    assert_eq!((summary.total, summary.by_tool.len()), (4, 1));
    // The other gateway comes back, and goes on with its series.
    let other = Ledger::start(&store, other_place.options(2)).await.unwrap();
    other.append(refusal(5), WaitFor::Disk).await.unwrap();
    other.roll_up().await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM tally_series").await, [2]);
    assert_eq!(store.summary(None, None).await.unwrap().total, 5);
}

fn announcement(id: &str) -> Announcement {
    let word = String::new;
    Announcement {
        id: id.to_owned(),
        name: word(),
        address: word(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: word(),
        contracts: word(),
        policies: word(),
    }
}

/// A gateway that does not know series reads `tallies` only. It does not announce the schema that it knows.
async fn counts_wait_for_gateways_that_do_not_know_series(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    store.announce_member(&announcement("older"), 1).await.unwrap();
    place.sql("UPDATE gateways SET database_version = NULL").await;
    ledger.roll_up().await.unwrap();
    let stays = i64::from(place.cluster.is_some());
    assert_eq!(place.sql("SELECT count(*) FROM tallies").await, [stays]);
    store.remove_member("older").await.unwrap();
    // Another version that knows series changes nothing.
    let newer = Announcement { version: "99.0.0".to_owned(), ..announcement("newer") };
    store.announce_member(&newer, 1).await.unwrap();
    ledger.roll_up().await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM tallies").await, [0]);
    assert_eq!(store.summary(None, None).await.unwrap().total, 1);
}

/// A damaged series holds up neither other chains nor calls, and a summary says where it is.
async fn a_damaged_series_holds_up_its_own_chain_only(place: &Place) {
    let store = place.store().await;
    let options = || LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let other = Ledger::start(&store, options()).await.unwrap();
    other.append(refusal(1), WaitFor::Disk).await.unwrap();
    other.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.roll_up().await.unwrap();
    let malformed = if place.cluster.is_some() { "'\\xff'::bytea" } else { "x'ff'" };
    place.sql(&format!("UPDATE tally_series SET counts = {malformed} WHERE chain = {}", ledger.chain())).await;
    let other = Ledger::start(&store, options()).await.unwrap();
    other.append(refusal(3), WaitFor::Disk).await.unwrap();
    other.finish().await.unwrap();
    ledger.append(refusal(4), WaitFor::Disk).await.unwrap();
    ledger.roll_up().await.unwrap_err();
    let left = async || place.sql("SELECT DISTINCT chain FROM tallies").await == [i64::from(ledger.chain())];
    until("the counts of the other chain move", left).await;
    let error = store.summary(None, None).await.unwrap_err().to_string();
    assert!(error.contains(&format!("malformed counts in series 1 of chain {}", ledger.chain())), "{error}");
    ledger.append(refusal(5), WaitFor::Disk).await.unwrap();
}

/// A step removes 500 points. What comes after the last of them goes even if no point is left for the next step.
async fn whole_steps_of_retention_leave_nothing_behind(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.append(NewRecord { time_ms: BEGIN_MS, ..refusal(1) }, WaitFor::Disk).await.unwrap();
    ledger.roll_up().await.unwrap();
    ledger.finish().await.unwrap();
    let hour = BEGIN_MS / HOUR_MS;
    let points = format!(
        "WITH RECURSIVE hours (hour) AS (SELECT {hour} - 499 UNION ALL SELECT hour + 1 FROM hours WHERE hour < {hour} - 1) \
         INSERT INTO tally_points (chain, series, hour, counts) \
         SELECT p.chain, p.series, hours.hour, p.counts FROM tally_points AS p, hours"
    );
    place.sql(&points).await;
    assert_eq!(place.sql("SELECT count(*) FROM tally_points").await, [500]);
    let retention = removing_before(place, hour + 1);
    let ledger = Ledger::start(&store, LedgerOptions { retention, ..place.options(1) }).await.unwrap();
    let left = "SELECT (SELECT count(*) FROM tally_points) + (SELECT count(*) FROM tally_hours) \
                + (SELECT count(*) FROM tally_series)";
    until("all counts are gone", async || place.sql(left).await == [0]).await;
    ledger.finish().await.unwrap();
}

async fn a_copy_has_the_counts(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..=50 {
        let record = NewRecord { time_ms: BEGIN_MS + i64::from(n) * HOUR_MS, ..call(n) };
        let open = ledger.open(record, WaitFor::Disk).await.unwrap();
        ledger.close(open, success(), WaitFor::Disk).await.unwrap();
        if n == 40 {
            ledger.roll_up().await.unwrap();
        }
    }
    ledger.finish().await.unwrap();
    let copy = if place.cluster.is_some() { Place::sqlite() } else { Place::postgres() };
    let mut snapshot = store.snapshot().await.unwrap();
    let schema = snapshot.schema();
    let mut loader = Loader::begin(&copy.location, schema, Existing::Refuse).await.unwrap();
    while let Some(batch) = snapshot.next().await.unwrap() {
        loader.add(&batch.table, &batch.text).await.unwrap();
    }
    loader.finish().await.unwrap();
    let (copied, ledger) = copy.open().await;
    copied.end_after_restore(1).await.unwrap();
    for hours in [(None, None), (Some(30), None), (Some(10), Some(45))] {
        let at = |hour: Option<i64>| hour.map(|hour| BEGIN_MS + hour * HOUR_MS);
        let (since, until) = (at(hours.0), at(hours.1));
        let expected = store.summary(since, until).await.unwrap();
        assert_eq!(copied.summary(since, until).await.unwrap(), expected, "{hours:?}");
        assert!(expected.total > 0);
    }
    // The copy goes on with its series.
    ledger.append(NewRecord { time_ms: BEGIN_MS + 60 * HOUR_MS, ..refusal(99) }, WaitFor::Disk).await.unwrap();
    ledger.roll_up().await.unwrap();
    assert_eq!(copied.summary(None, None).await.unwrap().total, 51);
    assert_eq!(copy.sql("SELECT count(*) FROM tallies").await, [0]);
}
