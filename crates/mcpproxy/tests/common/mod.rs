//! Runs `mcpproxy` commands and gateways, each on a separate data folder.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod person;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Long enough for a loaded machine. Only a bug reaches this timeout.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn make(&self, name: &str) {
        std::fs::create_dir(self.file(name)).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.file(from), self.file(to)).unwrap();
    }

    pub(crate) fn link(&self, name: &str, to: &str) {
        std::os::unix::fs::symlink(to, self.file(name)).unwrap();
    }

    /// Creates a named pipe without a writer.
    pub(crate) fn pipe(&self, name: &str) {
        use rustix::fs::{CWD, FileType, mknodat};
        mknodat(CWD, self.file(name), FileType::Fifo, 0o600.into(), 0).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).unwrap();
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mcpproxy"));
        command.args(args).env_remove("MCPPROXY_LOG").env("MCPPROXY_HOME", self.path()).env("TZ", "UTC");
        command
    }

    /// Returns the exit code and all output of a command. The path of the folder becomes `FOLDER`.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let all = format!("exit {}\n--- stdout\n{stdout}--- stderr\n{stderr}", output.status.code().unwrap());
        all.replace(&self.path().display().to_string(), "FOLDER")
    }

    /// Returns the JSON output of a command, which must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).args(["-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// A gateway that runs on a folder until it is dropped.
pub(crate) struct Serving<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) address: String,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl<'a> Serving<'a> {
    /// Starts a gateway and waits until its servers have connected or failed.
    pub(crate) fn start(folder: &'a Folder) -> Self {
        let serving = Self::start_connecting(folder);
        serving.wait("ready", || serving.get("/readyz").starts_with("HTTP/1.1 200"));
        serving
    }

    pub(crate) fn start_connecting(folder: &'a Folder) -> Self {
        let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut address = None;
        let mut lines = stderr.lines();
        let said = Arc::new(Mutex::new(String::new()));
        for line in lines.by_ref().map(Result::unwrap) {
            *said.lock().unwrap() += &format!("{line}\n");
            if let Some((_, found)) = line.split_once("listens on http://") {
                address = Some(found.to_owned());
                break;
            }
        }
        // Keep reading, so that a full pipe never blocks the gateway.
        let rest = Arc::clone(&said);
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| *rest.lock().unwrap() += &format!("{line}\n"))
        });
        Self { folder, address: address.expect("the banner names the address"), child, said }
    }

    /// Returns true if the gateway printed this text on standard error.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said.lock().unwrap().contains(text)
    }

    /// Returns the first printed word with this prefix.
    pub(crate) fn said_word(&self, beginning: &str) -> Option<String> {
        let said = self.said.lock().unwrap();
        said.split_whitespace().find(|word| word.starts_with(beginning)).map(str::to_owned)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a GET request with the admin key and returns the answer.
    pub(crate) fn admin(&self, path: &str) -> Value {
        let mut stream = self.connect();
        let key = self.folder.read("admin.key");
        let head = format!("Host: {}\r\nX-API-Key: {}\r\nConnection: close", self.address, key.trim());
        write!(stream, "GET {path} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    pub(crate) fn wait(&self, what: &str, done: impl FnMut() -> bool) {
        wait(what, done);
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = self.child.id();
        terminate(pid);
        let (ended, watch) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let is_late = watch.recv_timeout(PATIENCE).is_err();
            if is_late {
                kill(pid);
            }
            is_late
        });
        let status = self.child.wait().unwrap();
        let _watchdog_is_gone = ended.send(());
        assert!(!watchdog.join().unwrap(), "the gateway did not stop");
        status.code()
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _already_gone = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

pub(crate) fn terminate(pid: u32) {
    signal(pid, rustix::process::Signal::TERM);
}

fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Replaces everything that differs between runs: ids, ports and times of approvals.
pub(crate) fn steady(text: &str) -> String {
    let is_id =
        |word: &str| word.len() == 26 && word.starts_with("01") && word.bytes().all(|b| b.is_ascii_alphanumeric());
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_port = out.ends_with("localhost:") && word.bytes().all(|b| b.is_ascii_digit());
        out.push_str(if is_id(&word) {
            "ID"
        } else if is_port {
            "PORT"
        } else {
            &word
        });
        word.clear();
        out.push(c);
    }
    out.trim_end_matches('\0').to_owned()
}

/// Polls until the condition is true.
pub(crate) fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the names in the `Commands:` section of a help text.
pub(crate) fn subcommands(help: &str) -> Vec<&str> {
    let section = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = section.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).collect()
}
