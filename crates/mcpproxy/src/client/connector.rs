//! Connects to the gateway of this data folder, and trusts exactly its certificate.
//!
//! A certificate for `gateway.example.com` says nothing about `127.0.0.1`, and a self-signed one is not known to the
//! machine at all. So commands use neither names nor authorities: the gateway writes the hash of its certificate into
//! `gateway.lock`, which only its user can write. Another program on the port, even with a certificate that the machine
//! trusts, gets nothing.
//!
//! The hash is read again for each connection. So a bridge that runs for days goes on after a renewal.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower::Service;

use crate::home::lock::{Running, read_announced};

/// Attempts to connect while the gateway replaces its certificate, and the pause between them.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// Opens connections to one gateway, whatever the URL says.
#[derive(Clone)]
pub(super) struct Connector {
    address: SocketAddr,
    /// `gateway.lock`, if the gateway speaks TLS.
    lock: Option<PathBuf>,
}

impl Connector {
    pub(super) fn new(address: SocketAddr, running: &Running) -> Self {
        Self { address, lock: running.certificate.is_some().then(|| running.lock.clone()) }
    }

    async fn connect(self) -> io::Result<GatewayStream> {
        let Some(lock) = &self.lock else { return Ok(GatewayStream(Either::Left(self.dial().await?))) };
        let mut attempt = 1;
        loop {
            let connector = TlsConnector::from(pinned(&certificate_of(lock).await?)?);
            let name = ServerName::from(self.address.ip());
            match connector.connect(name, self.dial().await?).await {
                Err(error) if is_about_trust(&error) && attempt < ATTEMPTS => attempt += 1,
                secured => return Ok(GatewayStream(Either::Right(Box::new(secured?)))),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Returns true if the other side is not the gateway, or not any more.
pub(super) fn is_about_trust(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

async fn certificate_of(lock: &Path) -> io::Result<String> {
    let lock = lock.to_owned();
    let running = tokio::task::spawn_blocking(move || read_announced(&lock)).await.map_err(io::Error::other)?;
    let gone = || io::Error::new(io::ErrorKind::ConnectionRefused, "the gateway has stopped or speaks plain HTTP");
    running.and_then(|running| running.certificate).ok_or_else(gone)
}

fn pinned(sha256: &str) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(Pinned { sha256: sha256.to_owned(), provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Accepts one certificate, if the other side proves that it has the key.
#[derive(Debug)]
struct Pinned {
    sha256: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
        if found == self.sha256 {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<GatewayStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect().await.map(TokioIo::new) })
    }
}

/// A connection to the gateway.
pub(crate) struct GatewayStream(Either<TcpStream, Box<TlsStream<TcpStream>>>);

impl Connection for GatewayStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for GatewayStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for GatewayStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
