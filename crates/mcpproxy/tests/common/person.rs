//! A simulated user at a pseudo-terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::wait;

pub(crate) struct Person {
    terminal: File,
    /// Kept open while the command runs, so that the terminal stays as the command left it.
    inside: Option<File>,
    /// Set when the command has left.
    left_echo: bool,
    child: Child,
    /// Reads the terminal. Ends when no program has it open, after everything was read.
    reader: JoinHandle<()>,
    seen: Arc<Mutex<String>>,
    /// Number of bytes of `seen` that were already checked.
    read: usize,
}

impl Person {
    /// Starts a command in its own pseudo-terminal.
    pub(crate) fn runs(command: &Command) -> Self {
        let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let open = || std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        // `setsid --ctty` makes standard input the controlling terminal of the command.
        let mut inside = Command::new("setsid");
        inside.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        let child = inside.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        let terminal = File::from(terminal);
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut eyes, memory) = (terminal.try_clone().unwrap(), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = eyes.read(&mut bytes) {
                memory.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { terminal, inside: Some(open()), left_echo: false, child, reader, seen, read: 0 }
    }

    /// Waits until this text appears on the screen, after the previous match.
    pub(crate) fn sees(&mut self, text: &str) {
        let mut found = None;
        wait(&format!("{text:?} on the terminal"), || {
            let seen = self.seen.lock().unwrap();
            found = seen.get(self.read..).and_then(|rest| rest.find(text));
            found.is_some()
        });
        self.read += found.unwrap() + text.len();
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Returns everything that appeared on the screen.
    pub(crate) fn screen(&self) -> String {
        self.seen.lock().unwrap().replace("\r\n", "\n")
    }

    /// Returns true if the terminal echoes typed text, or did when the command left.
    pub(crate) fn has_echo(&self) -> bool {
        let modes = self.inside.as_ref().map(|inside| tcgetattr(inside).unwrap().local_modes);
        modes.map_or(self.left_echo, |modes| modes.contains(LocalModes::ECHO))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the command to exit and returns its exit code. Its last words are on the screen then.
    pub(crate) fn leaves(&mut self) -> Option<i32> {
        let mut ended = None;
        wait("the command to end", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        self.left_echo = self.has_echo();
        self.inside = None;
        wait("the end of the terminal", || self.reader.is_finished());
        ended.unwrap().code()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }
}
