//! Brings a database to the version this program knows, or refuses it.

use std::path::Path;

use sqlx::{Connection as _, SqliteConnection};

use crate::StoreError;

/// Step `n` makes version `n + 1` and says so itself, in its last line.
const STEPS: &[&str] = &[include_str!("0001_tokens_and_records.sql")];
const KNOWN: i64 = STEPS.len() as i64;
const DOING: &str = "bring the database to the current version";

pub(super) async fn run(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    if version(connection).await? == KNOWN {
        return Ok(());
    }
    // Two processes may come here at once: the second waits, and finds the work done.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(StoreError::while_trying(DOING))?;
    let found = version(&mut transaction).await?;
    if found > KNOWN {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: KNOWN });
    }
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*step).execute(&mut *transaction).await.map_err(StoreError::while_trying(DOING))?;
    }
    transaction.commit().await.map_err(StoreError::while_trying(DOING))
}

/// For those who only read, and so cannot bring a database anywhere.
pub(super) async fn check(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    match version(connection).await? {
        found if found > KNOWN => Err(StoreError::Newer { path: path.to_owned(), found, known: KNOWN }),
        found if found < KNOWN => Err(StoreError::NotReady { path: path.to_owned() }),
        _ => Ok(()),
    }
}

async fn version(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(connection)
        .await
        .map_err(StoreError::while_trying("read the version of the database"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_step_names_the_version_it_makes() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for (index, step) in STEPS.iter().enumerate() {
            sqlx::raw_sql(*step).execute(&mut connection).await.unwrap();
            assert_eq!(version(&mut connection).await.unwrap(), index as i64 + 1);
        }
    }
}
