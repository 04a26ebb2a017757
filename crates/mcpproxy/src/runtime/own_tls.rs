//! The certificate of the running gateway, and `gateway.lock`, which tells commands to trust exactly that one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mcpproxy_web::{Certificates, CertifiedPair};

use crate::home::lock::Lock;
use crate::terminal::output::tell;
use crate::terminal::time::local_time;

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
    /// Says which certificate is in use, and what to do, after its files could not be read. Without a full stop.
    pub(super) fn still_served(&self) -> String {
        let until = local_time(self.certificates.current().expires_ms());
        format!(
            "New connections still get the old certificate, which is valid until {until}. Correct the files, and the \
             gateway serves the new one without a restart"
        )
    }

    /// Serves this pair on new connections, if it is another one.
    pub(super) fn renew(&self, pair: &Arc<CertifiedPair>) {
        if !self.certificates.differs(pair) {
            return;
        }
        self.certificates.replace(Arc::clone(pair));
        let until = local_time(pair.expires_ms());
        tell(&format!("↻ New connections get the new certificate, which is valid until {until}."));
        let Some(lock) = self.lock.upgrade() else { return };
        let announced = lock.lock().unwrap_or_else(PoisonError::into_inner).announce_certificate(pair.sha256());
        if let Err(error) = announced {
            // Commands would refuse the gateway until its restart.
            tracing::error!("Commands do not trust the new certificate before a restart: {error:#}");
        }
    }
}
