//! One update of the index: removes blocks whose lines were removed, and adds blocks until all chains are indexed.
//!
//! A chain is indexed in whole blocks. What is left at its end, its *tail*, is read by searches themselves. A tail
//! becomes a short block in three cases:
//!
//! | case | tails that become blocks |
//! |---|---|
//! | the chain has no new line for an hour | from 128 lines on |
//! | that, and more than 32 chains have a tail | all of them |
//! | all tails together have more than 5,000 lines | from 128 lines on, also of busy chains |
//!
//! Without the last two, a database with many gateways would have so many lines to read that searches go without the
//! index. Without a least length, a gateway with a call from time to time would get a block for each call.
//!
//! The hour is measured with the clock of this task. The keys of a chain have the clock of the gateway that writes it,
//! which may be wrong. They only tell at the first look, when nothing else is known.
//!
//! Each block has the hash of the chain at its end. Before the first block is added, that hash is compared with the
//! chain. If they differ, the log is not the one that was indexed, and the chain is indexed from its beginning.
//!
//! The index must not take the room that `limits.disk` leaves for records:
//!
//! | used | the index |
//! |---|---|
//! | up to 80 % | grows |
//! | from 80 % | stays as it is; blocks of removed lines still go |
//! | when records are refused | is removed until they are accepted again |
//!
//! Each block is one transaction, in which the index goes from one complete state to the next. An update can be stopped
//! at any moment, and goes on later where it was.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::block::{BlockOutcome, LINES_MAX, add_block};
use super::find::{TAIL_MAX, TAILS_MAX};
use crate::log::disk::Room;
use crate::log::restore::hash_at;
use crate::log::sql::search::{ChainIndex, forget_chain, remove_block, remove_postings, take_lock};
use crate::sql::{Connection, Database};
use crate::{Ledger, Store, StoreError};

/// A chain without a new line for so long is idle.
const IDLE: Duration = Duration::from_secs(3600);
const IDLE_MS: i64 = 3_600_000;
/// The shortest tail that becomes a block, unless there are too many tails.
const SHORT_MIN: i64 = 128;

/// The state of the task between two updates. Each map has at most one entry for each chain.
#[derive(Default)]
pub(super) struct Updater {
    /// Chains whose last block was compared with the log.
    checked: HashSet<u16>,
    ends: HashMap<u16, ChainEnd>,
    /// The log that must work while the index is written, and the pause after each transaction.
    beside: Option<(Ledger, Duration)>,
}

/// The end of a chain as this task saw it.
struct ChainEnd {
    seq: i64,
    /// The look at which this end was new. `None` if the chain was idle at the first look.
    since: Option<Instant>,
}

/// The outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateOutcome {
    /// Another gateway writes the index.
    NotMine,
    Done {
        added: u64,
        /// The number of chains that were looked at.
        chains: usize,
    },
}

/// A look at all chains.
struct Look {
    chains: usize,
    with_work: Vec<ChainIndex>,
    tails: Tails,
}

/// The lines that are left when all whole blocks are added, of all chains.
#[derive(Clone, Copy)]
struct Tails {
    are_many: bool,
    are_long: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

impl Store {
    /// Brings the search index up to date. Returns the number of blocks that it added. It does nothing if another gateway
    /// is at it.
    pub async fn update_search_index(&self, now_ms: i64) -> Result<u64, StoreError> {
        match Updater::default().run(self, now_ms).await? {
            UpdateOutcome::NotMine => Ok(0),
            UpdateOutcome::Done { added, .. } => Ok(added),
        }
    }
}

impl Updater {
    pub(super) fn beside(ledger: Ledger, pause: Duration) -> Self {
        Self { beside: Some((ledger, pause)), ..Self::default() }
    }

    pub(super) async fn run(&mut self, store: &Store, now_ms: i64) -> Result<UpdateOutcome, StoreError> {
        let database = store.database();
        if self.room() == Room::Full {
            self.make_room(database).await?;
            return Ok(UpdateOutcome::Done { added: 0, chains: 0 });
        }
        let Look { chains, with_work, .. } = self.look(database, now_ms).await?;
        let mut added = 0;
        if with_work.is_empty() {
            return Ok(UpdateOutcome::Done { added, chains });
        }
        let mut connection = database.writing_connection().await?;
        let is_mine = take_lock(&mut connection).await?;
        if is_mine {
            // Again, because another gateway may have done the work before it released the lock.
            let Look { with_work, tails, .. } = self.look(database, now_ms).await?;
            for chain in with_work {
                let (blocks, next) = self.update(database, &mut connection, chain, tails, now_ms).await?;
                added += blocks;
                if next == Next::Stop {
                    break;
                }
            }
        }
        connection.close().await.map_err(StoreError::while_trying("close the search index"))?;
        Ok(if is_mine { UpdateOutcome::Done { added, chains } } else { UpdateOutcome::NotMine })
    }

    async fn look(&mut self, database: &Database, now_ms: i64) -> Result<Look, StoreError> {
        let mut chains = database.chain_indexes().await?;
        let now = Instant::now();
        self.watch_ends(&chains, now, now_ms);
        let (count, tails) = (chains.len(), Tails::of(&chains));
        chains.retain(|chain| self.has_work(chain, tails, now));
        Ok(Look { chains: count, with_work: chains, tails })
    }

    fn watch_ends(&mut self, chains: &[ChainIndex], now: Instant, now_ms: i64) {
        for chain in chains {
            let was_idle = chain.newest.is_none_or(|newest| now_ms.saturating_sub(newest.time_ms()) >= IDLE_MS);
            let first = ChainEnd { seq: chain.end, since: Some(now).filter(|_| !was_idle) };
            let known = self.ends.entry(chain.chain).or_insert(first);
            if known.seq != chain.end {
                *known = ChainEnd { seq: chain.end, since: Some(now) };
            }
        }
    }

    fn has_work(&self, chain: &ChainIndex, tails: Tails, now: Instant) -> bool {
        let is_unchecked = chain.block_end.is_some() && !self.checked.contains(&chain.chain);
        is_unchecked || has_removed(chain) || self.next(chain, tails, now).is_some()
    }

    /// The last position of the next block. `None` if there are too few lines for one, or no room.
    fn next(&self, chain: &ChainIndex, tails: Tails, now: Instant) -> Option<i64> {
        let tail = chain.tail();
        let is_idle = || {
            let since = self.ends.get(&chain.chain).and_then(|end| end.since);
            since.is_none_or(|since| now.duration_since(since) >= IDLE)
        };
        let is_due = tail >= LINES_MAX
            || (tail >= SHORT_MIN && (tails.are_long || is_idle()))
            || (tail > 0 && tails.are_many && is_idle());
        (is_due && self.room() == Room::Enough).then(|| chain.end.min(chain.indexed_to() + LINES_MAX))
    }

    /// Updates one chain. Returns the number of blocks that it added.
    async fn update(
        &mut self,
        database: &Database,
        connection: &mut Connection,
        mut chain: ChainIndex,
        tails: Tails,
        now_ms: i64,
    ) -> Result<(u64, Next), StoreError> {
        let mut added = 0;
        // One block at a time: SQLite overwrites what it deletes, and calls wait for that.
        while has_removed(&chain)
            && let Some(first_seq) = database.removed_block(chain.chain, chain.removed).await?
        {
            remove_block(connection, chain.chain, first_seq).await?;
            if self.pause().await == Next::Stop {
                return Ok((added, Next::Stop));
            }
        }
        if !self.checked.contains(&chain.chain) {
            if !is_of_this_log(database, &chain).await? {
                tracing::info!(chain = chain.chain, "the search index is not of this log, so it is built again");
                forget(connection, &mut chain).await?;
            }
            self.checked.insert(chain.chain);
        }
        while let Some(last) = self.next(&chain, tails, Instant::now()) {
            match add_block(database, connection, &mut chain, last, now_ms).await? {
                BlockOutcome::Added => added += 1,
                BlockOutcome::Gap => {
                    tracing::warn!(chain = chain.chain, "the search index has a gap, so it is built again");
                    forget(connection, &mut chain).await?;
                }
            }
            if self.pause().await == Next::Stop {
                return Ok((added, Next::Stop));
            }
        }
        Ok((added, Next::GoOn))
    }

    /// Removes the index until records are accepted again. The blocks of a chain go at once, so that no search relies on
    /// the rest. Their postings, which take the space, go one block after the other.
    async fn make_room(&self, database: &Database) -> Result<(), StoreError> {
        for chain in database.chain_indexes().await? {
            let Some(mut first_seq) = database.oldest_postings(chain.chain).await? else { continue };
            let mut connection = database.writing_connection().await?;
            if chain.block_end.is_some() {
                tracing::warn!(
                    chain = chain.chain,
                    "the database has reached `limits.disk`, so the search index is removed; searches read the records"
                );
                forget_chain(&mut connection, chain.chain).await?;
            }
            loop {
                remove_postings(&mut connection, chain.chain, first_seq).await?;
                if self.pause().await == Next::Stop || self.room() != Room::Full {
                    return connection.close().await.map_err(StoreError::while_trying("close the search index"));
                }
                match database.oldest_postings(chain.chain).await? {
                    Some(next) => first_seq = next,
                    None => break,
                }
            }
            connection.close().await.map_err(StoreError::while_trying("close the search index"))?;
        }
        Ok(())
    }

    /// Pauses after a transaction, and tells if the log works. A log that fails needs what there is.
    async fn pause(&self) -> Next {
        let Some((ledger, pause)) = &self.beside else { return Next::GoOn };
        sleep(*pause).await;
        if ledger.is_writable() { Next::GoOn } else { Next::Stop }
    }

    fn room(&self) -> Room {
        self.beside.as_ref().map_or(Room::Enough, |(ledger, _)| ledger.room())
    }
}

impl Tails {
    fn of(chains: &[ChainIndex]) -> Self {
        let lengths = || chains.iter().map(|chain| chain.tail() % LINES_MAX).filter(|length| *length > 0);
        Self { are_many: lengths().count() > TAILS_MAX / 2, are_long: lengths().sum::<i64>() > TAIL_MAX / 2 }
    }
}

fn has_removed(chain: &ChainIndex) -> bool {
    chain.oldest_block_end.is_some_and(|end| end <= chain.removed)
}

/// Compares the hash of the newest block with the chain. A position that retention removed tells nothing.
async fn is_of_this_log(database: &Database, chain: &ChainIndex) -> Result<bool, StoreError> {
    let Some((last, hash)) = database.newest_block(chain.chain).await? else { return Ok(true) };
    if last > chain.end {
        return Ok(false);
    }
    let now = hash_at(database, chain.chain, last).await?;
    Ok(hash.is_empty() || now.is_none_or(|now| now[..] == hash[..]))
}

async fn forget(connection: &mut Connection, chain: &mut ChainIndex) -> Result<(), StoreError> {
    forget_chain(connection, chain.chain).await?;
    (chain.oldest_block_end, chain.block_end, chain.build) = (None, None, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::settings::Retention;

    use super::*;
    use crate::{Health, Kind, LedgerOptions, Location, NewRecord, SigningKey, Status, WaitFor};

    const MIB: u64 = 1024 * 1024;

    fn chain(number: u16, end: i64, newest_ms: i64) -> ChainIndex {
        ChainIndex {
            chain: number,
            removed: 0,
            end,
            newest: Some(crate::record::id::Key::at(newest_ms)),
            oldest_block_end: None,
            block_end: None,
            build: None,
        }
    }

    /// Looks at these chains. Returns the end of the next block of each.
    fn next(updater: &mut Updater, chains: &[ChainIndex], now: Instant, now_ms: i64) -> Vec<Option<i64>> {
        updater.watch_ends(chains, now, now_ms);
        let tails = Tails::of(chains);
        chains.iter().map(|chain| updater.next(chain, tails, now)).collect()
    }

    /// The clock of a gateway may be wrong by hours. Its chain is idle only if this task sees nothing new for an hour.
    #[test]
    fn a_wrong_clock_makes_no_short_blocks() {
        let (mut updater, begin) = (Updater::default(), Instant::now());
        let now_ms = 1_000 * IDLE_MS;
        let (ahead_ms, behind_ms) = (now_ms + 2 * IDLE_MS, now_ms - 2 * IDLE_MS);
        assert_eq!(
            next(&mut updater, &[chain(0, 200, behind_ms), chain(1, 200, ahead_ms)], begin, now_ms),
            [Some(200), None]
        );
        for look in 1..10 {
            let now = begin + Duration::from_secs(2) * look;
            let chains = [chain(0, 200 + i64::from(look), behind_ms), chain(1, 200, ahead_ms)];
            assert_eq!(next(&mut updater, &chains, now, now_ms), [None, None], "look {look}");
        }
        let chains = [chain(0, 209, behind_ms), chain(1, 200, ahead_ms)];
        assert_eq!(next(&mut updater, &chains, begin + IDLE, now_ms), [None, Some(200)], "by the clock of this task");
    }

    #[test]
    fn few_lines_become_a_block_only_if_there_are_many_tails() {
        let now_ms = 1_000 * IDLE_MS;
        let check = |chains: Vec<ChainIndex>, blocks: usize| {
            let found = next(&mut Updater::default(), &chains, Instant::now(), now_ms);
            assert_eq!(found.iter().flatten().count(), blocks, "{} chains", chains.len());
        };
        check((0..32).map(|number| chain(number, 127, 0)).collect(), 0);
        check((0..33).map(|number| chain(number, 127, 0)).collect(), 33);
        check((0..33).map(|number| chain(number, 127, now_ms)).collect(), 0);
        check((0..9).map(|number| chain(number, 512, now_ms)).collect(), 0);
        check((0..10).map(|number| chain(number, 512, now_ms)).collect(), 10);
        // A log that is not indexed yet has whole blocks, which are no reason for short ones.
        check(vec![chain(0, 1_024_000, now_ms), chain(1, 500, now_ms)], 1);
    }

    async fn count(database: &Database, table: &str) -> i64 {
        let statement = crate::sql::Statement::new(format!("SELECT count(*) FROM {table}"), Vec::new());
        let row = database.fetch_first(statement, "count").await.unwrap().unwrap();
        row.int(0).unwrap().unwrap()
    }

    async fn until_room(ledger: &Ledger, room: Room) {
        let waiting = async {
            while ledger.room() != room {
                sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "never {room:?}");
    }

    /// `limits.disk` is for records. The index grows while there is plenty, and goes when calls would be refused.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_index_takes_no_room_from_records() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let options = LedgerOptions {
            key: SigningKey::from_seed(&[1; 32]).unwrap(),
            newest_checkpoint: None,
            checkpoints_to: None,
            retention: Retention { payloads: None, payload_bytes: None, records: None },
            patience: Duration::from_secs(20),
            now_ms: || 1,
        };
        let ledger = Ledger::start(&store, options).await.unwrap();
        for n in 0..2_100 {
            let record = NewRecord::blank(Kind::Refusal, Status::Refused, 1, n);
            ledger.append(NewRecord { message: Some(format!("text {n}")), ..record }, WaitFor::Queue).await.unwrap();
        }
        ledger.append(NewRecord::blank(Kind::Refusal, Status::Refused, 1, 2_100), WaitFor::Disk).await.unwrap();
        let database = store.database();
        let mut connection = database.writing_connection().await.unwrap();
        connection.run("CREATE TABLE ballast (x BLOB); INSERT INTO ballast VALUES (zeroblob(50331648))").await.unwrap();
        connection.close().await.unwrap();
        let mut updater = Updater::beside(ledger.clone(), Duration::ZERO);
        // Of 60 MiB, 80 % are used by the ballast alone. From 52 MiB on, records are refused.
        ledger.limit_disk(60 * MIB);
        until_room(&ledger, Room::Scarce).await;
        assert_eq!(updater.run(&store, 1).await.unwrap(), UpdateOutcome::Done { added: 0, chains: 1 });
        ledger.limit_disk(200 * MIB);
        until_room(&ledger, Room::Enough).await;
        assert_eq!(updater.run(&store, 1).await.unwrap(), UpdateOutcome::Done { added: 2, chains: 1 });
        assert!(count(database, "search_postings").await > 0);
        ledger.limit_disk(50 * MIB);
        until_room(&ledger, Room::Full).await;
        assert_ne!(ledger.health(), Health::Well);
        updater.run(&store, 1).await.unwrap();
        let left = (count(database, "search_blocks").await, count(database, "search_postings").await);
        assert_eq!(left, (0, 0));
        ledger.finish().await.unwrap();
    }
}
