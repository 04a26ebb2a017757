//! Finds out whether a port is free.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::facts::PortState;
use crate::port::holder;

/// Tries to listen on the address for a moment.
pub(super) fn state_of(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => PortState::Taken(holder(address)),
        Err(error) => PortState::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // This process is never named.
        assert_eq!(state_of(address), PortState::Taken(None));
        drop(listener);
        assert_eq!(state_of(address), PortState::Free);
    }
}
