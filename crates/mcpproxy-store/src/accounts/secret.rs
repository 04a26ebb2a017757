//! Secrets: made from random bytes that the caller passes in, and stored as SHA-256 digests only.

use sha2::{Digest as _, Sha256};

use crate::sql::columns::Columns;
use crate::sql::{Statement, Value};
use crate::text::hex;
use crate::{Store, StoreError};

const DOING: &str = "share a secret between gateways";

impl Store {
    /// Returns the secret that all gateways of this database share. The first caller's `random` becomes the secret.
    pub async fn shared_secret(&self, name: &str, random: [u8; 32]) -> Result<[u8; 32], StoreError> {
        if let Some(secret) = self.find_shared_secret(name).await? {
            return Ok(secret);
        }
        let sql = "INSERT INTO shared_secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        let insert = Statement::new(sql, vec![Value::text(name), Value::bytes(&random)]);
        self.database().change(insert, DOING).await?;
        self.find_shared_secret(name).await?.ok_or_else(|| StoreError::corrupt("a shared secret that is missing"))
    }

    async fn find_shared_secret(&self, name: &str) -> Result<Option<[u8; 32]>, StoreError> {
        let sql = "SELECT secret FROM shared_secrets WHERE name = $1";
        let row = self.database().fetch_first(Statement::new(sql, vec![Value::text(name)]), DOING).await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns::of(&row, "a shared secret of an unexpected size");
        let secret = columns.bytes(0)?.and_then(|secret| secret.try_into().ok());
        secret.map(Some).ok_or_else(|| columns.corrupt())
    }
}

/// The prefix, followed by every byte as two hexadecimal digits.
pub(super) fn secret(prefix: &str, random: [u8; 32]) -> String {
    format!("{prefix}{}", hex(&random))
}

pub(super) fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_contains_every_byte() {
        let mut random = [0; 32];
        random[0] = 0xab;
        random[31] = 0x07;
        assert_eq!(secret("mcp_", random), format!("mcp_ab{}07", "00".repeat(30)));
    }
}
