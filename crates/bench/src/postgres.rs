//! Runs PostgreSQL in a temporary folder, with the settings it is installed with: every commit reaches the disk.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::child::{Child, Stdout, Workers};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
const USER: &str = "bench";
/// PostgreSQL refuses to run as root, so root starts it as this user of the Debian package.
const UNPRIVILEGED: &str = "postgres";

pub(crate) struct Postgres {
    pub(crate) url: String,
    pub(crate) child: Child,
    _folder: TempDir,
}

impl Postgres {
    pub(crate) async fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("could not make a folder for PostgreSQL")?;
        let owner = Owner::find()?;
        if let Some(Owner { uid, gid }) = owner {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        let data = folder.path().join("data");
        let mut initdb = run_as(owner);
        initdb.arg(program("initdb")?).arg("-D").arg(&data).args(["-U", USER, "-A", "trust", "--no-instructions"]);
        let output = initdb.output().context("could not run initdb")?;
        if !output.status.success() {
            bail!("initdb ended with {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = run_as(owner);
        command.arg(program("postgres")?).arg("-D").arg(&data).arg("-k").arg(folder.path());
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        let mut child = Child::start("PostgreSQL", command, Stdout::Log)?.with_workers(Workers::Children);
        let deadline = Instant::now() + START_TIMEOUT;
        while !accepts(folder.path(), port)? {
            child.check_alive()?;
            if Instant::now() > deadline {
                bail!("PostgreSQL was not ready in {START_TIMEOUT:?}\n{}", child.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
        let url = format!("postgres://{USER}@127.0.0.1:{port}/postgres?sslmode=disable");
        Ok(Postgres { url, child, _folder: folder })
    }
}

#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Returns the user to run PostgreSQL as, or `None` for the user who runs the benchmark.
    fn find() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let id = |option: &str| -> Result<u32> {
            let output = Command::new("id").args([option, UNPRIVILEGED]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            text.parse().with_context(|| format!("the user `{UNPRIVILEGED}` does not exist"))
        };
        Ok(Some(Owner { uid: id("-u")?, gid: id("-g")? }))
    }
}

fn run_as(owner: Option<Owner>) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(Owner { uid, gid }) = owner {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
    }
    command.args(["--pdeathsig", "TERM", "--"]).current_dir("/");
    command
}

fn accepts(socket: &Path, port: u16) -> Result<bool> {
    let mut command = Command::new(program("pg_isready")?);
    command.arg("-q").arg("-h").arg(socket).args(["-p", &port.to_string()]);
    Ok(command.status()?.success())
}

/// Debian keeps the server's programs out of PATH, in a folder for each version.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<_> = versions.filter_map(Result::ok).map(|version| version.path().join("bin")).collect();
        versions.sort();
        folders.extend(versions.into_iter().rev());
    }
    folders
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .with_context(|| format!("`{name}` is not installed. Install PostgreSQL with `apt-get install postgresql`"))
}
