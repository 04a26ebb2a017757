//! Finds out whether a port is free.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::facts::PortState;
use crate::port::holder;

/// Tries to listen on the address for a moment.
pub(super) fn state_of(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => PortState::Taken(holder(address.port())),
        Err(error) => PortState::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_names_its_holder() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let PortState::Taken(holder) = state_of(address) else { panic!("the port is taken") };
        if cfg!(target_os = "linux") {
            assert!(holder.unwrap().ends_with(&format!("(pid {})", std::process::id())));
        }
        drop(listener);
        assert_eq!(state_of(address), PortState::Free);
    }
}
