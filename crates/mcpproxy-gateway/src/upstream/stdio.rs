//! Servers that are child processes: each runs in its own process group, which is stopped as a whole. Children that left
//! the group end too (`descendants.rs`).

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcpproxy_core::settings::Secret;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::allowance::Excess;
use super::descendants::{MARK, Run};
use super::diagnosis;
use super::duplex::{Duplex, Outlet};
use super::error::UpstreamError;
use super::lines::{Line, Lines};
use super::lines_out::LinesOut;
use super::log::ServerLog;
use super::notices::Notices;
use super::orphans::Note;
use crate::message;
use crate::offload::is_large;

/// Variables of the gateway that every process gets: what programs need to run, to find the network and to speak the
/// user's language. All others come from the settings, because any of them may hold a secret.
const INHERITED: [&str; 26] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TZ",
    "SYSTEMROOT",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];
/// Starts of further such variables: the locale, and the user's folders.
const INHERITED_STARTS: [&str; 2] = ["LC_", "XDG_"];

/// Time for a process to exit after each request to do so.
const PATIENCE: Duration = Duration::from_millis(1000);
const STDERR_LINE_MAX: usize = 8 * 1024;
/// An oversized message must end within this time and these bytes after the limit. Otherwise it has no end, and the server
/// is restarted.
const SKIP_TIME: Duration = Duration::from_secs(10);
const SKIP_MAX_BYTES: usize = 256 * 1024 * 1024;

pub(crate) struct Program<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, Secret)],
    /// Names of further variables of the gateway that it gets.
    pub(crate) passthrough: &'a [String],
    pub(crate) cwd: Option<&'a str>,
    /// Longest message it may send.
    pub(crate) limit: usize,
}

/// A running server process and the connection to it.
pub(crate) struct Process {
    pub(crate) line: Arc<Duplex>,
    pub(crate) pid: Option<u32>,
    child: Child,
    /// The process with all its descendants. `None` once they were ended.
    run: Option<Run>,
    log: Arc<ServerLog>,
    /// Ends when the process has closed its standard error.
    stderr: JoinHandle<()>,
    /// Identifies the process for the next gateway, until it has exited.
    _note: Option<Note>,
}

pub(crate) fn start(
    program: &Program<'_>,
    log: Arc<ServerLog>,
    notices: Arc<Notices>,
) -> Result<Process, UpstreamError> {
    let mut command = Command::new(program.command);
    command.args(program.args).env_clear();
    let passes = |name: &str| is_inherited(name) || program.passthrough.iter().any(|passed| passed == name);
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(passes)));
    command.envs(program.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(cwd) = program.cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Run::new();
    command.env(MARK, run.mark());
    command.process_group(0).kill_on_drop(true);
    log.begin_run();
    let mut child = command.spawn().map_err(|error| spawn_error(program, &error))?;
    run.led_by(child.id());
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(UpstreamError::Closed);
    };
    let note = child.id().and_then(|pid| Note::write(log.path(), pid));
    let line = Duplex::new(Outlet::Stdin(LinesOut::new(stdin)), notices);
    tokio::spawn(read_stdout(stdout, Arc::clone(&line), program.limit, Arc::clone(&log)));
    let stderr = tokio::spawn(read_stderr(stderr, Arc::clone(&log)));
    Ok(Process { line, pid: child.id(), child, run: Some(run), log, stderr, _note: note })
}

impl Process {
    /// Stops the process and everything it started: first by closing its input, then by signals to the whole group.
    pub(crate) async fn stop(mut self) {
        self.line.close().await;
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _late = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        }
        // Kill even if the leader has exited, because its children may still run.
        self.signal(Signal::KILL);
        let _status = self.child.wait().await;
        // From here on the process id may belong to another process.
        self.pid = None;
        if let Some(run) = self.run.take() {
            run.end().await;
        }
    }

    fn signal(&self, signal: Signal) {
        let group = self.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(group) = group.filter(|leader| !self.is_reused(*leader)) {
            // Fails if the group is already gone, which is fine.
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Returns true if another process has the id of the leader. The kernel does not reuse an id while a process group
    /// with that id exists, so then the group is gone.
    fn is_reused(&self, leader: Pid) -> bool {
        // Until somebody has waited for the leader, the id is its own, even if it has exited.
        self.child.id().is_none() && test_kill_process(leader) != Err(Errno::SRCH)
    }

    /// Adds the exit status, and the line of standard error that explains it, to the error of a lost connection.
    pub(crate) async fn explained(&mut self, error: UpstreamError) -> UpstreamError {
        if !matches!(error, UpstreamError::Exited(_) | UpstreamError::Closed | UpstreamError::Unsent) {
            return error;
        }
        let how = match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its output was closed".to_owned(),
        };
        let _late = tokio::time::timeout(PATIENCE, &mut self.stderr).await;
        let lines = self.log.run();
        let line = diagnosis::error_line(&lines).or(lines.last());
        let wrote = line.map(|line| format!("; it wrote: {}", line.for_terminal()));
        UpstreamError::Exited(how + &wrote.unwrap_or_default())
    }
}

/// Kills a process that was dropped without `stop`, such as one whose handshake timed out, with all its children.
impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // Without a runtime the whole program ends, and so do its orphans.
        if let (Some(run), Ok(runtime)) = (self.run.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(run.end());
        }
    }
}

/// Returns true if every process gets this variable of the gateway.
pub(super) fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name) || INHERITED_STARTS.iter().any(|start| name.starts_with(start))
}

fn spawn_error(program: &Program<'_>, error: &std::io::Error) -> UpstreamError {
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound if program.cwd.is_some_and(|cwd| !std::path::Path::new(cwd).is_dir()) => {
            "its `cwd` does not exist".to_owned()
        }
        std::io::ErrorKind::NotFound if program.command.contains(' ') => {
            "command not found; put arguments in `args`".to_owned()
        }
        std::io::ErrorKind::NotFound => "command not found".to_owned(),
        _ => error.to_string(),
    };
    UpstreamError::Spawn { command: program.command.to_owned(), reason }
}

async fn read_stdout(stdout: ChildStdout, line: Arc<Duplex>, limit: usize, log: Arc<ServerLog>) {
    let mut lines = Lines::new(stdout, limit, SKIP_MAX_BYTES);
    let inbox = Arc::new(Inbox { line: Arc::clone(&line), log, has_noise: AtomicBool::new(false) });
    let mut large: Option<JoinHandle<()>> = None;
    let mut skip_until = Instant::now();
    let end = loop {
        let next = if lines.is_skipping() {
            tokio::time::timeout_at(skip_until, lines.next()).await.unwrap_or(Some(Line::Endless))
        } else {
            lines.next().await
        };
        match next {
            // Takes milliseconds. The next line may be an answer for another agent, which need not wait for that.
            Some(Line::Whole(bytes)) if is_large(bytes.len()) => {
                taken(large.take()).await;
                let inbox = Arc::clone(&inbox);
                large = Some(tokio::spawn(async move { inbox.take(&bytes).await }));
            }
            Some(Line::Whole(bytes)) => inbox.take(&bytes).await,
            Some(Line::Overflows { head }) => {
                skip_until = Instant::now() + SKIP_TIME;
                line.overflows(&head, limit);
            }
            Some(Line::TooLong { tail }) => line.oversized(&tail, limit),
            Some(Line::Endless) => break UpstreamError::Excess(Excess::Endless(limit)),
            None => break UpstreamError::Exited(String::new()),
        }
    };
    taken(large).await;
    line.end(&end);
}

/// Takes the lines that a process writes on its standard output.
struct Inbox {
    line: Arc<Duplex>,
    log: Arc<ServerLog>,
    /// Set after the first line that is no message. Only this one is logged.
    has_noise: AtomicBool,
}

impl Inbox {
    async fn take(&self, bytes: &[u8]) {
        let understood = match message::read_server(bytes) {
            Ok(text) => self.line.incoming(text).await.is_ok(),
            Err(_) => false,
        };
        if !understood && !bytes.trim_ascii().is_empty() && !self.has_noise.swap(true, Ordering::Relaxed) {
            self.log.remark("ignored a line on standard output that is not an MCP message:");
            self.log.line(bytes);
        }
    }
}

/// Waits until a large line was taken. So there is one of them in memory, and one that is read.
async fn taken(large: Option<JoinHandle<()>>) {
    if let Some(large) = large {
        // Fails if the runtime ends.
        let _ended = large.await;
    }
}

async fn read_stderr(stderr: ChildStderr, log: Arc<ServerLog>) {
    // A line without end does no harm here, because nobody waits for what follows it.
    let mut lines = Lines::new(stderr, STDERR_LINE_MAX, usize::MAX);
    while let Some(line) = lines.next().await {
        match line {
            Line::Whole(bytes) => log.line(&bytes),
            Line::Overflows { head } => log.line(&head),
            Line::TooLong { .. } | Line::Endless => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_every_process_gets() {
        for name in ["PATH", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "no_proxy", "LC_CTYPE", "XDG_CACHE_HOME", "TZ"] {
            assert!(is_inherited(name), "{name}");
        }
        for name in
            ["GITHUB_TOKEN", "MCPPROXY_HOME", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "Path", "LC", "SSH_AUTH_SOCK"]
        {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
