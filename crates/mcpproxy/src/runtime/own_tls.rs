//! The certificate of the running gateway, and `gateway.lock`, which tells commands to trust exactly that one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mcpproxy_web::{Certificates, CertifiedPair};

use crate::home::lock::Lock;

/// Replaces the certificate of a gateway that speaks TLS.
#[derive(Clone)]
pub(crate) struct OwnTls {
    certificates: Certificates,
    /// Not owned: the lock is released when the gateway has stopped, also if a reload still runs.
    lock: Weak<Mutex<Lock>>,
}

/// Writes the address and the certificate into `gateway.lock`. From here on, other commands find the gateway.
pub(super) fn announce(
    mut lock: Lock,
    address: SocketAddr,
    base_url: &str,
    tls: Option<Certificates>,
) -> anyhow::Result<(Arc<Mutex<Lock>>, Option<OwnTls>)> {
    let pair = tls.as_ref().map(Certificates::current);
    lock.announce(&address.to_string(), base_url, pair.as_ref().map(|pair| pair.sha256()))?;
    let lock = Arc::new(Mutex::new(lock));
    let tls = tls.map(|certificates| OwnTls { certificates, lock: Arc::downgrade(&lock) });
    Ok((lock, tls))
}

impl OwnTls {
    /// Serves this pair on new connections, if it is another one.
    pub(super) fn renew(&self, pair: &Arc<CertifiedPair>) {
        if !self.certificates.differs(pair) {
            return;
        }
        self.certificates.replace(Arc::clone(pair));
        tracing::info!(sha256 = pair.sha256(), "new connections get the new certificate");
        let Some(lock) = self.lock.upgrade() else { return };
        let announced = lock.lock().unwrap_or_else(PoisonError::into_inner).announce_certificate(pair.sha256());
        if let Err(error) = announced {
            // Commands would refuse the gateway until its restart.
            tracing::error!("Commands do not trust the new certificate before a restart: {error:#}");
        }
    }
}
