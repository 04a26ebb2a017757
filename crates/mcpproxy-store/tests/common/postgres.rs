//! Runs a PostgreSQL server in a temporary folder, for as long as a test of this process uses it.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const USER: &str = "mcpproxy";
const FOLDER: &str = "mcpproxy-store-tests-";
/// PostgreSQL refuses to run as root, so root starts it as one of these users.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];
const NO_PROGRAM: &str =
    "PostgreSQL is not installed, and every test of the store runs on it, too: run ./scripts/setup";

/// One server and its folder. Both are removed when the last test that holds it ends. If this process is killed, the
/// kernel ends the server.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    owner: Option<Owner>,
    pub(crate) port: u16,
    fsync: Fsync,
    server: Mutex<Option<Child>>,
    databases: AtomicU32,
}

/// The `fsync` setting of the PostgreSQL server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fsync {
    /// Faster, and enough for most tests.
    Off,
    /// For tests that crash the server.
    On,
}

#[derive(Clone)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Cluster {
    /// The server that all tests of this process share.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start(Fsync::Off));
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    /// Starts a server for one test alone.
    pub(crate) fn start(fsync: Fsync) -> Self {
        remove_leftovers();
        let owner = owner();
        let folder = new_folder();
        copy_template(&folder.path().join("data"), owner.as_ref());
        give(folder.path(), owner.as_ref());
        let (server, databases) = (Mutex::new(None), AtomicU32::new(0));
        let cluster = Self { folder, owner, port: free_port(), fsync, server, databases };
        cluster.resume();
        cluster
    }

    /// Starts the server again, at the same address.
    pub(crate) fn resume(&self) {
        let fsync = if self.fsync == Fsync::On { "on" } else { "off" };
        let mut command = as_owner(self.owner.as_ref());
        command.arg(program("postgres")).arg("-D").arg(self.folder.path().join("data"));
        command.arg("-k").arg(self.folder.path()).args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        command.args(["-c", &format!("fsync={fsync}"), "-c", &format!("full_page_writes={fsync}")]);
        command.args(["-c", "shared_buffers=32MB", "-c", "max_connections=60", "-c", "autovacuum=off"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log());
        let mut server = spawn_for_this_process(command);
        let begin = Instant::now();
        while !self.accepts() {
            assert!(server.try_wait().unwrap().is_none(), "PostgreSQL did not start: {}", self.words());
            assert!(begin.elapsed() < START_TIMEOUT, "PostgreSQL does not accept connections: {}", self.words());
            thread::sleep(Duration::from_millis(5));
        }
        *self.server.lock().unwrap() = Some(server);
    }

    /// Stops the server as a power failure does: nothing is finished, and connections break.
    pub(crate) fn crash(&self) {
        self.end("QUIT");
    }

    /// Stops the server from answering, while connections stay open.
    pub(crate) fn freeze(&self) {
        self.signal_all("STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal_all("CONT");
    }

    /// Creates an empty database and returns its URL.
    pub(crate) fn new_database(&self, options: &str) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} {options}"));
        format!("postgres://{USER}@127.0.0.1:{}/{name}?sslmode=disable", self.port)
    }

    /// Runs statements directly on the database, and returns their output.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let mut command = Command::new(program("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-p", &self.port.to_string()]);
        let output = command.arg("-h").arg(self.folder.path()).args(["-d", database, "-c", sql]).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn end(&self, signal: &str) {
        if let Some(mut server) = self.server.lock().unwrap_or_else(PoisonError::into_inner).take() {
            kill(signal, server.id());
            let _status = server.wait();
        }
    }

    fn signal_all(&self, signal: &str) {
        let server = self.server.lock().unwrap().as_ref().unwrap().id();
        // Stop the parent first, or it would replace children that seem to hang.
        kill(signal, server);
        for child in children(server) {
            kill(signal, child);
        }
    }

    fn accepts(&self) -> bool {
        let mut command = Command::new(program("pg_isready"));
        command.arg("-q").arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        command.status().unwrap().success()
    }

    fn log(&self) -> File {
        File::options().create(true).append(true).open(self.folder.path().join("log.txt")).unwrap()
    }

    fn words(&self) -> String {
        fs::read_to_string(self.folder.path().join("log.txt")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end("QUIT");
    }
}

/// Creates a folder named after this process, so that others can tell when it is no longer used.
fn new_folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix(&format!("{FOLDER}{}-", std::process::id())).tempdir().unwrap()
}

/// Removes folders of processes that were killed.
fn remove_leftovers() {
    for found in fs::read_dir(std::env::temp_dir()).unwrap().filter_map(Result::ok) {
        let name = found.file_name().into_string().unwrap_or_default();
        let process = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _others_may_be_faster = fs::remove_dir_all(found.path());
        }
    }
}

/// Starts a child on a thread that lives as long as the process, because the kernel ends a child with the thread that
/// started it.
fn spawn_for_this_process(mut command: Command) -> Child {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static ORDERS: Mutex<Option<mpsc::Sender<Order>>> = Mutex::new(None);
    let mut orders = ORDERS.lock().unwrap();
    let orders = orders.get_or_insert_with(|| {
        let (orders, received) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in received {
                let _gone = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, child) = mpsc::channel();
    command.stdin(Stdio::null());
    orders.send((command, answer)).unwrap();
    child.recv().unwrap().unwrap()
}

/// Copies a cluster that was never started. Creating one takes longer than copying, so it is created once.
fn copy_template(to: &Path, owner: Option<&Owner>) {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("postgres-template");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    let lock = File::create(kept.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !is_current(&kept) {
        let _none = fs::remove_dir_all(&kept);
        let made = new_folder();
        give(made.path(), owner);
        let data = made.path().join("data");
        let mut initdb = as_owner(owner);
        initdb.arg(program("initdb")).arg("-D").arg(&data).args(["-U", USER, "-A", "trust", "-E", "UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1"]);
        let output = initdb.output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        copy(&data, &kept);
        fs::write(kept.join("made_by"), version()).unwrap();
    }
    copy(&kept, to);
    fs::remove_file(to.join("made_by")).unwrap();
    if let Some(Owner { uid, gid }) = owner {
        let status = Command::new("chown").arg("-R").arg(format!("{uid}:{gid}")).arg(to).status().unwrap();
        assert!(status.success(), "chown");
    }
}

fn is_current(kept: &Path) -> bool {
    fs::read_to_string(kept.join("made_by")).is_ok_and(|by| by == version())
}

fn version() -> String {
    let output = Command::new(program("postgres")).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg("--preserve=mode").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp");
}

fn give(folder: &Path, owner: Option<&Owner>) {
    if let Some(Owner { uid, gid }) = owner {
        chown(folder, Some(*uid), Some(*gid)).unwrap();
    }
}

/// Returns the user who runs the server, or `None` for the user who runs the tests.
fn owner() -> Option<Owner> {
    let id = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    UNPRIVILEGED.iter().find_map(|name| Some(Owner { uid: id(&["-u", name])?, gid: id(&["-g", name])? }))
}

/// Returns a command that runs as this user and ends with this process.
fn as_owner(owner: Option<&Owner>) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(Owner { uid, gid }) = owner {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
    }
    command.args(["--pdeathsig", "QUIT", "--"]).current_dir("/");
    command
}

fn program(name: &str) -> PathBuf {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<PathBuf> = std::env::split_paths(&in_path).collect();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|version| version.unwrap().path().join("bin")).collect();
    debian.sort();
    let found = in_path.into_iter().chain(debian.into_iter().rev()).map(|folder| folder.join(name));
    found.into_iter().find(|path| path.is_file()).expect(NO_PROGRAM)
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn children(of: u32) -> Vec<u32> {
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", &of.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn kill(signal: &str, pid: u32) {
    let _gone = Command::new("kill").args(["-s", signal, &pid.to_string()]).stderr(Stdio::null()).status();
}
