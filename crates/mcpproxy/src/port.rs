//! Finds the program that holds a port, on Linux.

use std::ffi::OsStr;
use std::fs;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Returns the program that listens on this port, such as `nginx (pid 812)`.
pub(crate) fn holder(port: u16) -> Option<String> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    // Beside the numbers, `/proc` has links such as `self`.
    let is_number = |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let processes = fs::read_dir("/proc").ok()?.flatten().filter(|entry| is_number(&entry.file_name()));
    let holder = processes.map(|process| process.path()).find(|process| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    })?;
    let name = fs::read_to_string(holder.join("comm")).ok()?;
    Some(format!("{} (pid {})", name.trim(), holder.file_name()?.to_string_lossy()))
}

/// Returns the inodes of the sockets that listen on this port.
fn listening(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<&str>>());
    rows.filter_map(|row| match row.as_slice() {
        [_, local, _, LISTENING, _, _, _, _, _, inode, ..] if local.ends_with(&wanted) => Some((*inode).to_owned()),
        _ => None,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1\n   \
            1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4343 1\n";
        assert_eq!(listening(table, 8080), ["4242"]);
        assert!(listening(table, 8081).is_empty());
    }
}
