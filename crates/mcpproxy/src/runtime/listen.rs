//! Binds the gateway's port, on both loopback addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use mcpproxy_core::settings::{self, Settings};
use mcpproxy_web::Listeners;
use tokio::net::TcpListener;

use crate::exit::{Exit, Failure};
use crate::port;

/// Attempts to find a port that is free on both loopback addresses.
const PORTS_TRIED: usize = 8;

/// The address to listen on.
pub(crate) enum Listen {
    /// This address, or the one in the settings.
    Exactly(Option<SocketAddr>),
    /// Any free port on loopback. Other commands find it in `gateway.lock`.
    Somewhere,
}

impl Listen {
    /// Returns the option or command that replaces `listen` of the settings, if there is one.
    pub(super) fn option(&self) -> Option<&'static str> {
        match self {
            Self::Exactly(None) => None,
            Self::Exactly(Some(_)) => Some("--listen"),
            Self::Somewhere => Some("mcpproxy stdio"),
        }
    }
}

pub(super) async fn bind(settings: &Settings, listen: Listen) -> anyhow::Result<Listeners> {
    let address = match listen {
        Listen::Exactly(address) => address.unwrap_or(settings.listen),
        Listen::Somewhere => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    };
    settings::check_listen(address, settings.encrypts())
        .and_then(|()| settings::check_anonymous(address, settings.allow_anonymous_loopback))
        .map_err(|message| Failure::new(Exit::BadSettings, message))?;
    for _ in 0..PORTS_TRIED {
        let main = match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(taken(address).into()),
            bound => bound.with_context(|| format!("could not listen on {address}"))?,
        };
        let Some(twin) = twin(main.local_addr()?) else { return Ok(Listeners { main, twin: None }) };
        match TcpListener::bind(twin).await {
            Ok(twin) => return Ok(Listeners { main, twin: Some(twin) }),
            // The chosen port is taken on the other loopback address. Try another one.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && address.port() == 0 => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // Otherwise, this process would be one of those that hold the port.
                drop(main);
                return Err(taken(twin).into());
            }
            // This machine has only IPv4 or only IPv6.
            Err(_) => return Ok(Listeners { main, twin: None }),
        }
    }
    anyhow::bail!("could not find a free port")
}

/// Binds the address of its own that `/metrics` has, if the settings name one.
pub(super) async fn bind_metrics(settings: &Settings) -> anyhow::Result<Option<(Listeners, SocketAddr)>> {
    let Some(address) = settings.metrics.listen.filter(|_| settings.metrics.enabled) else { return Ok(None) };
    let main = TcpListener::bind(address).await.map_err(|error| {
        let message = format!("Could not listen on {address} for metrics: {error}.");
        Failure::new(Exit::Failed, message).hint("change `metrics.listen` in the settings")
    })?;
    let address = main.local_addr()?;
    Ok(Some((Listeners { main, twin: None }, address)))
}

/// Returns the other loopback address, because `localhost` stands for both.
fn twin(address: SocketAddr) -> Option<SocketAddr> {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Some(SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()))),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

fn taken(address: SocketAddr) -> Failure {
    let next = SocketAddr::new(address.ip(), address.port().wrapping_add(1));
    let holder = port::holder(address).unwrap_or_else(|| "another program".to_owned());
    let message = format!("Port {} is in use: {holder} listens on {address}.", address.port());
    Failure::new(Exit::Failed, message)
        .hint(format!("choose another port with --listen {next}, or set `listen` in the settings"))
}

/// Returns the base of links for users, unless `approvals.public_url` is set. Passkeys need a host name, so loopback
/// becomes `localhost`.
pub(crate) fn own_url(settings: &Settings, address: SocketAddr) -> String {
    let (scheme, usual) = if settings.tls.is_some() { ("https", 443) } else { ("http", 80) };
    let host = match address.ip() {
        ip if ip.is_loopback() || ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    // Browsers leave out the usual port in `Host` and `Origin`, which the guard compares with this.
    match address.port() {
        port if port == usual => format!("{scheme}://{host}"),
        port => format!("{scheme}://{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::settings::TlsSettings;

    use super::*;

    /// At that moment, the gateway itself listens on the first address.
    #[tokio::test]
    async fn a_gateway_does_not_name_itself_as_the_holder_of_its_port() {
        let bind_v6 = || std::net::TcpListener::bind("[::1]:0");
        let Ok(mut held) = bind_v6() else { return };
        let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, held.local_addr().unwrap().port()));
        // Another test may have the port on the other address.
        while std::net::TcpListener::bind(address).is_err() {
            held = bind_v6().unwrap();
            address.set_port(held.local_addr().unwrap().port());
        }
        let port = address.port();
        let refused = bind(&Settings::default(), Listen::Exactly(Some(address))).await.err().unwrap().to_string();
        assert_eq!(refused, format!("Port {port} is in use: another program listens on [::1]:{port}."));
    }

    #[test]
    fn links_lead_to_this_machine() {
        let mut settings = Settings::default();
        let check = |settings: &Settings, address: &str, expected: &str| {
            assert_eq!(own_url(settings, address.parse().unwrap()), expected);
        };
        check(&settings, "127.0.0.1:8080", "http://localhost:8080");
        check(&settings, "[::1]:9000", "http://localhost:9000");
        check(&settings, "0.0.0.0:80", "http://localhost");
        check(&settings, "192.0.2.1:8080", "http://192.0.2.1:8080");
        settings.tls = Some(TlsSettings { certificate: "a.pem".to_owned(), key: "a.key".to_owned() });
        check(&settings, "0.0.0.0:8443", "https://localhost:8443");
        check(&settings, "192.0.2.1:443", "https://192.0.2.1");
        check(&settings, "[2001:db8::1]:443", "https://[2001:db8::1]");
        check(&settings, "[2001:db8::1]:80", "https://[2001:db8::1]:80");
    }
}
