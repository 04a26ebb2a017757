//! The gateway's own certificate: reads it, checks it, and replaces it while the gateway runs.
//!
//! [`CertifiedPair::parse`] takes the text of two PEM files and returns a pair that works, or the reason why it does not.
//! So a pair that exists can be served: key and certificate belong together. [`Certificates`] is the pair in force. The
//! listener looks at it for every new connection. Open connections keep theirs.
//!
//! An expired certificate is served all the same: clients that pin it still connect, and an outage of all agents would be
//! a worse way to tell the operator. [`CertifiedPair::warnings`] and [`CertifiedPair::validity`] say so instead.

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// Certificates in one file. Real chains have two to four.
const CHAIN_MAX: usize = 16;
/// A certificate ends soon when a tenth of its lifetime is left, or this many seconds. Tools renew it earlier than that.
const ENDS_SOON_MAX_S: i64 = 14 * 24 * 60 * 60;
/// Protocols that the listener offers, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate with its key, ready to serve.
pub struct CertifiedPair {
    config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
    sha256: String,
    /// Hash of both files, to notice a change of any certificate in the chain.
    files: [u8; 32],
    not_before_s: i64,
    not_after_s: i64,
}

/// The place of a moment in the lifetime of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    NotYet,
    Valid,
    EndsSoon,
    Expired,
}

impl Validity {
    /// Returns the word in the answer of `GET /api/v1/status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotYet => "not_yet",
            Self::Valid => "valid",
            Self::EndsSoon => "ends_soon",
            Self::Expired => "expired",
        }
    }
}

/// A reason why two files are no usable pair. Each message ends with a next step.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PairError {
    #[error("holds no certificate; expected PEM text with `-----BEGIN CERTIFICATE-----`")]
    NoCertificate,
    #[error("holds no valid certificate; create it again, or copy it again as a whole")]
    BadCertificate,
    #[error("holds more than {CHAIN_MAX} certificates; keep the one of the gateway and those that signed it")]
    LongChain,
    #[error("holds no private key; expected PEM text with `-----BEGIN PRIVATE KEY-----`")]
    NoKey,
    #[error("holds an encrypted private key; decrypt it with `openssl pkey -in OLD.pem -out KEY.pem`")]
    EncryptedKey,
    #[error("holds a private key of a kind that TLS does not use here; create an ECDSA P-256, Ed25519 or RSA key")]
    UnsupportedKey,
    #[error("does not fit the certificate; write the two files that were created together")]
    Mismatch,
}

impl PairError {
    /// Returns the setting whose file is to be corrected.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::NoCertificate | Self::BadCertificate | Self::LongChain => "tls.certificate",
            Self::NoKey | Self::EncryptedKey | Self::UnsupportedKey | Self::Mismatch => "tls.key",
        }
    }
}

impl CertifiedPair {
    /// Reads two PEM files. The first certificate is the gateway's own.
    pub fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = CertificateDer::pem_slice_iter(certificate).take(CHAIN_MAX + 1).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| PairError::BadCertificate)?;
        if chain.len() > CHAIN_MAX {
            return Err(PairError::LongChain);
        }
        let leaf = chain.first().ok_or(PairError::NoCertificate)?.clone();
        let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|_| PairError::BadCertificate)?;
        let (not_before_s, not_after_s) =
            (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
        let config = server_config(chain, private_key(key)?)?;
        let files = Sha256::new().chain_update(Sha256::digest(certificate)).chain_update(key).finalize();
        let sha256 = hex(&Sha256::digest(&leaf));
        Ok(Self { config, sha256, leaf, files: files.into(), not_before_s, not_after_s })
    }

    /// Returns the SHA-256 of the certificate in lower-case hexadecimal digits, by which commands recognize the gateway.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the time until which the certificate is valid, in milliseconds since 1970.
    pub fn expires_ms(&self) -> i64 {
        self.not_after_s.saturating_mul(1000)
    }

    pub fn validity(&self, now_ms: i64) -> Validity {
        let now_s = now_ms.div_euclid(1000);
        let soon_s = (self.not_after_s.saturating_sub(self.not_before_s) / 10).min(ENDS_SOON_MAX_S);
        if now_s < self.not_before_s {
            Validity::NotYet
        } else if now_s > self.not_after_s {
            Validity::Expired
        } else if self.not_after_s.saturating_sub(now_s) <= soon_s {
            Validity::EndsSoon
        } else {
            Validity::Valid
        }
    }

    /// Describes what clients will not like about the certificate. `host` is the one in links for users.
    pub fn warnings(&self, now_ms: i64, host: &str) -> Vec<String> {
        let time = |seconds: i64| Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default();
        let (begins, ends) = (time(self.not_before_s), time(self.not_after_s));
        let about_time = match self.validity(now_ms) {
            Validity::Valid => None,
            Validity::NotYet => Some(format!("is not valid before {begins}; check the clock of this machine")),
            Validity::EndsSoon => Some(format!("expires at {ends}; renew it, and replace both files")),
            Validity::Expired => {
                Some(format!("expired at {ends}, so clients refuse it; renew it, and replace both files"))
            }
        };
        let about_time = about_time.map(|words| format!("the certificate in `tls.certificate` {words}"));
        let mut warnings = Vec::from_iter(about_time);
        if !self.names(host) {
            warnings.push(format!(
                "the certificate in `tls.certificate` is not valid for `{host}`, the host in links for users; set \
                 `approvals.public_url` to an address that it names, such as \"https://gateway.example.com\", or add \
                 `{host}` to its names"
            ));
        }
        warnings
    }

    /// Returns true if the certificate is for this host or IP address.
    fn names(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']).to_owned();
        let Ok(name) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&self.leaf)
            .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, &name).is_ok())
    }
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PairError> {
    let is_encrypted = || memchr::memmem::find(text, b"ENCRYPTED").is_some();
    match PrivateKeyDer::from_pem_slice(text) {
        // The old format of OpenSSL has the mark inside, and is read as if it were not encrypted.
        Ok(_) if is_encrypted() => Err(PairError::EncryptedKey),
        Ok(key) => Ok(key),
        Err(_) if is_encrypted() => Err(PairError::EncryptedKey),
        Err(_) => Err(PairError::NoKey),
    }
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, PairError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        // TLS 1.2 and 1.3.
        .with_safe_default_protocol_versions()
        .map_err(|_| PairError::UnsupportedKey)?
        .with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => PairError::Mismatch,
        rustls::Error::InvalidCertificate(_) => PairError::BadCertificate,
        // All others are about a key that the provider cannot load.
        _ => PairError::UnsupportedKey,
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The pair in force. Clones share it, so that a reload reaches the listener.
#[derive(Clone)]
pub struct Certificates {
    current: Arc<ArcSwap<CertifiedPair>>,
}

impl Certificates {
    pub fn new(pair: Arc<CertifiedPair>) -> Self {
        Self { current: Arc::new(ArcSwap::new(pair)) }
    }

    pub fn current(&self) -> Arc<CertifiedPair> {
        self.current.load_full()
    }

    /// Returns true if the pair was read from other files than the one in force.
    pub fn differs(&self, pair: &CertifiedPair) -> bool {
        self.current.load().files != pair.files
    }

    /// Serves this pair on new connections.
    pub fn replace(&self, pair: Arc<CertifiedPair>) {
        self.current.store(pair);
    }

    /// Returns the TLS settings for a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/");

    /// Reads a file of `tests/data/tls`, whose README says how they were made.
    pub(crate) fn file(name: &str) -> Vec<u8> {
        std::fs::read(format!("{DATA}{name}")).unwrap()
    }

    pub(crate) fn pair(name: &str) -> Arc<CertifiedPair> {
        Arc::new(CertifiedPair::parse(&file(&format!("{name}.pem")), &file(&format!("{name}.key"))).unwrap())
    }

    #[test]
    fn files_that_are_no_pair() {
        let check = |certificate: &[u8], key: &[u8], expected: PairError| {
            assert_eq!(CertifiedPair::parse(certificate, key).err(), Some(expected));
        };
        let (certificate, key) = (file("first.pem"), file("first.key"));
        let half = certificate.len() / 2;
        check(b"", &key, PairError::NoCertificate);
        check(&key, &key, PairError::NoCertificate);
        check(&certificate[..half], &key, PairError::BadCertificate);
        check(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key, PairError::BadCertificate);
        check(&certificate.repeat(CHAIN_MAX + 1), &key, PairError::LongChain);
        check(&certificate, b"", PairError::NoKey);
        check(&certificate, &certificate, PairError::NoKey);
        check(&certificate, &key[..key.len() / 2], PairError::NoKey);
        check(&certificate, &file("encrypted.key"), PairError::EncryptedKey);
        check(
            &certificate,
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            PairError::UnsupportedKey,
        );
        check(&certificate, &file("second.key"), PairError::Mismatch);
        assert!(CertifiedPair::parse(&certificate.repeat(CHAIN_MAX), &key).is_ok());
    }

    #[test]
    fn what_clients_will_not_like() {
        let first = pair("first");
        let (begins, ends) = (first.not_before_s * 1000, first.expires_ms());
        for host in ["localhost", "gateway.example.com", "127.0.0.1", "[::1]"] {
            assert_eq!(first.warnings(begins, host), Vec::<String>::new(), "{host}");
        }
        let all = |now_ms: i64, host: &str| first.warnings(now_ms, host).join("\n");
        assert!(all(ends + 1000, "localhost").contains("expired at 2"), "{}", all(ends + 1000, "localhost"));
        assert!(all(ends, "localhost").contains(" expires at 2"), "{}", all(ends, "localhost"));
        assert!(all(begins - 1, "localhost").contains("is not valid before 2"));
        for other in ["evil.example", "192.0.2.1", ""] {
            assert!(all(begins, other).contains("is not valid for"), "{other}");
        }
    }

    #[test]
    fn a_certificate_ends_soon() {
        const DAY_S: i64 = 24 * 60 * 60;
        let check = |days: i64, hours_left: i64, expected: Validity| {
            let first = CertifiedPair::parse(&file("first.pem"), &file("first.key")).unwrap();
            let pair = CertifiedPair { not_before_s: 0, not_after_s: days * DAY_S, ..first };
            let now_ms = (days * DAY_S - hours_left * 3600) * 1000;
            assert_eq!(pair.validity(now_ms), expected, "{hours_left} hours before the end of {days} days");
        };
        check(365, 15 * 24, Validity::Valid);
        check(365, 14 * 24, Validity::EndsSoon);
        check(365, 0, Validity::EndsSoon);
        check(365, -1, Validity::Expired);
        check(365, 366 * 24, Validity::NotYet);
        check(90, 10 * 24, Validity::Valid);
        check(90, 9 * 24, Validity::EndsSoon);
        check(6, 15, Validity::Valid);
        check(6, 14, Validity::EndsSoon);
    }

    #[test]
    fn a_change_of_either_file_counts() {
        let certificates = Certificates::new(pair("first"));
        assert!(!certificates.differs(&pair("first")));
        assert!(certificates.differs(&pair("second")));
        let longer = CertifiedPair::parse(&file("first.pem").repeat(2), &file("first.key")).unwrap();
        assert!(certificates.differs(&longer), "another chain");
        certificates.replace(pair("second"));
        assert_eq!(certificates.current().sha256(), pair("second").sha256());
        assert_eq!(pair("first").sha256().len(), 64);
    }
}
