//! Sealed session ids: every gateway can check one without a lookup.
//!
//! ```text
//! UID . SEALED        UID names the session in tables and messages between gateways
//!       └─ base64url( key number, 4 bytes ‖ nonce ‖ ciphertext ‖ tag )
//!                     └─ ["2025-11-25", 1790000000000, "claude-code 2.0", {"elicitation":{}}]
//! ```
//!
//! The content is what the handshake agreed on: revision, time, client and capabilities. It is encrypted with AES-256-GCM-SIV
//! and bound to the uid, the agent and the endpoint mode, so an id that another agent presents does not open. An id is not a
//! credential: the request's token is checked first, every time.
//!
//! The keys are in the database, so gateways that share one open each other's ids, and ids survive a restart. A new key is
//! made every `ROTATE_MS`. An older key opens until the ids that it sealed have expired.
//!
//! An id fits into a header: [`ID_MAX_BYTES`]. So a session keeps only the capabilities that the gateway uses, and shortens
//! the client's name ([`kept_capabilities`], [`kept_client`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpproxy_core::json::{members, quote};
use mcpproxy_store::{SealingKey, SessionKey, Store, StoreError};
use serde_json::value::RawValue;

use super::endpoint_mode::EndpointMode;
use crate::message::{field, object};

/// Longest session id that is read. Ids of this gateway are shorter.
pub(crate) const ID_MAX_BYTES: usize = 1536;
/// Time for which a gateway that does not know a session accepts its id.
pub(crate) const LIFETIME_MS: i64 = 7 * 24 * 3_600_000;
const ROTATE_MS: i64 = 24 * 3_600_000;
/// A key opens the ids that it sealed, until the last one has expired. The rest is for clocks that differ.
const KEEP_MS: i64 = LIFETIME_MS + 2 * ROTATE_MS;
/// Interval in which a gateway looks for a due rotation.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// Pause between two looks for a key that is not known here. Forged ids must not cost a statement each.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(1);
const UID_CHARS: usize = 32;
const KEY_NUMBER_BYTES: usize = 4;
const CAPABILITIES_MAX_BYTES: usize = 512;
const CLIENT_MAX_BYTES: usize = 192;

/// The result of a session's handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionContent {
    pub(crate) uid: String,
    pub(crate) revision: String,
    /// Milliseconds since 1970.
    pub(crate) began_ms: i64,
    pub(crate) client: Option<String>,
    pub(crate) capabilities: Arc<str>,
}

/// Seals and opens session ids with the keys of the database.
pub(crate) struct SessionIds {
    store: Store,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    /// Newest first.
    known: Arc<[(u32, SealingKey)]>,
    looked: Option<Instant>,
}

impl SessionIds {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, keys: Mutex::default() }
    }

    /// Seals the id of a new session. Returns `None` without a usable key.
    pub(crate) async fn seal(
        &self,
        agent: &str,
        endpoint_mode: &EndpointMode,
        content: &SessionContent,
        now_ms: i64,
    ) -> Result<Option<String>, StoreError> {
        let mut known = self.known();
        if known.is_empty() || self.is_due(LOOK_EVERY) {
            match self.look(now_ms).await {
                Ok(()) => known = self.known(),
                // A known key seals as well.
                Err(error) if known.is_empty() => return Err(error),
                Err(error) => tracing::debug!(%error, "could not look for new keys of sessions"),
            }
        }
        Ok(known.first().and_then(|(number, key)| seal(*number, key, (agent, endpoint_mode), content)))
    }

    /// Opens the id of a session. Returns `None` if it is for another agent or endpoint, was changed, or has expired.
    pub(crate) async fn open(
        &self,
        id: &str,
        agent: &str,
        endpoint_mode: &EndpointMode,
        now_ms: i64,
    ) -> Result<Option<SessionContent>, StoreError> {
        let Some((uid, number, sealed)) = parts(id) else { return Ok(None) };
        let mut known = self.known();
        if !known.iter().any(|(known, _)| *known == number) && self.is_due(UNKNOWN_PAUSE) {
            // Another gateway may have made a key since the last look.
            self.look(now_ms).await?;
            known = self.known();
        }
        let key = known.iter().find(|(known, _)| *known == number).map(|(_, key)| key);
        let content = key.and_then(|key| open(key, (agent, endpoint_mode), uid, &sealed));
        Ok(content.filter(|content| now_ms.saturating_sub(content.began_ms) < LIFETIME_MS))
    }

    async fn look(&self, now_ms: i64) -> Result<(), StoreError> {
        let keys = self.store.session_keys(now_ms, rand::random(), (ROTATE_MS, KEEP_MS)).await?;
        let usable = |key: &SessionKey| Some((key.number, SealingKey::from_bytes(&key.secret)?));
        let known = keys.iter().filter_map(usable).collect();
        *self.keys() = Keys { known, looked: Some(Instant::now()) };
        Ok(())
    }

    fn is_due(&self, pause: Duration) -> bool {
        self.keys().looked.is_none_or(|looked| looked.elapsed() >= pause)
    }

    fn known(&self) -> Arc<[(u32, SealingKey)]> {
        Arc::clone(&self.keys().known)
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the name of a new session.
pub(super) fn new_uid() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Returns the session's name in an id, without checking anything else.
pub(super) fn uid_of(id: &str) -> Option<&str> {
    let (uid, _) = id.split_once('.').filter(|_| id.len() <= ID_MAX_BYTES)?;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (uid.len() == UID_CHARS && uid.bytes().all(is_hex)).then_some(uid)
}

fn parts(id: &str) -> Option<(&str, u32, Vec<u8>)> {
    let uid = uid_of(id)?;
    let (_, sealed) = id.split_once('.')?;
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (number, sealed) = bytes.split_at_checked(KEY_NUMBER_BYTES)?;
    Some((uid, u32::from_be_bytes(number.try_into().ok()?), sealed.to_vec()))
}

fn seal(number: u32, key: &SealingKey, owner: (&str, &EndpointMode), content: &SessionContent) -> Option<String> {
    let client = content.client.as_deref().map_or_else(|| "null".to_owned(), quote);
    let SessionContent { uid, revision, began_ms, capabilities, .. } = content;
    let text = format!("[{},{began_ms},{client},{capabilities}]", quote(revision));
    let sealed = key.seal_session(&bound_to(owner, uid), &text)?;
    let bytes: Vec<u8> = number.to_be_bytes().into_iter().chain(sealed).collect();
    let id = format!("{uid}.{}", URL_SAFE_NO_PAD.encode(bytes));
    (id.len() <= ID_MAX_BYTES).then_some(id)
}

fn open(key: &SealingKey, owner: (&str, &EndpointMode), uid: &str, sealed: &[u8]) -> Option<SessionContent> {
    let text = key.open_session(&bound_to(owner, uid), sealed)?;
    let (revision, began_ms, client, capabilities): (String, i64, Option<String>, Box<RawValue>) =
        serde_json::from_str(&text).ok()?;
    let (uid, capabilities) = (uid.to_owned(), capabilities.get().into());
    Some(SessionContent { uid, revision, began_ms, client, capabilities })
}

/// Builds the associated data of a seal. Names of agents and servers contain no NUL.
fn bound_to((agent, endpoint_mode): (&str, &EndpointMode), uid: &str) -> String {
    let server = match endpoint_mode {
        EndpointMode::Server(name) => name.as_str(),
        EndpointMode::Four | EndpointMode::Direct => "",
    };
    format!("{uid}\0{agent}\0{}\0{server}", endpoint_mode.as_str())
}

/// Members of capabilities that the gateway uses, and the members of those that it knows.
const USED: [(&str, &[&str]); 3] =
    [("elicitation", &["form", "url"]), ("sampling", &["tools", "context"]), ("roots", &["listChanged"])];

/// Returns the capabilities that a session keeps. Those that are too large lose the details that the gateway does not know.
pub(super) fn kept_capabilities(capabilities: &str) -> String {
    let all = members(capabilities).unwrap_or_default();
    let used = USED.iter().filter_map(|(name, known)| Some((*name, field(&all, name)?, *known)));
    let whole = object(used.clone().map(|(name, value, _)| (name, value)));
    if whole.len() <= CAPABILITIES_MAX_BYTES {
        return whole;
    }
    let known: Vec<(&str, String)> = used
        .map(|(name, value, known)| {
            let details = members(value).unwrap_or_default();
            let known = known.iter().filter(|known| field(&details, known).is_some());
            (name, object(known.map(|known| (*known, "{}"))))
        })
        .collect();
    object(known.iter().map(|(name, value)| (*name, value.as_str())))
}

/// Returns the client's name as a session keeps it.
pub(super) fn kept_client(client: &str) -> String {
    let mut kept = String::new();
    for character in client.chars() {
        kept.push(character);
        if quote(&kept).len() > CLIENT_MAX_BYTES {
            kept.pop();
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpproxy_core::ServerName;
    use mcpproxy_store::Location;

    const NOW: i64 = 1_790_000_000_000;

    fn content() -> SessionContent {
        SessionContent {
            uid: new_uid(),
            revision: "2025-11-25".to_owned(),
            began_ms: NOW,
            client: Some("claude-code 2.0 \"é\"".to_owned()),
            capabilities: r#"{"elicitation":{"form":{}}}"#.into(),
        }
    }

    async fn store(folder: &tempfile::TempDir) -> Store {
        Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap()
    }

    #[tokio::test]
    async fn an_id_opens_on_every_gateway_for_its_agent_and_endpoint_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let (here, there) = (SessionIds::new(store.clone()), SessionIds::new(store));
        let content = content();
        let four = EndpointMode::Four;
        let id = here.seal("anna", &four, &content, NOW).await.unwrap().unwrap();
        assert_eq!(there.open(&id, "anna", &four, NOW).await.unwrap(), Some(content.clone()));
        let server = EndpointMode::Server(ServerName::parse("fx").unwrap());
        for (agent, mode) in [("ben", &four), ("anna", &EndpointMode::Direct), ("anna", &server)] {
            assert_eq!(there.open(&id, agent, mode, NOW).await.unwrap(), None, "{agent} {mode:?}");
        }
        let last = NOW + LIFETIME_MS - 1;
        assert!(there.open(&id, "anna", &four, last).await.unwrap().is_some());
        assert_eq!(there.open(&id, "anna", &four, last + 1).await.unwrap(), None, "expired");
        let another = here.seal("anna", &four, &content, NOW).await.unwrap().unwrap();
        assert_ne!(another, id, "a nonce is used once");
    }

    #[tokio::test]
    async fn a_changed_id_does_not_open() {
        let folder = tempfile::tempdir().unwrap();
        let ids = SessionIds::new(store(&folder).await);
        let four = EndpointMode::Four;
        let id = ids.seal("anna", &four, &content(), NOW).await.unwrap().unwrap();
        for at in 0..id.len() {
            let mut changed = id.clone().into_bytes();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(ids.open(&changed, "anna", &four, NOW).await.unwrap(), None, "byte {at}");
        }
        for length in 0..id.len() {
            assert_eq!(ids.open(id.get(..length).unwrap(), "anna", &four, NOW).await.unwrap(), None, "{length} bytes");
        }
        let long = format!("{id}{}", "A".repeat(ID_MAX_BYTES));
        for bad in [format!("{id}="), format!("{id} "), format!("{id}A"), long, "0123456789abcdef".to_owned()] {
            assert_eq!(ids.open(&bad, "anna", &four, NOW).await.unwrap(), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn an_id_of_another_database_does_not_open() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (ours, theirs) = (SessionIds::new(store(&here).await), SessionIds::new(store(&there).await));
        let four = EndpointMode::Four;
        let id = theirs.seal("anna", &four, &content(), NOW).await.unwrap().unwrap();
        assert!(ours.seal("anna", &four, &content(), NOW).await.unwrap().is_some());
        assert_eq!(ours.open(&id, "anna", &four, NOW).await.unwrap(), None);
    }

    #[tokio::test]
    async fn keys_are_rotated_and_old_ids_stay_valid() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let four = EndpointMode::Four;
        let ids = SessionIds::new(store.clone());
        let id = ids.seal("anna", &four, &content(), NOW).await.unwrap().unwrap();
        // Another gateway rotates. This one learns of the key when it meets an id of it.
        let other = SessionIds::new(store.clone());
        let later = NOW + ROTATE_MS;
        let fresh = SessionContent { began_ms: later, ..content() };
        let newer = other.seal("anna", &four, &fresh, later).await.unwrap().unwrap();
        assert_eq!(store.session_keys(later, [0; 32], (ROTATE_MS, KEEP_MS)).await.unwrap().len(), 2);
        assert!(other.open(&id, "anna", &four, later).await.unwrap().is_some());
        ids.keys().looked = None;
        assert_eq!(ids.open(&newer, "anna", &four, later).await.unwrap(), Some(fresh));
        let last = later + KEEP_MS + 1;
        let keys = store.session_keys(last, [1; 32], (ROTATE_MS, KEEP_MS)).await.unwrap();
        assert_eq!(keys.iter().map(|key| key.number).collect::<Vec<_>>(), [3], "keys of expired ids are removed");
    }

    #[test]
    fn a_session_keeps_the_capabilities_that_the_gateway_uses() {
        let check = |given: &str, expected: &str| assert_eq!(kept_capabilities(given), expected, "{given}");
        check("{}", "{}");
        check("null", "{}");
        check(
            r#"{"experimental":{"x":{}},"elicitation":{"form":{"applyDefaults":true}},"tasks":{}}"#,
            r#"{"elicitation":{"form":{"applyDefaults":true}}}"#,
        );
        let long = "x".repeat(CAPABILITIES_MAX_BYTES);
        check(
            &format!(r#"{{"sampling":{{"tools":{{"a":"{long}"}},"other":{{}}}},"roots":{{"listChanged":true}}}}"#),
            r#"{"sampling":{"tools":{}},"roots":{"listChanged":{}}}"#,
        );
    }

    #[tokio::test]
    async fn the_longest_content_fits_into_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let ids = SessionIds::new(store(&folder).await);
        for client in ["\u{1}".repeat(512), "é".repeat(512), "x".repeat(512)] {
            let filler = "x".repeat(CAPABILITIES_MAX_BYTES - r#"{"sampling":{"a":""}}"#.len());
            let capabilities = kept_capabilities(&format!(r#"{{"sampling":{{"a":"{filler}"}}}}"#));
            assert_eq!(capabilities.len(), CAPABILITIES_MAX_BYTES);
            let client = kept_client(&client);
            assert!(!client.is_empty() && quote(&client).len() <= CLIENT_MAX_BYTES);
            let content = SessionContent { client: Some(client), capabilities: capabilities.into(), ..content() };
            let agent = "x".repeat(64);
            let id = ids.seal(&agent, &EndpointMode::Four, &content, NOW).await.unwrap().unwrap();
            assert_eq!(ids.open(&id, &agent, &EndpointMode::Four, NOW).await.unwrap(), Some(content));
        }
    }
}
