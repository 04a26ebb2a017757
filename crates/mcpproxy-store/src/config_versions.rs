//! Versions of settings, contracts and policies, for all gateways of the database.
//!
//! A version never changes. Only a user can publish one: [`Store::publish_version`] takes the proof that the user is
//! present. A version follows the newest one that its user has read. If another one came first, nothing is stored, so two
//! users never overwrite each other's changes unread.
//!
//! The table keeps the newest [`VERSIONS_MAX`] versions.

use mcpproxy_core::Digest;

use crate::sql::columns::Columns;
use crate::sql::{Connection, Row, Statement, Value};
use crate::{PresenceProof, Store, StoreError};

/// Versions that are kept.
const VERSIONS_MAX: i64 = 100;
const READING: &str = "read the published settings, contracts and policies";
const CHANGING: &str = "publish settings, contracts and policies";
const HEAD: &str = "number, published_ms, published_by, summary, digest";

/// Names and texts of files, sorted by name, such as `mcp_config.json` and `contracts/mail.yaml`.
pub type ConfigFiles = Vec<(String, String)>;

/// A version without its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionHead {
    pub number: i64,
    pub published_ms: i64,
    /// The name of the user.
    pub published_by: String,
    pub summary: String,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigVersion {
    pub head: VersionHead,
    pub files: ConfigFiles,
}

/// Files to publish.
#[derive(Clone, Debug)]
pub struct NewVersion<'f> {
    /// The number of the newest version that the user has compared with. 0 if there was none.
    pub after: i64,
    pub summary: &'f str,
    pub files: &'f ConfigFiles,
}

/// Hashes names and texts. Each is preceded by its length, so that different files never give the same bytes.
pub fn files_digest(files: &[(String, String)]) -> String {
    let mut bytes = Vec::new();
    for part in files.iter().flat_map(|(name, text)| [name, text]) {
        bytes.extend(part.len().to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    Digest::of(&bytes).to_string()
}

impl Store {
    /// Stores files as the newest version, in the name of the user. Returns its number, or `None` if another version came
    /// first.
    pub async fn publish_version(
        &self,
        new: &NewVersion<'_>,
        user: &PresenceProof,
        now_ms: i64,
    ) -> Result<Option<i64>, StoreError> {
        let number = new.after.saturating_add(1);
        let content = serde_json::to_string(new.files).map_err(|error| StoreError::corrupt(error.to_string()))?;
        // Of two users at once, the second finds the number taken.
        let insert = "INSERT INTO config_versions (number, published_ms, published_by, summary, digest, files) \
                      SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT coalesce(max(number), 0) FROM config_versions) = $7 \
                      ON CONFLICT (number) DO NOTHING";
        let digest = files_digest(new.files);
        let values = vec![
            Value::int(number),
            Value::int(now_ms),
            Value::text(user.user().name()),
            Value::text(new.summary),
            Value::text(&digest),
            Value::text(&content),
            Value::int(new.after),
        ];
        let insert = Statement::new(insert, values);
        let trim = Statement::new(
            "DELETE FROM config_versions WHERE number <= $1",
            vec![Value::int(number.saturating_sub(VERSIONS_MAX))],
        );
        let write = async |connection: &mut Connection| {
            let inserted = connection.execute(insert).await?;
            if inserted > 0 {
                connection.execute(trim).await?;
            }
            Ok(inserted)
        };
        let inserted = self.database().write(write, CHANGING).await?;
        Ok((inserted > 0).then_some(number))
    }

    /// Lists all versions, newest first.
    pub async fn list_versions(&self) -> Result<Vec<VersionHead>, StoreError> {
        let sql = format!("SELECT {HEAD} FROM config_versions ORDER BY number DESC LIMIT $1");
        let rows = self.database().fetch(Statement::new(sql, vec![Value::int(VERSIONS_MAX)]), READING).await?;
        rows.iter().map(|row| head(&columns(row))).collect()
    }

    /// Returns the newest version without its files.
    pub async fn newest_version(&self) -> Result<Option<VersionHead>, StoreError> {
        let sql = format!("SELECT {HEAD} FROM config_versions ORDER BY number DESC LIMIT 1");
        let row = self.database().fetch_first(Statement::plain(&sql), READING).await?;
        row.map(|row| head(&columns(&row))).transpose()
    }

    /// Returns a version with its files.
    pub async fn find_version(&self, number: i64) -> Result<Option<ConfigVersion>, StoreError> {
        let sql = format!("SELECT {HEAD}, files FROM config_versions WHERE number = $1");
        let row = self.database().fetch_first(Statement::new(sql, vec![Value::int(number)]), READING).await?;
        row.map(|row| version(&row)).transpose()
    }
}

fn columns(row: &Row) -> Columns<'_> {
    Columns::of(row, "a malformed version of settings, contracts and policies")
}

fn head(columns: &Columns<'_>) -> Result<VersionHead, StoreError> {
    Ok(VersionHead {
        number: columns.number(0)?,
        published_ms: columns.number(1)?,
        published_by: columns.word(2)?,
        summary: columns.word(3)?,
        digest: columns.word(4)?,
    })
}

fn version(row: &Row) -> Result<ConfigVersion, StoreError> {
    let columns = columns(row);
    let head = head(&columns)?;
    let malformed = || StoreError::corrupt(format!("version {} of the settings, contracts and policies", head.number));
    let files: ConfigFiles = serde_json::from_str(&columns.word(5)?).map_err(|_| malformed())?;
    // Files that somebody changed in place were confirmed by no user.
    if files_digest(&files) != head.digest {
        return Err(malformed());
    }
    Ok(ConfigVersion { head, files })
}
