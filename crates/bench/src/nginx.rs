//! Runs nginx for comparison: a plain reverse proxy with keep-alive connections on both sides.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::child::{Child, Stdout, Workers};

const START_ATTEMPTS: usize = 5;
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    pub(crate) child: Child,
    _folder: TempDir,
}

impl Nginx {
    pub(crate) async fn start(upstream: SocketAddr) -> Result<Self> {
        let program = find_program()?;
        let mut last_error = None;
        // nginx cannot choose a free port itself, and the port found here may be taken before nginx binds it.
        for _ in 0..START_ATTEMPTS {
            let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            match Self::start_at(&program, address, upstream).await {
                Ok(nginx) => return Ok(nginx),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.context("nginx was never started")?)
    }

    async fn start_at(program: &PathBuf, address: SocketAddr, upstream: SocketAddr) -> Result<Self> {
        let folder = tempfile::tempdir().context("could not make a folder for nginx")?;
        let settings = folder.path().join("nginx.conf");
        std::fs::write(&settings, settings_text(address, upstream))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).arg("-c").arg(&settings).args(["-e", "stderr"]);
        let mut child = Child::start("nginx", command, Stdout::Log)?.with_workers(Workers::Children);
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            child.check_alive()?;
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                break;
            }
            if Instant::now() > deadline {
                bail!("nginx did not listen on `{address}` in {START_TIMEOUT:?}\n{}", child.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(Nginx { address, child, _folder: folder })
    }
}

fn find_program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs nginx in a folder that is only in root's PATH.
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("nginx"))
        .find(|program| program.is_file())
        .context("nginx is not installed. Install it with `apt-get install nginx-light`, or leave it out with --paths")
}

fn settings_text(address: SocketAddr, upstream: SocketAddr) -> String {
    // As root, nginx would run its workers as a user who cannot read our folder.
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    // Buffers hold the largest payload. With a temporary file, nginx waits 40 ms for delayed acknowledgements.
    format!(
        "{user}\
daemon off;
worker_processes auto;
error_log stderr warn;
pid nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    client_max_body_size 16m;
    client_body_buffer_size 16m;
    proxy_buffers 256 64k;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream echo {{
        server {upstream};
        keepalive 512;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {address};
        location / {{
            proxy_pass http://echo;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
"
    )
}
