//! Decides which addresses a request to an identity provider may go to.
//!
//! An operator may write any address into the settings. But a server can name its authorization server too, and that
//! text is not trusted: it could point to a cloud's metadata service or to a router in the gateway's own network. So
//! such an address must not be nearer to the gateway than the server that named it.
//!
//! | the server is at | it may name |
//! |---|---|
//! | a public address | public addresses |
//! | a private address | public and private addresses |
//! | loopback | every address below |
//!
//! A host name with several addresses counts as far away as its farthest one when it names others, and as near as its
//! nearest one when it is named. An IPv6 address that a network translates counts as the IPv4 address inside it.
//!
//! Link-local addresses (`169.254.0.0/16`, which has the metadata services of clouds), multicast and unspecified
//! addresses are never allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The network that an address belongs to, the farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Public,
    Private,
    Loopback,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("the address is not a valid URL")]
    Invalid,
    #[error("the address must begin with https:// (http:// is accepted for localhost only)")]
    NotSecure,
    #[error("the address must not contain a user name or password")]
    Credentials,
    #[error("the address must not contain a fragment (#)")]
    Fragment,
    #[error("the host has no address that may be used here ({0})")]
    Forbidden(IpAddr),
    #[error("the host name could not be resolved")]
    Unresolved,
}

impl Reach {
    /// Returns the network of an IP address, or `None` if no request may go there.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(|| of_v6(address), of_v4),
        }
    }

    /// Resolves a URL and returns the nearest network among its addresses. This is what a request to it may touch.
    pub async fn nearest_of(url: &Url) -> Result<Self, AddressError> {
        nearest(resolve(url).await?.into_iter().map(|address| address.ip()))
    }

    /// Resolves a URL and returns the farthest network among its addresses. This is what it may claim for itself: the
    /// owner of a public host name can add any address to it, such as `127.0.0.1`.
    pub async fn farthest_of(url: &Url) -> Result<Self, AddressError> {
        farthest(resolve(url).await?.into_iter().map(|address| address.ip()))
    }
}

pub(crate) fn nearest(addresses: impl Iterator<Item = IpAddr>) -> Result<Reach, AddressError> {
    all(addresses)?.into_iter().max().ok_or(AddressError::Unresolved)
}

pub(crate) fn farthest(addresses: impl Iterator<Item = IpAddr>) -> Result<Reach, AddressError> {
    all(addresses)?.into_iter().min().ok_or(AddressError::Unresolved)
}

fn all(mut addresses: impl Iterator<Item = IpAddr>) -> Result<Vec<Reach>, AddressError> {
    addresses.try_fold(Vec::new(), |mut all, address| {
        all.push(Reach::of(address).ok_or(AddressError::Forbidden(address))?);
        Ok(all)
    })
}

fn of_v4(address: Ipv4Addr) -> Option<Reach> {
    let [first, second, ..] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    if address.is_loopback() {
        Some(Reach::Loopback)
    } else if address.is_link_local() || address.is_multicast() || address.is_broadcast() || first == 0 {
        None
    } else if address.is_private() || is_shared {
        Some(Reach::Private)
    } else {
        Some(Reach::Public)
    }
}

fn of_v6(address: Ipv6Addr) -> Option<Reach> {
    if address.is_loopback() {
        Some(Reach::Loopback)
    } else if let Some(inner) = translated(address) {
        of_v4(inner)
    } else if is_local_translation(address)
        || address.is_unicast_link_local()
        || address.is_multicast()
        || address.is_unspecified()
    {
        None
    } else if address.is_unique_local() {
        Some(Reach::Private)
    } else {
        Some(Reach::Public)
    }
}

/// Returns the IPv4 address to which a network translates an address of NAT64 (`64:ff9b::/96`) or 6to4 (`2002::/16`).
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

/// Returns true for the prefix that each network may use for its own NAT64 (RFC 8215). The place of the IPv4 address in it
/// is not known here.
fn is_local_translation(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x64, 0xff9b, 1, ..])
}

/// Reads a URL of a provider: `https`, or `http` with a host that is written as loopback.
pub fn check_url(text: &str) -> Result<Url, AddressError> {
    let url = Url::parse(text).map_err(|_| AddressError::Invalid)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Credentials);
    }
    if url.fragment().is_some() {
        return Err(AddressError::Fragment);
    }
    match (url.scheme(), url.host()) {
        (_, None) => Err(AddressError::Invalid),
        ("https", Some(_)) => Ok(url),
        ("http", Some(host)) if is_loopback(&host) => Ok(url),
        _ => Err(AddressError::NotSecure),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => name.eq_ignore_ascii_case("localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Resolves the host of a URL.
pub(crate) async fn resolve(url: &Url) -> Result<Vec<std::net::SocketAddr>, AddressError> {
    let host = url.host_str().ok_or(AddressError::Invalid)?.trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().ok_or(AddressError::Invalid)?;
    let found = tokio::net::lookup_host((host, port)).await.map_err(|_| AddressError::Unresolved)?;
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(AddressError::Unresolved) } else { Ok(found) }
}
