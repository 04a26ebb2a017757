//! Sign-ins of the gateway at servers that ask for OAuth: sealed tokens, and the lease to renew them.
//!
//! The store does not know what is sealed. A [`SealingKey`] encrypts it with AES-256-GCM-SIV and binds it to the server's
//! identity, so a row that is copied to another server cannot be opened. A backup of the database without `sealing.key`
//! has no usable token.
//!
//! Several gateways share the rows. A refresh token often works once, so only one gateway may use it: the one that holds
//! the lease. A lease ends by itself, because its holder may have crashed.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use sha2::{Digest as _, Sha256};

use crate::sql::columns::Columns;
use crate::sql::{Row, Statement, Value};
use crate::text::{from_hex, hex};
use crate::{Store, StoreError};

const READING: &str = "read the sign-in of a server";
const CHANGING: &str = "change the sign-in of a server";
const WHAT: &str = "a malformed sign-in of a server";
const CONTEXT: &str = "mcpproxy server sign-in";
const SESSION_CONTEXT: &str = "mcpproxy agent session";
const KEY_ID_BYTES: usize = 8;

/// The key that encrypts tokens, from `sealing.key` of the data folder.
pub struct SealingKey {
    key: RandomizedNonceKey,
    id: String,
}

impl SealingKey {
    /// Returns `None` if the crypto library rejects the key.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let digest = Sha256::new().chain_update(b"mcpproxy sealing key id").chain_update(bytes).finalize();
        let id = hex(digest.get(..KEY_ID_BYTES)?);
        Some(Self { key: RandomizedNonceKey::new(&AES_256_GCM_SIV, bytes).ok()?, id })
    }

    /// Reads the content of `sealing.key`: 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&from_hex(text.trim())?.try_into().ok()?)
    }

    /// Names the key, without revealing it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts a text for the server of this identity. Returns `None` if the system has no random numbers.
    pub fn seal(&self, identity: &str, text: &str) -> Option<Vec<u8>> {
        self.seal_for(bound_to(CONTEXT, identity), text)
    }

    /// Encrypts the content of a session id. Only the same `owner` can open it.
    pub fn seal_session(&self, owner: &str, text: &str) -> Option<Vec<u8>> {
        self.seal_for(bound_to(SESSION_CONTEXT, owner), text)
    }

    fn seal_for(&self, bound_to: Aad<String>, text: &str) -> Option<Vec<u8>> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = self.key.seal_in_place_append_tag(bound_to, &mut sealed).ok()?;
        Some(nonce.as_ref().iter().copied().chain(sealed).collect())
    }

    /// Decrypts a text. Returns `None` if it was sealed with another key or for another server, or was changed.
    pub fn open(&self, identity: &str, sealed: &[u8]) -> Option<String> {
        self.open_for(bound_to(CONTEXT, identity), sealed)
    }

    /// Decrypts the content of a session id. Returns `None` if it was sealed with another key or for another owner, or was
    /// changed.
    pub fn open_session(&self, owner: &str, sealed: &[u8]) -> Option<String> {
        self.open_for(bound_to(SESSION_CONTEXT, owner), sealed)
    }

    fn open_for(&self, bound_to: Aad<String>, sealed: &[u8]) -> Option<String> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        let text = self.key.open_in_place(nonce, bound_to, &mut rest).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }
}

fn bound_to(context: &str, owner: &str) -> Aad<String> {
    Aad::from(format!("{context}\0{owner}"))
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id)
    }
}

/// A stored sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSignIn {
    pub version: i64,
    pub key_id: String,
    pub sealed: Vec<u8>,
    /// The user who signed in. `None` for the gateway itself.
    pub signed_in_by: Option<String>,
    pub signed_in_ms: i64,
}

/// A sign-in to store, in place of an earlier one.
#[derive(Clone, Debug)]
pub struct NewServerSignIn<'a> {
    pub identity: &'a str,
    pub server: &'a str,
    pub key_id: &'a str,
    pub sealed: &'a [u8],
    pub signed_in_by: Option<&'a str>,
}

impl Store {
    /// Returns the sign-in at a server.
    pub async fn server_sign_in(&self, identity: &str) -> Result<Option<SealedSignIn>, StoreError> {
        let sql = "SELECT version, key_id, sealed, signed_in_by, signed_in_ms FROM server_sign_ins WHERE identity = $1";
        let row = self.database().fetch_first(Statement::new(sql, vec![Value::text(identity)]), READING).await?;
        row.as_ref().map(read).transpose()
    }

    /// Returns the version of a sign-in, to notice changes by other gateways.
    pub async fn server_sign_in_version(&self, identity: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT version FROM server_sign_ins WHERE identity = $1";
        let row = self.database().fetch_first(Statement::new(sql, vec![Value::text(identity)]), READING).await?;
        row.map(|row| Columns::of(&row, WHAT).number(0)).transpose()
    }

    /// Stores a sign-in. Versions are times, so that a row that was removed in between has no earlier version.
    pub async fn save_server_sign_in(&self, new: &NewServerSignIn<'_>, now_ms: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO server_sign_ins \
             (identity, server, version, key_id, sealed, signed_in_by, signed_in_ms, lease_holder, lease_until_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $3, NULL, 0) \
             ON CONFLICT (identity) DO UPDATE SET server = excluded.server, key_id = excluded.key_id, \
             sealed = excluded.sealed, signed_in_by = excluded.signed_in_by, signed_in_ms = excluded.signed_in_ms, \
             version = CASE WHEN server_sign_ins.version >= excluded.version THEN server_sign_ins.version + 1 \
             ELSE excluded.version END";
        let values = vec![
            Value::text(new.identity),
            Value::text(new.server),
            Value::int(now_ms),
            Value::text(new.key_id),
            Value::bytes(new.sealed),
            Value::optional_text(new.signed_in_by),
        ];
        self.database().change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    /// Replaces the sealed text of a sign-in after its token was renewed. Returns false if another version is stored: then
    /// a user has signed in or out meanwhile, and the renewed token belongs to nobody.
    pub async fn renew_server_sign_in(
        &self,
        identity: &str,
        version: i64,
        (key_id, sealed): (&str, &[u8]),
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE server_sign_ins SET key_id = $3, sealed = $4, \
             version = CASE WHEN version >= $5 THEN version + 1 ELSE $5 END WHERE identity = $1 AND version = $2";
        let values = vec![
            Value::text(identity),
            Value::int(version),
            Value::text(key_id),
            Value::bytes(sealed),
            Value::int(now_ms),
        ];
        Ok(self.database().change(Statement::new(sql, values), CHANGING).await? > 0)
    }

    /// Removes a sign-in. Returns false if there is none.
    pub async fn remove_server_sign_in(&self, identity: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM server_sign_ins WHERE identity = $1";
        Ok(self.database().change(Statement::new(sql, vec![Value::text(identity)]), CHANGING).await? > 0)
    }

    /// Removes a sign-in, unless another version is stored.
    pub async fn remove_server_sign_in_version(&self, identity: &str, version: i64) -> Result<bool, StoreError> {
        let sql = "DELETE FROM server_sign_ins WHERE identity = $1 AND version = $2";
        let values = vec![Value::text(identity), Value::int(version)];
        Ok(self.database().change(Statement::new(sql, values), CHANGING).await? > 0)
    }

    /// Takes the right to renew a token until `until_ms`. Returns false while another gateway has it, or if there is no
    /// sign-in.
    pub async fn lease_server_sign_in(
        &self,
        identity: &str,
        holder: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE server_sign_ins SET lease_holder = $2, lease_until_ms = $4 WHERE identity = $1 \
             AND (lease_holder IS NULL OR lease_holder = $2 OR lease_until_ms <= $3)";
        let values = vec![Value::text(identity), Value::text(holder), Value::int(now_ms), Value::int(until_ms)];
        Ok(self.database().change(Statement::new(sql, values), CHANGING).await? > 0)
    }

    /// Gives the right to renew a token back.
    pub async fn release_server_sign_in(&self, identity: &str, holder: &str) -> Result<(), StoreError> {
        let sql = "UPDATE server_sign_ins SET lease_holder = NULL WHERE identity = $1 AND lease_holder = $2";
        let values = vec![Value::text(identity), Value::text(holder)];
        self.database().change(Statement::new(sql, values), CHANGING).await.map(drop)
    }
}

fn read(row: &Row) -> Result<SealedSignIn, StoreError> {
    let columns = Columns::of(row, WHAT);
    Ok(SealedSignIn {
        version: columns.number(0)?,
        key_id: columns.word(1)?,
        sealed: columns.bytes(2)?.ok_or_else(|| columns.corrupt())?,
        signed_in_by: columns.text(3)?,
        signed_in_ms: columns.number(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_belongs_to_one_key_and_one_server() {
        let (ours, other) = (SealingKey::from_bytes(&[1; 32]).unwrap(), SealingKey::from_bytes(&[2; 32]).unwrap());
        let sealed = ours.seal("a", "the token").unwrap();
        assert_eq!(ours.open("a", &sealed).as_deref(), Some("the token"));
        assert_eq!(ours.open("b", &sealed), None, "another server");
        assert_eq!(other.open("a", &sealed), None, "another key");
        assert_eq!(ours.open_session("a", &sealed), None, "another purpose");
        assert_ne!(ours.seal("a", "the token").unwrap(), sealed, "a nonce is used once");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(ours.open("a", &changed), None, "byte {at}");
        }
        for short in 0..sealed.len() {
            assert_eq!(ours.open("a", &sealed[..short]), None, "{short} bytes");
        }
        let leaked = sealed.windows(5).any(|window| window == b"token");
        assert!(!leaked && !format!("{ours:?}").contains("01"), "{ours:?}");
    }

    #[test]
    fn keys_are_64_digits() {
        assert_eq!(
            SealingKey::from_hex(&"01".repeat(32)).unwrap().id(),
            SealingKey::from_bytes(&[1; 32]).unwrap().id()
        );
        for bad in ["", "01", &"0g".repeat(32)] {
            assert!(SealingKey::from_hex(bad).is_none(), "{bad}");
        }
    }
}
