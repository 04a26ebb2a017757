//! Sessions of PostgreSQL that are of no more use, although their connection may still be open.
//!
//! After a failover, the old primary may come back as a standby. A session that survived this can read, maybe old data,
//! and can never write again. A new session reaches the new primary. So a session that is read-only or that the server
//! has ended is dropped, and another is opened.

use sqlx::PgConnection;

use super::driver::Statement;

/// Asks whether the session can only read. 1 means yes.
const IS_READ_ONLY: &str =
    "SELECT CASE WHEN current_setting('transaction_read_only') = 'on' THEN 1::bigint ELSE 0::bigint END";
/// Read-only transaction; session ended by an administrator, a crash, the start of the server, or a timeout.
const ENDED_CODES: [&str; 6] = ["25006", "57P01", "57P02", "57P03", "57P05", "25P03"];
/// The class of connection exceptions.
const CONNECTION_CLASS: &str = "08";

pub(crate) fn is_read_only() -> Statement {
    Statement::plain(IS_READ_ONLY)
}

/// Tells if no statement after this error can succeed in the same session.
pub(crate) fn is_over(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| ENDED_CODES.contains(&code.as_ref()) || code.starts_with(CONNECTION_CLASS))
}

/// Tells the pool whether a connection that was idle may be used again. An error means no, too.
pub(super) async fn may_be_used(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let read_only: i64 = sqlx::query_scalar(IS_READ_ONLY).fetch_one(connection).await?;
    Ok(read_only == 0)
}
