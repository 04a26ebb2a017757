//! Sign-ins at an identity provider that are under way.
//!
//! A user leaves for the provider and comes back with a code and our `state`. The row of that `state` proves three things:
//! this gateway began the sign-in, in the same browser (its cookie), and the answer is the first one. Taking a row removes
//! it, so no answer works twice.
//!
//! Anyone can begin a sign-in, so the rows are bounded: [`PEER_MAX`] for one address and [`ROWS_MAX`] in total. Beyond
//! that, the oldest row of the same address makes room, and only then the oldest of all. The limit of an address is high,
//! because all users behind a proxy share one.
//!
//! A step-up belongs to a session. Its cookie does not come back from the provider (`SameSite=Strict`), so the row has the
//! digest of the session. The proof is stored with that session, and works once, for one purpose.

use std::net::IpAddr;

use super::secret::digest;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::text::hex;
use crate::{StepUpProof, Store, StoreError, User};

const PEER_MAX: usize = 1_000;
const ROWS_MAX: usize = 10_000;
/// Rows to remove with each new one.
const CLEANED_ROWS: usize = 100;
const CHANGING: &str = "change the table of sign-ins";

/// A sign-in that begins.
pub struct NewSignIn<'a> {
    /// The `state` parameter.
    pub state: &'a str,
    /// The cookie that binds the sign-in to its browser.
    pub browser: &'a str,
    pub address: IpAddr,
    /// The session that wants a step-up.
    pub session_secret: Option<&'a str>,
    /// The invitation of the setup link.
    pub invitation: Option<&'a str>,
    /// Everything that is needed when the user comes back.
    pub data: &'a str,
}

/// A sign-in whose user came back.
#[derive(Clone, PartialEq, Eq)]
pub struct TakenSignIn {
    pub data: String,
    pub session: Option<SessionDigest>,
    pub invitation: Option<InvitationDigest>,
}

/// Names a session without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDigest(Vec<u8>);

/// Names an invitation without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationDigest(pub(super) Vec<u8>);

impl Store {
    /// Stores a sign-in that begins.
    pub async fn begin_sign_in(&self, new: &NewSignIn<'_>, now_ms: i64, ttl_ms: i64) -> Result<(), StoreError> {
        let peer = digest(&format!("address {}", new.address));
        let optional = |secret: Option<&str>| secret.map_or(Value::Bytes(None), |secret| Value::bytes(&digest(secret)));
        let sql = "INSERT INTO sign_ins (state, browser, peer, session, invitation, data, created_ms, expires_ms) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let values = vec![
            Value::bytes(&digest(new.state)),
            Value::bytes(&digest(new.browser)),
            Value::bytes(&peer),
            optional(new.session_secret),
            optional(new.invitation),
            Value::text(new.data),
            Value::int(now_ms),
            Value::int(now_ms.saturating_add(ttl_ms)),
        ];
        let expired = "DELETE FROM sign_ins WHERE state IN \
                       (SELECT state FROM sign_ins WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)";
        let of_peer = "DELETE FROM sign_ins WHERE state IN \
                       (SELECT state FROM sign_ins WHERE peer = $1 ORDER BY created_ms DESC LIMIT $2 OFFSET $3)";
        let surplus = "DELETE FROM sign_ins WHERE state IN \
                       (SELECT state FROM sign_ins ORDER BY expires_ms DESC LIMIT $1 OFFSET $2)";
        let statements = vec![
            Statement::new(sql, values),
            Statement::new(expired, vec![Value::int(now_ms), Value::limit(CLEANED_ROWS)]),
            Statement::new(of_peer, vec![Value::bytes(&peer), Value::limit(CLEANED_ROWS), Value::limit(PEER_MAX)]),
            Statement::new(surplus, vec![Value::limit(CLEANED_ROWS), Value::limit(ROWS_MAX)]),
        ];
        let begin = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(begin, CHANGING).await
    }

    /// Removes and returns a sign-in that this browser began. A wrong browser leaves it in place: strangers must not end
    /// the sign-ins of others.
    pub async fn take_sign_in(
        &self,
        state: &str,
        browser: &str,
        now_ms: i64,
    ) -> Result<Option<TakenSignIn>, StoreError> {
        let sql = "DELETE FROM sign_ins WHERE state = $1 AND browser = $2 AND expires_ms > $3 \
                   RETURNING data, session, invitation";
        let values = vec![Value::bytes(&digest(state)), Value::bytes(&digest(browser)), Value::int(now_ms)];
        let take = async |connection: &mut Connection| connection.fetch(Statement::new(sql, values)).await;
        let rows = self.database().write(take, CHANGING).await?;
        let taken = |row| {
            let columns = Columns::of(row, "a malformed sign-in");
            Ok(TakenSignIn {
                data: columns.word(0)?,
                session: columns.bytes(1)?.map(SessionDigest),
                invitation: columns.bytes(2)?.map(InvitationDigest),
            })
        };
        rows.first().map(taken).transpose()
    }

    /// Stores that the user of a session has just signed in at the provider for this purpose, if it is their session.
    /// Returns `false` if it is another user's session, or if it has ended.
    pub async fn save_provider_proof(
        &self,
        session: &SessionDigest,
        user_name: &str,
        purpose: &str,
        proof: &str,
        expires_ms: i64,
    ) -> Result<bool, StoreError> {
        let sql = "INSERT INTO challenges (session, purpose, state, expires_ms) \
                   SELECT hash, $3, $4, $5 FROM sessions WHERE hash = $1 AND user_name = $2 \
                   ON CONFLICT (session, purpose) DO UPDATE SET state = excluded.state, expires_ms = excluded.expires_ms";
        let texts = [user_name, &kept_as(purpose), &hex(&digest(proof))].map(Value::text);
        let values = [Value::bytes(&session.0)].into_iter().chain(texts).chain([Value::int(expires_ms)]).collect();
        Ok(self.database().change(Statement::new(sql, values), CHANGING).await? > 0)
    }

    /// Spends the proof of a sign-in at the provider. Returns `None` if it is wrong, used, expired or for another purpose.
    pub async fn use_provider_proof(
        &self,
        user: &User,
        session_secret: &str,
        proof: &str,
        purpose: &str,
        now_ms: i64,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let sql = "DELETE FROM challenges WHERE session = $1 AND purpose = $2 AND state = $3 AND expires_ms > $4";
        let texts = [&kept_as(purpose), &hex(&digest(proof))].map(|text| Value::text(text));
        let session = Value::bytes(&digest(session_secret));
        let values = [session].into_iter().chain(texts).chain([Value::int(now_ms)]).collect();
        Ok(self.change_users(sql, values).await?.then(|| StepUpProof::of(user, purpose)))
    }
}

/// Separates these proofs from the challenges of passkeys, which the same table holds.
fn kept_as(purpose: &str) -> String {
    format!("provider {purpose}")
}
