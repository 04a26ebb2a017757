//! Ends everything that a server process started, also children that left its process group.
//!
//! A signal to the process group misses a child that called `setsid`. When its parent exits, such a child belongs to
//! init, and nobody knows where it came from. So on Linux the gateway is a *subreaper*: orphans become its own children.
//!
//! - **Which server did an orphan come from?** Every server process gets a variable with a random value ([`MARK`]), and its
//!   descendants inherit it. [`Run::end`] kills all processes that have it, until none is left. A process that removed the
//!   variable ends with the gateway ([`end_orphans`]).
//! - **Who collects orphans that exit by themselves?** [`reap`] does. It must not collect a process that somebody waits for:
//!   the leaders of servers are known, and any other child is collected only if it was a zombie in two looks in a row.
//!
//! On other systems there is no `/proc`, so only the process group ends.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Name of the variable that tells which server a process belongs to.
pub(super) const MARK: &str = "MCPPROXY_SERVER_RUN";
/// Rounds of killing, and the pause between them. A process that forks as fast as it can needs several.
const ROUNDS_MAX: usize = 100;
const ROUND_PAUSE: Duration = Duration::from_millis(20);
/// Time between two looks for zombies.
const REAP_PAUSE: Duration = Duration::from_secs(1);

/// Processes that the gateway started as servers and waits for. One for each running server.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Children that this process had before it started a server. A script may start one and then `exec` the gateway.
static STRANGERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn leaders() -> MutexGuard<'static, BTreeSet<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn strangers() -> MutexGuard<'static, BTreeSet<i32>> {
    STRANGERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One run of a server process, with all its descendants.
pub(super) struct Run {
    mark: String,
    leader: Option<i32>,
}

impl Run {
    pub(super) fn new() -> Self {
        Self { mark: format!("{:032x}", rand::random::<u128>()), leader: None }
    }

    /// Returns the value of the variable [`MARK`].
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    pub(super) fn led_by(&mut self, pid: Option<u32>) {
        self.leader = pid.and_then(|pid| i32::try_from(pid).ok());
        leaders().extend(self.leader);
    }

    /// Kills and collects all descendants. The leader itself must have been waited for.
    pub(super) async fn end(self) {
        let entry = format!("{MARK}={}", self.mark);
        let mut killed = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let wanted = entry.clone();
            let found = tokio::task::spawn_blocking(move || marked(wanted.as_bytes())).await.unwrap_or_default();
            for pid in &found {
                kill_marked(*pid, entry.as_bytes());
            }
            killed.extend(found.iter().copied());
            // The number of a process that is gone may belong to the leader of another server by now.
            killed.retain(|pid| !leaders().contains(pid) && !is_collected(*pid));
            if found.is_empty() && killed.is_empty() {
                return;
            }
            tokio::time::sleep(ROUND_PAUSE).await;
        }
        tracing::warn!("a server left processes behind that could not be ended");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            leaders().remove(&leader);
        }
    }
}

/// Makes orphans children of this process. Without that, only process groups end. Must run before the first server
/// starts.
pub(crate) fn adopt_orphans() {
    strangers().extend(children(State::Alive));
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::debug!(%error, "could not become a subreaper");
    }
}

/// Collects orphans that have exited, until the gateway stops.
pub(crate) async fn reap(stopping: CancellationToken) {
    let Ok(mut exited) = signal(SignalKind::child()) else { return };
    let mut seen = BTreeSet::new();
    loop {
        let wait = async {
            if seen.is_empty() {
                exited.recv().await;
            }
            tokio::time::sleep(REAP_PAUSE).await;
        };
        tokio::select! {
            () = wait => {}
            () = stopping.cancelled() => return,
        }
        let zombies = tokio::task::spawn_blocking(|| children(State::Zombie)).await.unwrap_or_default();
        for pid in zombies.intersection(&seen) {
            is_collected(*pid);
            strangers().remove(pid);
        }
        seen = zombies;
    }
}

/// Kills all children of this process that no server run knows, such as orphans that removed their mark. Children from
/// before the first server stay. Only for a process that is about to exit.
pub fn end_orphans() {
    for _ in 0..ROUNDS_MAX {
        let orphans: BTreeSet<i32> = children(State::Alive).difference(&strangers()).copied().collect();
        if orphans.is_empty() {
            return;
        }
        for pid in orphans {
            kill(pid);
            is_collected(pid);
        }
        std::thread::sleep(ROUND_PAUSE);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    Zombie,
}

/// Returns the children of this process in this state, except the leaders of servers.
fn children(wanted: State) -> BTreeSet<i32> {
    let own = std::process::id().to_string();
    let fits = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The process name in parentheses may contain anything. The fields after it may not.
        let mut fields = stat.rsplit_once(')').map_or("", |(_, after)| after).split_whitespace();
        let state = if fields.next() == Some("Z") { State::Zombie } else { State::Alive };
        state == wanted && fields.next() == Some(own.as_str())
    };
    let all: BTreeSet<i32> = processes().filter(fits).collect();
    all.difference(&leaders()).copied().collect()
}

/// Returns the living processes whose environment has this entry, except the leaders of servers.
fn marked(entry: &[u8]) -> BTreeSet<i32> {
    let all: BTreeSet<i32> = processes().filter(|pid| has_entry(*pid, entry)).collect();
    all.difference(&leaders()).copied().collect()
}

fn has_entry(pid: i32, entry: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|found| found == entry)
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Kills a process that was found by this entry, if it still has it. Since then the process may have exited, and its
/// number may belong to another one. A descriptor always means the same process.
#[cfg(target_os = "linux")]
fn kill_marked(pid: i32, entry: &[u8]) {
    let Some(number) = Pid::from_raw(pid) else { return };
    let opened = pidfd_open(number, PidfdFlags::empty());
    if !has_entry(pid, entry) {
        return;
    }
    match opened {
        Ok(process) => {
            let _gone = pidfd_send_signal(process, Signal::KILL);
        }
        Err(Errno::SRCH) => {}
        // An old kernel, or a sandbox without descriptors of processes.
        Err(_) => kill(pid),
    }
}

#[cfg(not(target_os = "linux"))]
fn kill_marked(pid: i32, _entry: &[u8]) {
    kill(pid);
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Fails if it is already gone, which is fine.
        let _gone = kill_process(pid, Signal::KILL);
    }
}

/// Collects a child that has exited. Returns true if there is nothing left to collect.
fn is_collected(pid: i32) -> bool {
    // `None` means that it still runs. An error means that it is not, or no longer, a child of this process.
    Pid::from_raw(pid).is_none_or(|pid| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn is_alive(pid: i32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Starts a shell that leaves a process in a session of its own behind, and returns its pid.
    fn daemon(mark: &str) -> i32 {
        let mut shell = Command::new("sh");
        shell.args(["-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]).env(MARK, mark);
        let output = shell.stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    #[tokio::test]
    async fn a_daemon_ends_with_its_server_and_with_no_other() {
        adopt_orphans();
        let (one, two) = (Run::new(), Run::new());
        let (first, second) = (daemon(one.mark()), daemon(two.mark()));
        one.end().await;
        assert!(!is_alive(first) && is_alive(second));
        assert!(is_collected(first), "no zombie is left");
        two.end().await;
        assert!(!is_alive(second));
    }
}
