//! Limits failed attempts to prove an identity, for all gateways of one database together.
//!
//! Two things are counted within a minute: failures of a **name**, and failures from an **address**. They have different
//! effects, because strangers choose names, while users and attackers may share an address (a proxy, or `127.0.0.1`).
//!
//! | count | reached | effect |
//! |---|---|---|
//! | name | 5 failures | further attempts with this name are refused for the rest of the minute |
//! | address | 30 failures | further attempts from this address get [`Pace::Slow`], and one failure per name |
//!
//! So an address that tries many names is slowed down and gets one guess per name and minute. A user at the same address
//! whose name has no failure is never refused. Refusing the whole address would let anyone lock out everyone behind a
//! proxy.
//!
//! [`Store::count_attempt`] counts a failure *before* the attempt is made, and success takes it back. Parallel attempts
//! therefore cannot exceed a limit, on whichever gateways they are made. A refused attempt is not counted, so that an
//! attacker who goes on cannot lock out the owner of a name for longer than the minute.
//!
//! Names are not checked against the users, so that an answer does not reveal which ones exist. Rows are digests. They
//! expire after a minute, and there are at most [`ROWS_MAX`] of them. Beyond that the oldest are removed: to get five more
//! guesses in this way, an attacker has to make ten thousand other attempts within a minute.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use crate::sql::columns::Columns;
use crate::sql::{Connection, Dialect, Row, Statement, Value};
use crate::{Store, StoreError, User};

const WINDOW_MS: i64 = 60_000;
const OF_ONE_NAME: i64 = 5;
/// Failures of one name from an address that is slowed down.
const OF_ONE_NAME_SLOW: i64 = 1;
const OF_ONE_ADDRESS: i64 = 30;
const ROWS_MAX: usize = 10_000;
/// Rows to remove with each attempt. More than an attempt adds.
const CLEANED_ROWS: usize = 100;
/// Serializes the attempts at all gateways. In SQLite, transactions that write are serialized anyway.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7163470115)";
const READING: &str = "look up failed attempts to sign in";
const CHANGING: &str = "count failed attempts to sign in";
const FIND: &str = "SELECT subject, since_ms, failures FROM attempts WHERE subject IN ($1, $2)";

/// An attempt to prove an identity.
#[derive(Clone, Copy)]
pub enum Attempt<'a> {
    /// A stranger at this address sent a name and a password. For IPv6, pass the network: a stranger has all of it.
    SignIn { name: &'a str, address: IpAddr },
    /// A signed-in user typed their password again. Counts as an attempt to sign in with this name.
    Password(&'a User),
    /// A signed-in user sent a second factor. Counted apart, so that strangers cannot use up a user's attempts.
    Factor(&'a User),
}

/// The answer to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    Admitted(Pace),
    /// The name has too many failures.
    TooMany {
        wait_ms: i64,
    },
}

/// The treatment of an admitted attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Normal,
    /// The address has many failures. Its attempts are made one after the other.
    Slow,
}

impl Attempt<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::SignIn { name, .. } => name,
            Self::Password(user) | Self::Factor(user) => user.name(),
        }
    }
}

impl Store {
    /// Returns what `count_attempt` would return, without counting.
    pub async fn check_attempt(&self, attempt: Attempt<'_>, now_ms: i64) -> Result<Admission, StoreError> {
        let subjects = Subjects::of(attempt);
        let rows = self.database().fetch(subjects.find(), READING).await?;
        Ok(subjects.admit(&counts(&rows)?, now_ms).0)
    }

    /// Counts a failure, unless the attempt is refused. Call `forgive_attempt` if the attempt succeeds.
    pub async fn count_attempt(&self, attempt: Attempt<'_>, now_ms: i64) -> Result<Admission, StoreError> {
        let subjects = Subjects::of(attempt);
        let count = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            let rows = connection.fetch(subjects.find()).await?;
            let counts = match counts(&rows) {
                Ok(counts) => counts,
                Err(error) => return Ok(Err(error)),
            };
            let (admission, changed) = subjects.admit(&counts, now_ms);
            if !changed.is_empty() {
                for statement in changed.iter().map(Count::save).chain(clean(now_ms, CLEANED_ROWS)) {
                    connection.execute(statement).await?;
                }
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(Ok(admission))
        };
        self.database().write(count, CHANGING).await?
    }

    /// Takes back the failure that `count_attempt` counted, after a success. The name starts again from zero. The address
    /// does not: an attacker may have an account, too.
    pub async fn forgive_attempt(&self, attempt: Attempt<'_>) -> Result<(), StoreError> {
        let Subjects { name, address } = Subjects::of(attempt);
        let forget = Statement::new("DELETE FROM attempts WHERE subject = $1", vec![Value::bytes(&name)]);
        let reduce = "UPDATE attempts SET failures = failures - 1 WHERE subject = $1 AND failures > 0";
        let reduce = address.map(|address| Statement::new(reduce, vec![Value::bytes(&address)]));
        let forgive = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            for statement in [forget].into_iter().chain(reduce) {
                connection.execute(statement).await?;
            }
            connection.execute(Statement::plain("COMMIT")).await.map(drop)
        };
        self.database().write(forgive, CHANGING).await
    }

    /// Removes expired rows. Attempts do so too, but the last ones are followed by none.
    pub(crate) async fn remove_old_attempts(&self, now_ms: i64) -> Result<u64, StoreError> {
        let [expired, _surplus] = clean(now_ms, ROWS_MAX);
        let remove = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            let removed = connection.execute(expired).await?;
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(removed)
        };
        self.database().write(remove, CHANGING).await
    }
}

type Subject = [u8; 32];

/// The rows that an attempt counts in.
struct Subjects {
    name: Subject,
    address: Option<Subject>,
}

/// A row of the table.
#[derive(Clone, Copy)]
struct Count {
    subject: Subject,
    since_ms: i64,
    failures: i64,
}

impl Subjects {
    fn of(attempt: Attempt<'_>) -> Self {
        // The kinds differ in their first word, so that a name cannot collide with an address.
        let digest = |kind: &str, text: &str| Sha256::digest(format!("{kind} {text}")).into();
        match attempt {
            Attempt::SignIn { name, address } => {
                Self { name: digest("name", name), address: Some(digest("address", &address.to_string())) }
            }
            Attempt::Password(user) => Self { name: digest("name", user.name()), address: None },
            Attempt::Factor(user) => Self { name: digest("factor", user.name()), address: None },
        }
    }

    fn find(&self) -> Statement {
        let subjects = [self.name, self.address.unwrap_or(self.name)];
        Statement::new(FIND, subjects.iter().map(|subject| Value::bytes(subject)).collect())
    }

    /// Decides on an attempt. Returns the rows as they are with one more failure, and none if the attempt is refused.
    fn admit(&self, counts: &[Count], now_ms: i64) -> (Admission, Vec<Count>) {
        let current = |subject: Subject| {
            let found = counts.iter().find(|count| count.subject == subject && count.is_current(now_ms)).copied();
            found.unwrap_or(Count { subject, since_ms: now_ms, failures: 0 })
        };
        let (name, address) = (current(self.name), self.address.map(current));
        let pace = match address {
            Some(address) if address.failures >= OF_ONE_ADDRESS => Pace::Slow,
            Some(_) | None => Pace::Normal,
        };
        let most = match pace {
            Pace::Normal => OF_ONE_NAME,
            Pace::Slow => OF_ONE_NAME_SLOW,
        };
        if name.failures >= most {
            let wait_ms = (name.since_ms + WINDOW_MS - now_ms).clamp(1, WINDOW_MS);
            return (Admission::TooMany { wait_ms }, Vec::new());
        }
        (Admission::Admitted(pace), [name].into_iter().chain(address).map(Count::one_more).collect())
    }
}

impl Count {
    /// A row from the future is left over from a clock that was set back. It must not lock anyone out until then.
    fn is_current(&self, now_ms: i64) -> bool {
        let age_ms = now_ms.saturating_sub(self.since_ms);
        (-WINDOW_MS..WINDOW_MS).contains(&age_ms)
    }

    fn one_more(self) -> Self {
        Self { failures: self.failures.saturating_add(1), ..self }
    }

    fn save(&self) -> Statement {
        let sql = "INSERT INTO attempts (subject, since_ms, failures) VALUES ($1, $2, $3) \
                   ON CONFLICT (subject) DO UPDATE SET since_ms = excluded.since_ms, failures = excluded.failures";
        Statement::new(sql, vec![Value::bytes(&self.subject), Value::int(self.since_ms), Value::int(self.failures)])
    }
}

fn counts(rows: &[Row]) -> Result<Vec<Count>, StoreError> {
    let count = |row| {
        let columns = Columns::of(row, "a malformed count of failed attempts");
        let subject = columns.bytes(0)?.and_then(|subject| subject.try_into().ok());
        let subject = subject.ok_or_else(|| columns.corrupt())?;
        Ok(Count { subject, since_ms: columns.number(1)?, failures: columns.number(2)? })
    };
    rows.iter().map(count).collect()
}

/// Removes expired rows, and the oldest ones if there are too many. Each statement removes at most `limit` rows.
fn clean(now_ms: i64, limit: usize) -> [Statement; 2] {
    let expired = "DELETE FROM attempts WHERE subject IN \
                   (SELECT subject FROM attempts WHERE since_ms <= $1 ORDER BY since_ms LIMIT $2)";
    let surplus = "DELETE FROM attempts WHERE subject IN \
                   (SELECT subject FROM attempts ORDER BY since_ms DESC LIMIT $1 OFFSET $2)";
    [
        Statement::new(expired, vec![Value::int(now_ms.saturating_sub(WINDOW_MS)), Value::limit(limit)]),
        Statement::new(surplus, vec![Value::limit(limit), Value::limit(ROWS_MAX)]),
    ]
}

async fn begin_alone(connection: &mut Connection) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    match connection.dialect() {
        Dialect::Sqlite => Ok(()),
        Dialect::Postgres => connection.run(POSTGRES_LOCK).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const SUBJECTS: Subjects = Subjects { name: [1; 32], address: Some([2; 32]) };

    fn check(name: Option<(i64, i64)>, address: Option<(i64, i64)>, expected: Admission) {
        let count = |subject, row: (i64, i64)| Count { subject: [subject; 32], since_ms: NOW - row.0, failures: row.1 };
        let rows: Vec<Count> =
            [name.map(|row| count(1, row)), address.map(|row| count(2, row))].into_iter().flatten().collect();
        let (admission, changed) = SUBJECTS.admit(&rows, NOW);
        assert_eq!(admission, expected, "{name:?} {address:?}");
        assert_eq!(changed.is_empty(), matches!(admission, Admission::TooMany { .. }), "a refusal is not counted");
    }

    #[test]
    fn names_are_refused_and_addresses_are_slowed_down() {
        let (normal, slow) = (Admission::Admitted(Pace::Normal), Admission::Admitted(Pace::Slow));
        let wait = |wait_ms| Admission::TooMany { wait_ms };
        check(None, None, normal);
        check(Some((1, 4)), None, normal);
        check(Some((1_000, 5)), None, wait(59_000));
        check(Some((59_999, 5)), None, wait(1));
        check(Some((60_000, 5)), None, normal);
        check(None, Some((1_000, 29)), normal);
        check(None, Some((1_000, 30)), slow);
        check(None, Some((1_000, 1_000_000)), slow);
        check(Some((60_000, 5)), Some((1_000, 30)), slow);
        check(Some((2_000, 1)), Some((1_000, 30)), wait(58_000));
        check(Some((2_000, 1)), Some((60_000, 30)), normal);
        // A clock that was set back.
        check(Some((-3_600_000, 5)), Some((-3_600_000, 30)), normal);
        check(Some((-1_000, 5)), None, wait(60_000));
    }

    #[test]
    fn a_name_is_not_an_address() {
        let of = |name: &str| Subjects::of(Attempt::SignIn { name, address: IpAddr::from([127, 0, 0, 1]) });
        let (one, other) = (of("127.0.0.1"), of("address 127.0.0.1"));
        assert_ne!(Some(one.name), one.address);
        assert_ne!(Some(other.name), other.address);
    }
}
