//! Finds the program that holds a port, on Linux.
//!
//! `/proc/net/tcp` and `/proc/net/tcp6` list the listening sockets, each with its address and its inode. The program is
//! the process that has this inode among its open files. Only root can read the open files of other users, so often no
//! program can be named.
//!
//! A wrong name is worse than none: the reader would stop a program that is not the cause. So the address must match,
//! not only the port, and this process is never named. Every program chooses its own name, so names are escaped.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use crate::terminal::output::line;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// Digits of 32 bits of an address.
const WORD_DIGITS: usize = 8;

/// Returns the program that keeps this process from listening on `address`, such as `nginx (pid 812)`.
pub(crate) fn holder(address: SocketAddr) -> Option<String> {
    let table = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default()).concat();
    let inodes = listening(&table, address);
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let own = fs::read_link("/proc/self").ok()?;
    // Beside the numbers, `/proc` has links such as `self`.
    let is_number = |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let is_other = |name: &OsStr| is_number(name) && name != own.as_os_str();
    let processes = fs::read_dir("/proc").ok()?.flatten().filter(|entry| is_other(&entry.file_name()));
    let holder = processes.map(|process| process.path()).find(|process| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    })?;
    let name = fs::read(holder.join("comm")).ok()?;
    Some(described(&name, &holder.file_name()?.to_string_lossy()))
}

fn described(name: &[u8], pid: &str) -> String {
    format!("{} (pid {pid})", line(String::from_utf8_lossy(name).trim()))
}

/// Returns the inodes of the sockets that keep others from listening on `wanted`: only the most certain ones.
fn listening(table: &str, wanted: SocketAddr) -> Vec<String> {
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<&str>>());
    let found: Vec<(Overlap, String)> = rows
        .filter_map(|row| match row.as_slice() {
            [_, local, _, LISTENING, _, _, _, _, _, inode, ..] => {
                let held = parse(local).filter(|held| held.port() == wanted.port())?;
                Some((Overlap::between(held.ip(), wanted.ip())?, (*inode).to_owned()))
            }
            _ => None,
        })
        .collect();
    let best = found.iter().map(|(overlap, _)| *overlap).min();
    found.into_iter().filter(|(overlap, _)| Some(*overlap) == best).map(|(_, inode)| inode).collect()
}

/// The reason why two listeners cannot share a port, the most certain one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Overlap {
    SameAddress,
    /// One of them listens on all addresses.
    Wildcard,
    /// One of them listens on `::`, which includes IPv4 unless its socket is for IPv6 only. The table does not say.
    OtherFamily,
}

impl Overlap {
    /// Returns `None` if both can listen on the same port.
    fn between(held: IpAddr, wanted: IpAddr) -> Option<Self> {
        let (held, wanted) = (held.to_canonical(), wanted.to_canonical());
        let is_all_of = |ip: IpAddr, other: IpAddr| ip.is_unspecified() && (ip.is_ipv6() || other.is_ipv4());
        if held == wanted {
            return Some(Self::SameAddress);
        }
        let overlaps = is_all_of(held, wanted) || is_all_of(wanted, held);
        let kind = if held.is_ipv4() == wanted.is_ipv4() { Self::Wildcard } else { Self::OtherFamily };
        overlaps.then_some(kind)
    }
}

/// Parses an address such as `0100007F:1F90`. The kernel prints each 32 bits of the IP address as a number in the byte
/// order of the machine, and the port as a plain number.
fn parse(local: &str) -> Option<SocketAddr> {
    let (ip, port) = local.split_once(':')?;
    let word = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok()?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let words: Vec<[u8; 4]> = ip.as_bytes().chunks(WORD_DIGITS).map(word).collect::<Option<_>>()?;
    let ip = match words.as_slice() {
        [v4] => IpAddr::from(*v4),
        v6 => IpAddr::from(<[u8; 16]>::try_from(v6.concat()).ok()?),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats a table as the kernel does, with the inodes 1, 2, 3 and so on.
    fn table(rows: &[(&str, &str)]) -> String {
        let rows = rows.iter().enumerate().map(|(at, (local, state))| {
            let rest = "00000000:00000000 00:00000000 00000000  1000        0";
            format!("   {at}: {local} 00000000:0000 {state} {rest} {} 1 0\n", at + 1)
        });
        let header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n";
        header.to_owned() + &rows.collect::<String>()
    }

    fn check(rows: &[(&str, &str)], wanted: &str, expected: &[&str]) {
        assert_eq!(listening(&table(rows), wanted.parse().unwrap()), expected, "{rows:?} {wanted}");
    }

    #[test]
    fn only_listening_sockets_count() {
        let rows = [("0100007F:1F90", "0A"), ("0100007F:1F90", "01")];
        check(&rows, "127.0.0.1:8080", &["1"]);
        check(&rows, "127.0.0.1:8081", &[]);
    }

    const ALL_V4: &str = "00000000:1F90";
    const ALL_V6: &str = "00000000000000000000000000000000:1F90";

    #[test]
    fn a_listener_on_another_address_is_not_blamed() {
        let other = ("0200007F:1F90", "0A");
        check(&[other], "127.0.0.1:8080", &[]);
        check(&[other], "127.0.0.2:8080", &["1"]);
        check(&[other, (ALL_V4, "0A")], "127.0.0.1:8080", &["2"]);
        // A listener on all addresses conflicts with every other one.
        check(&[other], "0.0.0.0:8080", &["1"]);
        check(&[other], "[::]:8080", &["1"]);
    }

    #[test]
    fn ipv6_addresses() {
        let loopback = ("00000000000000000000000001000000:1F90", "0A");
        let mapped = ("0000000000000000FFFF00000100007F:1F90", "0A");
        check(&[loopback], "[::1]:8080", &["1"]);
        check(&[loopback], "127.0.0.1:8080", &[]);
        check(&[loopback], "0.0.0.0:8080", &[]);
        check(&[("B80D0120000000000000000001000000:1F90", "0A")], "[2001:db8::1]:8080", &["1"]);
        check(&[mapped], "127.0.0.1:8080", &["1"]);
        check(&[(ALL_V6, "0A")], "[::1]:8080", &["1"]);
        check(&[(ALL_V6, "0A")], "127.0.0.1:8080", &["1"]);
        check(&[(ALL_V4, "0A")], "[::1]:8080", &[]);
    }

    /// A socket on `::` that is for IPv6 only listens beside one on `0.0.0.0`.
    #[test]
    fn the_most_certain_listener_is_named() {
        let loopback = ("0100007F:1F90", "0A");
        check(&[(ALL_V6, "0A"), (ALL_V4, "0A")], "127.0.0.1:8080", &["2"]);
        check(&[(ALL_V6, "0A"), loopback], "127.0.0.1:8080", &["2"]);
    }

    #[test]
    fn malformed_addresses() {
        for local in ["", "0100007F", ":1F90", "0100007F:", "0100007F0100007F:1F90", "0100007é:1F90", "0:10000"] {
            assert_eq!(parse(local), None, "{local}");
        }
    }

    #[test]
    fn this_process_is_never_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(holder(listener.local_addr().unwrap()), None);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(described(b"nginx\n", "812"), "nginx (pid 812)");
        assert_eq!(described(b"a\x1b[2J\xffb\n", "812"), "a\\u{1b}[2J\u{fffd}b (pid 812)");
    }
}
