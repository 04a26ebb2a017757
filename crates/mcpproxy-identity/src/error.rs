//! A failure to learn about a provider.

use std::time::Duration;

use crate::address::AddressError;
use crate::fetch::FetchError;

/// Pause between two requests for keys.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A failure to read a provider's metadata or keys.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Metadata(&'static str),
    #[error("the last try failed less than {} s ago", RETRY_AFTER.as_secs())]
    Recently,
}
