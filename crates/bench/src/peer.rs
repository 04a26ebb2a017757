//! Runs `mcp-proxy` for comparison: another gateway in Rust, which forwards without contracts, approvals and a log.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::case::Server;
use crate::child::{Child, Stdout};

const START_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) child: Child,
    _folder: TempDir,
}

impl Peer {
    pub(crate) async fn start(program: &Path, server: Server, echo: SocketAddr) -> Result<Self> {
        let folder = tempfile::tempdir().context("could not make a folder for mcp-proxy")?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let settings = folder.path().join("proxy.toml");
        std::fs::write(&settings, settings_text(address, server, echo)?)?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&settings);
        let mut child = Child::start("mcp-proxy", command, Stdout::Log)?;
        let deadline = Instant::now() + START_TIMEOUT;
        while tokio::net::TcpStream::connect(address).await.is_err() {
            child.check_alive()?;
            if Instant::now() > deadline {
                bail!("mcp-proxy did not listen on `{address}` in {START_TIMEOUT:?}\n{}", child.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(Peer { address, child, _folder: folder })
    }
}

fn settings_text(address: SocketAddr, server: Server, echo: SocketAddr) -> Result<String> {
    let transport = match server {
        Server::Sessions | Server::Stateless => format!("transport = \"http\"\nurl = \"http://{echo}/mcp\"\n"),
        Server::Stdio => {
            let this = std::env::current_exe().context("could not find this program")?;
            let this = this.display();
            format!("transport = \"stdio\"\ncommand = \"{this}\"\nargs = [\"echo\", \"--server\", \"stdio\"]\n")
        }
    };
    Ok(format!(
        "[proxy]\nname = \"bench\"\nseparator = \"_\"\n\n[proxy.listen]\nhost = \"{}\"\nport = {}\n\n\
         [[backends]]\nname = \"{}\"\n{transport}\n[observability]\nlog_level = \"error\"\n",
        address.ip(),
        address.port(),
        server.name(),
    ))
}
