//! Stops server processes that outlived their gateway. A killed gateway cannot stop them, so the next one does.
//!
//! While a server process runs, a small file identifies it. At its start, a gateway reads the files of gateways that
//! are gone and kills the process groups they name. Only Linux tells enough about processes to do this without killing
//! an unrelated one.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process_group};

use super::log::create_folder;
use crate::own_file;

const EXTENSION: &str = "pid";
/// Longer than any of these files.
const NOTE_MAX_BYTES: u64 = 4096;

/// The file that identifies a running server process. Dropping it removes the file.
pub(crate) struct Note {
    path: PathBuf,
}

/// Identifies a process, even if its number is reused later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    pid: i32,
    started: u64,
}

impl Note {
    /// Writes the file next to the server's log. If that fails, only the cleanup after a crash is lost.
    pub(crate) fn write(log: &Path, pid: u32) -> Option<Self> {
        let own = Identity::of(i32::try_from(std::process::id()).ok()?)?;
        let leader = Identity::of(i32::try_from(pid).ok()?)?;
        let path = log.with_extension(format!("{pid}.{EXTENSION}"));
        let text = format!("{} {} {} {} {}\n", boot()?, own.pid, own.started, leader.pid, leader.started);
        create_folder(log.parent()?).ok()?;
        let mut file = own_file::create(&path).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        Some(Self { path })
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

/// Kills the process groups that earlier gateways left behind. Returns their number.
pub(crate) fn sweep(folder: &Path) -> usize {
    let Ok(files) = fs::read_dir(folder) else { return 0 };
    let notes = files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == EXTENSION));
    notes.filter(|path| sweep_one(path)).count()
}

fn sweep_one(path: &Path) -> bool {
    let text = read(path).unwrap_or_default();
    let Some((noted_boot, gateway, leader)) = parse(&text) else { return remove(path) };
    // After a reboot the process ids mean nothing.
    if Some(noted_boot) != boot().as_deref() {
        return remove(path);
    }
    if Identity::of(gateway.pid) == Some(gateway) {
        return false;
    }
    // The kernel does not reuse an id while a process group with that id exists. If the leader is gone, the group is
    // still ours. If another process has the id now, the group is gone.
    let is_ours = Identity::of(leader.pid).is_none_or(|found| found == leader);
    let was_ended =
        is_ours && Pid::from_raw(leader.pid).is_some_and(|group| kill_process_group(group, Signal::KILL).is_ok());
    remove(path);
    was_ended
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    own_file::read(path)?.take(NOTE_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn remove(path: &Path) -> bool {
    let _gone = fs::remove_file(path);
    false
}

fn parse(text: &str) -> Option<(&str, Identity, Identity)> {
    let mut words = text.split_whitespace();
    let boot = words.next()?;
    let mut identity = || Some(Identity { pid: words.next()?.parse().ok()?, started: words.next()?.parse().ok()? });
    Some((boot, identity()?, identity()?))
}

impl Identity {
    fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The process name in parentheses may contain anything. The fields after it may not.
        let after_name = stat.rsplit_once(')')?.1;
        let state = after_name.split_whitespace().next()?;
        let started = after_name.split_whitespace().nth(19)?.parse().ok()?;
        // A zombie has exited, but its parent has not reaped it.
        (state != "Z").then_some(Self { pid, started })
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").process_group(0).spawn().unwrap()
    }

    fn leave_note(folder: &Path, gateway: Identity, leader: Identity) -> PathBuf {
        let path = folder.join(format!("fx-{}.pid", leader.pid));
        let text = format!("{} {} {} {} {}", boot().unwrap(), gateway.pid, gateway.started, leader.pid, leader.started);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_note_does_not_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let (log, pid) = (folder.path().join("fx.log"), std::process::id());
        let precious = folder.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        std::os::unix::fs::symlink(&precious, log.with_extension(format!("{pid}.pid"))).unwrap();
        assert!(Note::write(&log, pid).is_none());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");

        // A note elsewhere that names a process of ours, and a link to it.
        let (elsewhere, mut child) = (tempfile::tempdir().unwrap(), sleeper());
        let leader = Identity::of(i32::try_from(child.id()).unwrap()).unwrap();
        let note = leave_note(elsewhere.path(), Identity { started: 1, ..leader }, leader);
        std::os::unix::fs::symlink(&note, folder.path().join("linked.pid")).unwrap();
        assert_eq!(sweep(folder.path()), 0);
        assert!(child.try_wait().unwrap().is_none() && note.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn ends_only_what_a_dead_gateway_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut orphan = sleeper();
        let mut stranger = sleeper();
        let mut alive = sleeper();
        let identity = |child: &Child| Identity::of(i32::try_from(child.id()).unwrap()).unwrap();
        let dead_gateway = Identity { pid: identity(&orphan).pid, started: 1 };
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        leave_note(folder.path(), dead_gateway, identity(&orphan));
        // The id was reused, so the file is about another process.
        leave_note(folder.path(), dead_gateway, Identity { started: 2, ..identity(&stranger) });
        let kept = leave_note(folder.path(), own, identity(&alive));
        fs::write(folder.path().join("broken.pid"), "nonsense").unwrap();
        assert_eq!(sweep(folder.path()), 1);
        assert!(!orphan.wait().unwrap().success());
        assert!(stranger.try_wait().unwrap().is_none() && alive.try_wait().unwrap().is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().flatten().map(|f| f.path()).collect::<Vec<_>>(), [kept]);
        for child in [&mut stranger, &mut alive] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
