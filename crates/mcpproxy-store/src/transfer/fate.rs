//! The fate of every table: whether it is in a copy of the database, and what a restore does with it.
//!
//! A copy has every table by default, because the list of tables comes from the schema. A *move* to another database
//! changes nothing else. A *restore* is different: it sets the database back to an earlier time. A permission that was
//! used or revoked since would be valid again. So everything that is meant to be used once, or that lets somebody act
//! without signing in again, ends with a restore. Accounts and tokens stay: without them, nobody could use what was
//! restored.
//!
//! A test compares [`FATES`] with the schema, so that a new table needs a decision.

use crate::sql::{Connection, Statement, Value};
use crate::{Store, StoreError};

/// The fate of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In every copy, and after a restore as it was.
    Kept,
    /// In every copy. A restore removes its rows.
    Removed,
    /// In every copy. A restore ends its rows with this statement, whose value is the time.
    Ended(&'static str),
    /// In no copy.
    LeftOut,
}

const END_APPROVALS: &str = "UPDATE approvals SET state = 'cancelled', args = NULL, attached = NULL, decided_ms = $1 \
     WHERE state IN ('pending', 'approved')";
const END_GRANTS: &str = "UPDATE grants SET revoked_ms = $1, revoked_by = 'mcpproxy restore' WHERE revoked_ms IS NULL";
/// All tables, ordered by name.
const FATES: [(&str, Fate); 47] = [
    // Decisions of users, which the log of before the restore tells of.
    ("accepted_pins", Fate::Kept),
    // One that was used, denied or cancelled after the backup must not be open again.
    ("approvals", Fate::Ended(END_APPROVALS)),
    ("approvals_version", Fate::Kept),
    // Failed attempts expire within minutes. Without them, a restore would be one more round of guesses.
    ("attempts", Fate::Kept),
    // A gateway writes the position at which it continues its chain.
    ("chain_heads", Fate::LeftOut),
    ("chains", Fate::Kept),
    // Half of a sign-in with a passkey.
    ("challenges", Fate::Removed),
    ("checkpoints", Fate::Kept),
    // A call that ran before the backup must not run again when it is repeated.
    ("claims", Fate::Kept),
    ("config_versions", Fate::Kept),
    // A preview from before the restore says nothing about the servers of now.
    ("dry_runs", Fate::Removed),
    // The position goes back with the chain. So everything after it is exported again, and nothing is left out.
    ("exports", Fate::Kept),
    // Gateways that run now announce themselves again within seconds.
    ("gateways", Fate::LeftOut),
    // A standing approval that was revoked or used up after the backup must not be valid again.
    ("grants", Fate::Ended(END_GRANTS)),
    // One that was used after the backup would be valid again.
    ("invitations", Fate::Removed),
    // Not yet in the log of the backup, so the next gateway records them.
    ("operator_actions", Fate::Kept),
    ("operator_files", Fate::Kept),
    ("passkeys", Fate::Kept),
    ("past_pins", Fate::Kept),
    ("payload_hours", Fate::Kept),
    ("payloads", Fate::Kept),
    ("pinned_servers", Fate::Kept),
    ("pins_version", Fate::Kept),
    // Of partitions, which a copy does not have. Gateways sign them again.
    ("planned_removals", Fate::LeftOut),
    // Limits go on after a move. After a restore, they expire like the calls that they count.
    ("rate_calls", Fate::Kept),
    ("records", Fate::Kept),
    // Without the codes, a user who lost the second factor could not sign in to what was restored.
    ("recovery_codes", Fate::Kept),
    // Answers and cancellations on their way between running gateways. They expire within seconds.
    ("replica_messages", Fate::LeftOut),
    // Computed from the records. The next gateway computes them again, in the background.
    ("search_blocks", Fate::LeftOut),
    ("search_postings", Fate::LeftOut),
    // Sealed with `sealing.key`, which a backup has. A token that was renewed since is refused by its server, and a user
    // signs in again.
    ("server_sign_ins", Fate::Kept),
    // MCP sessions go on after a move. After a restore, one that the agent has ended would be open again. Without the
    // keys, no session id opens, and agents begin new sessions by themselves.
    ("session_changes", Fate::Removed),
    ("session_keys", Fate::Removed),
    ("session_subscriptions", Fate::Removed),
    // Sessions of users, which may have been signed out since.
    ("sessions", Fate::Removed),
    ("shared_secrets", Fate::Kept),
    // Users who were sent to the identity provider and have not come back.
    ("sign_ins", Fate::Removed),
    ("stubs", Fate::Kept),
    ("tallies", Fate::Kept),
    ("tally_hours", Fate::Kept),
    ("tally_points", Fate::Kept),
    ("tally_series", Fate::Kept),
    ("tokens", Fate::Kept),
    ("tokens_version", Fate::Kept),
    // Computed from the texts of tools. The next gateway computes them again, in the background.
    ("tool_vectors", Fate::LeftOut),
    ("users", Fate::Kept),
    ("waiting_pins", Fate::Kept),
];

/// Tells if a copy has the rows of a table. A table without a decision is copied.
pub(super) fn is_copied(table: &str) -> bool {
    FATES.iter().all(|(name, fate)| *name != table || *fate != Fate::LeftOut)
}

impl Store {
    /// Ends what must not outlive a restore, such as sessions, open approval requests and standing approvals.
    pub async fn end_after_restore(&self, now_ms: i64) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        for (table, fate) in FATES {
            match fate {
                Fate::Kept => {}
                Fate::Ended(sql) => statements.push(Statement::new(sql, vec![Value::int(now_ms)])),
                // A copy has no rows of a table that is left out. A database that was restored by hand may have some.
                Fate::Removed | Fate::LeftOut => {
                    statements.push(Statement::new(format!("DELETE FROM \"{table}\""), Vec::new()));
                }
            }
        }
        statements.push(Statement::plain("UPDATE approvals_version SET version = version + 1"));
        let write = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(write, "end sessions and approvals").await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sql::bulk::Column;
    use crate::sql::{connect, tables, whole};
    use crate::{Existing, Loader, Location};

    #[tokio::test]
    async fn every_table_of_the_schema_has_a_fate() {
        let tables = tables::of_version(whole::SCHEMA).await.unwrap();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(FATES.map(|(name, _)| name).as_slice(), names);
    }

    /// Writes one row to every table, whatever it means.
    async fn fill(location: &Location) {
        let mut connection = connect(location).await.unwrap();
        connection.run("PRAGMA ignore_check_constraints = ON").await.unwrap();
        for table in tables::of_version(whole::SCHEMA).await.unwrap() {
            let value = |kind| match kind {
                Column::Int => Value::int(7),
                Column::Text => Value::text("x"),
                Column::Bytes => Value::bytes(&[7; 32]),
            };
            let values: Vec<Value> = table.columns.iter().map(|column| value(column.kind)).collect();
            let places = vec!["?"; values.len()].join(", ");
            let sql = format!("INSERT INTO \"{}\" ({}) VALUES ({places})", table.name, table.column_list());
            connection.run(&format!("DELETE FROM \"{}\"", table.name)).await.unwrap();
            connection.execute(Statement::new(sql, values)).await.unwrap();
        }
        connection.close().await.unwrap();
    }

    async fn tables_with_rows(store: &Store) -> BTreeSet<String> {
        let mut snapshot = store.snapshot().await.unwrap();
        let mut names = BTreeSet::new();
        while let Some(batch) = snapshot.next().await.unwrap() {
            names.insert(batch.table);
        }
        names
    }

    fn with(wanted: fn(Fate) -> bool) -> BTreeSet<String> {
        FATES.into_iter().filter(|(_, fate)| wanted(*fate)).map(|(name, _)| name.to_owned()).collect()
    }

    #[tokio::test]
    async fn a_restore_keeps_exactly_the_tables_that_may_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from.db", "to.db"].map(|name| Location::Sqlite(folder.path().join(name)));
        let source = Store::open(&from).await.unwrap();
        fill(&from).await;
        let copied = tables_with_rows(&source).await;
        assert_eq!(copied, with(|fate| fate != Fate::LeftOut));
        let mut loader = Loader::begin(&to, whole::SCHEMA, Existing::Refuse).await.unwrap();
        let mut snapshot = source.snapshot().await.unwrap();
        // The schema of SQLite checks what the rows of this test do not respect.
        loader.ignore_checks().await;
        while let Some(batch) = snapshot.next().await.unwrap() {
            loader.add(&batch.table, &batch.text).await.unwrap();
        }
        loader.finish().await.unwrap();
        let restored = Store::open(&to).await.unwrap();
        assert_eq!(tables_with_rows(&restored).await, copied);
        restored.end_after_restore(1).await.unwrap();
        let stays = |fate| matches!(fate, Fate::Kept | Fate::Ended(_));
        assert_eq!(tables_with_rows(&restored).await, with(stays));
    }
}
