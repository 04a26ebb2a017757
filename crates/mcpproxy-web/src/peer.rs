//! The address that a request came from, as far as limits are concerned.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::FromRequestParts;
use http::request::Parts;

/// Bits of an IPv6 address that name a network.
const NETWORK_BITS: u32 = 64;

/// An IPv4 address, or an IPv6 network of 64 bits: whoever has one IPv6 address usually has all others of its network.
///
/// Headers such as `X-Forwarded-For` do not count, because anyone can send them. Behind a proxy, all requests come from the
/// proxy. Limits must therefore not assume that one peer is one person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(Ipv6Addr::LOCALHOST) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(address) => {
                let network = u128::MAX << (u128::BITS - NETWORK_BITS);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & network))
            }
        })
    }

    pub(crate) fn address(self) -> IpAddr {
        self.0
    }
}

/// A request without a peer did not come through a connection, and counts as one from `0.0.0.0`.
impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or(Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_is_one_peer() {
        let check = |address: &str, expected: &str| {
            assert_eq!(Peer::of(address.parse().unwrap()).address().to_string(), expected, "{address}");
        };
        check("192.0.2.1", "192.0.2.1");
        check("::ffff:192.0.2.1", "192.0.2.1");
        check("::1", "127.0.0.1");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
        check("2001:db8:1:2::", "2001:db8:1:2::");
    }
}
