//! One identity provider: its metadata and keys, read when needed and kept.
//!
//! Nothing is read at start, so a gateway starts while its provider is down. The first token reads the keys. After
//! that:
//!
//! - Keys older than `REFRESH_AFTER` are read again in the background, and the known ones serve meanwhile.
//! - A token with an unknown key id makes the keys be read at once, because the provider may have rotated them. All
//!   such tokens together cause at most one request per `RETRY_AFTER`, so invented key ids cannot flood the provider.
//! - If the provider cannot be reached, known keys serve for `KEEP_FOR`. After that, every token is refused.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;

use crate::address::{self, AddressError};
use crate::claims::Claims;
use crate::error::{ProviderError, RETRY_AFTER};
use crate::fetch::Fetch;
use crate::keys::{Key, KeySet};
use crate::metadata::{self, Metadata};
use crate::token::{self, TokenError, TokenHeader};

const REFRESH_AFTER: Duration = Duration::from_secs(10 * 60);
const KEEP_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Age at which metadata is read again.
const METADATA_FOR: Duration = Duration::from_secs(60 * 60);

/// An identity provider that the operator named in the settings.
pub struct Provider {
    issuer: String,
    fetch: Fetch,
    metadata: Mutex<KnownMetadata>,
    keys: ArcSwapOption<KeySet>,
    /// Held during a request for keys, so that there is one at a time.
    refreshing: Mutex<()>,
    last_try: SyncMutex<Option<Instant>>,
}

/// The last metadata, and the last failure to read it.
#[derive(Default)]
struct KnownMetadata {
    read: Option<(Instant, Arc<Metadata>)>,
    failed: Option<Instant>,
}

impl Provider {
    /// Creates a provider. Checks the address of the issuer, and sends no request.
    pub fn new(issuer: &str) -> Result<Arc<Self>, AddressError> {
        address::check_url(issuer)?;
        Ok(Arc::new(Self {
            issuer: issuer.to_owned(),
            fetch: Fetch::for_operator(),
            metadata: Mutex::default(),
            keys: ArcSwapOption::default(),
            refreshing: Mutex::default(),
            last_try: SyncMutex::default(),
        }))
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the client for further requests to this provider, such as for tokens.
    pub fn fetch(&self) -> Fetch {
        self.fetch
    }

    /// Returns the provider's metadata, read at most once an hour. A failed read falls back to an older document. It is
    /// repeated after `RETRY_AFTER`, so that a provider which does not answer cannot keep everyone waiting.
    pub async fn metadata(&self) -> Result<Arc<Metadata>, ProviderError> {
        let mut known = self.metadata.lock().await;
        if let Some((read_at, metadata)) = &known.read
            && read_at.elapsed() < METADATA_FOR
        {
            return Ok(Arc::clone(metadata));
        }
        let older = known.read.as_ref().map(|(_, metadata)| Arc::clone(metadata));
        if known.failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
            return older.ok_or(ProviderError::Recently);
        }
        match metadata::discover(self.fetch, &self.issuer).await {
            Ok(found) => {
                let found = Arc::new(found);
                *known = KnownMetadata { read: Some((Instant::now(), Arc::clone(&found))), failed: None };
                Ok(found)
            }
            Err(error) => {
                known.failed = Some(Instant::now());
                older.ok_or(error)
            }
        }
    }

    /// Checks a token: signature, issuer, audience and time. The caller checks what the claims mean.
    pub async fn verify(self: &Arc<Self>, token: &str, audience: &str) -> Result<Claims, TokenError> {
        let header = token::read_header(token)?;
        let key = self.key(&header).await?;
        token::validate(token, &key.key, header.algorithm, &self.issuer, audience)
    }

    /// Returns a number that moves when the provider changes its keys. Validated tokens may be kept while it stays
    /// the same. Returns `None` while no keys are known or they are too old.
    ///
    /// Call it for every use of such a token: it also starts the refresh of old keys in the background.
    pub fn generation(self: &Arc<Self>) -> Option<u64> {
        let keys = self.keys.load();
        let keys = keys.as_ref().filter(|keys| keys.read_at.elapsed() < KEEP_FOR)?;
        if keys.read_at.elapsed() >= REFRESH_AFTER {
            self.refresh_in_background();
        }
        Some(keys.generation)
    }

    async fn key(self: &Arc<Self>, header: &TokenHeader) -> Result<Arc<Key>, TokenError> {
        let known = || {
            let keys = self.keys.load_full().filter(|keys| keys.read_at.elapsed() < KEEP_FOR)?;
            keys.find(header.key_id.as_deref(), header.algorithm)
        };
        if let Some(key) = known() {
            let _starts_a_refresh = self.generation();
            return Ok(key);
        }
        let before = self.keys.load_full().map(|keys| keys.read_at);
        let _turn = self.refreshing.lock().await;
        // Another token may have caused the same request while this one waited.
        if self.keys.load_full().map(|keys| keys.read_at) == before {
            match self.refresh().await {
                // The keys are recent enough to know that this one does not exist.
                Err(ProviderError::Recently) if before.is_some() => {}
                refreshed => refreshed?,
            }
        }
        known().ok_or(TokenError::UnknownKey)
    }

    fn refresh_in_background(self: &Arc<Self>) {
        // Checked before a task is started, because this runs for every call while the provider is down.
        if self.tried_recently() {
            return;
        }
        let provider = Arc::clone(self);
        tokio::spawn(async move {
            let Ok(_turn) = provider.refreshing.try_lock() else { return };
            if let Err(error) = provider.refresh().await {
                tracing::warn!(
                    issuer = provider.issuer,
                    "The keys of the identity provider could not be read: {error}"
                );
            }
        });
    }

    /// Reads the keys, unless that was tried a moment ago. The caller holds `refreshing`.
    async fn refresh(&self) -> Result<(), ProviderError> {
        if self.tried_recently() {
            return Err(ProviderError::Recently);
        }
        *self.last_try.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let metadata = self.metadata().await?;
        let document = self.fetch.json(&metadata.jwks_uri).await?;
        let previous = self.keys.load_full();
        self.keys.store(Some(Arc::new(KeySet::read(document, previous.as_deref())?)));
        Ok(())
    }

    /// Lets the next token read the keys at once, as it would after `RETRY_AFTER`.
    #[cfg(test)]
    pub(crate) fn forget_last_try(&self) {
        *self.last_try.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn tried_recently(&self) -> bool {
        let last = *self.last_try.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < RETRY_AFTER)
    }
}
