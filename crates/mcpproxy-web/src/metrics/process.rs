//! Numbers about the process, from `/proc/self`. Where that does not exist, they are left out.

use std::fs;

use super::exposition::Exposition;

pub(super) fn write(out: &mut Exposition) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    out.gauge("process_resident_memory_bytes", "The resident memory of the process.");
    if let Some(bytes) = kilobytes(&status, "VmRSS:") {
        out.sample(&[], bytes * 1024);
    }
    out.gauge("process_threads", "The threads of the process.");
    if let Some(threads) = value(&status, "Threads:") {
        out.sample(&[], threads);
    }
    out.gauge("process_open_fds", "The open file descriptors of the process.");
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        out.sample(&[], descriptors.count());
    }
}

/// Returns the number in a line such as `VmRSS:   93424 kB`.
fn kilobytes(status: &str, key: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn value(status: &str, key: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let status = "Name:\tmcpproxy\nVmRSS:\t   93424 kB\nThreads:\t3\n";
        assert_eq!((kilobytes(status, "VmRSS:"), value(status, "Threads:")), (Some(93424), Some(3)));
        assert_eq!((kilobytes("", "VmRSS:"), value(status, "Missing:")), (None, None));
    }
}
