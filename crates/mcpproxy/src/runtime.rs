//! A gateway on a data folder: everything `serve` and `stdio` start, and how it ends.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use mcpproxy_core::settings::{self, Settings, StorageSettings, StorageUrl};
use mcpproxy_gateway::{Gateway, Options};
use mcpproxy_store::{Ledger, LedgerOptions, Location, Store};
use mcpproxy_web::{AdminKey, Facts, Guard, Web};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Failure};
use crate::home::{Home, Lock};
use crate::http_server::{HttpServer, Listeners};
use crate::local_agent::{self, LocalAgent};
use crate::operator_files::{self, Read};
use crate::reload::Reload;
use crate::settings_file;

/// Longer than the gateway gives its servers to end, and short enough for whoever sent the signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// How often the kernel may choose a port.
const PORTS_TRIED: usize = 8;
/// A log that does not take a record within a second refuses it.
const LOG_PATIENCE: Duration = Duration::from_millis(900);

pub(crate) struct Runtime {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    pub(crate) local: LocalAgent,
    pub(crate) settings: Settings,
    /// Where users reach the gateway.
    pub(crate) base_url: String,
    pub(crate) store: Store,
    /// Whether there was a settings file, or the demo was started in its place.
    pub(crate) has_settings_file: bool,
    server: HttpServer,
    /// Ends the streams that would otherwise never end.
    stopping: CancellationToken,
    reload: Reload,
    /// Released last: whoever gets it next finds everything closed.
    _lock: Lock,
}

/// Where to listen.
pub(crate) enum Listen {
    /// Here, or where the settings say.
    Exactly(Option<SocketAddr>),
    /// At any free port of this machine: who needs it finds it in `gateway.lock`.
    Somewhere,
}

impl Runtime {
    pub(crate) async fn start(home: &Home, listen: Listen) -> anyhow::Result<Self> {
        home.create()?;
        let path = home.settings();
        let seen = operator_files::look(&path);
        seen.warn_of_left_out();
        let Read { files, has_settings: has_settings_file, .. } = operator_files::read(&path, None)?;
        let settings = Settings::clone(&files.settings);
        let mut lock = home.take_lock()?;
        raise_file_limit();

        let listeners = bind(&settings, listen).await?;
        let address = listeners.main.local_addr()?;
        let admin_key = home.admin_key_or_new()?;
        let location = location_of(home, &settings.storage);
        let store = Store::open(&location).await?;
        let ledger = open_ledger(home, &store, &settings).await?;
        let local = local_agent::open(home, &store, &local_agent::name(&location, ledger.verifier())).await?;

        let program = std::env::current_exe().context("could not find out which program this is")?;
        let own_url = own_url(address);
        let base_url = settings.approvals.public_url.clone().unwrap_or_else(|| own_url.clone());
        let gateway = Gateway::start(Options {
            files: files.clone(),
            store: store.clone(),
            ledger: ledger.clone(),
            logs: home.logs(),
            base_url: own_url,
            demo_command: vec![program.display().to_string(), "demo-server".to_owned()],
        });
        let guard = Guard::new(address.port(), &settings.allowed_hosts, &settings.allowed_origins);
        let stopping = CancellationToken::new();
        let app = mcpproxy_web::app(Web {
            gateway: gateway.clone(),
            store: store.clone(),
            ledger,
            admin_key: AdminKey::new(admin_key),
            guard: guard.clone(),
            facts: Facts {
                version: env!("CARGO_PKG_VERSION"),
                address: address.to_string(),
                base_url: base_url.clone(),
                started: Instant::now(),
                settings_path: path.clone(),
                now_ms,
            },
            stopping: stopping.clone(),
        });
        let server = HttpServer::new(listeners, app);
        let reload = Reload::new(path, seen, files, gateway.clone(), guard);
        lock.announce(&address.to_string())?;
        Ok(Self {
            gateway,
            address,
            local,
            settings,
            base_url,
            store,
            has_settings_file,
            server,
            stopping,
            reload,
            _lock: lock,
        })
    }

    /// Serves until `end` is there, then stops everything in order.
    pub(crate) async fn run_until<T>(self, end: impl Future<Output = T>) -> T {
        let ended = tokio::select! {
            ended = end => ended,
            () = self.server.run() => std::future::pending().await,
            () = self.reload.run() => std::future::pending().await,
        };
        self.stopping.cancel();
        let stop = async { tokio::join!(self.server.finish(), self.gateway.stop()) };
        if tokio::time::timeout(STOP_TIMEOUT, stop).await.is_err() {
            tracing::warn!("stopped without waiting for everything to end");
        }
        ended
    }
}

/// What comes before the path in links for users, if the settings do not say. Passkeys need a name, so it is not the number of this machine.
fn own_url(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_loopback() || ip.is_unspecified() => format!("http://localhost:{}", address.port()),
        _ => format!("http://{address}"),
    }
}

/// Takes up the chain of this data folder.
async fn open_ledger(home: &Home, store: &Store, settings: &Settings) -> anyhow::Result<Ledger> {
    let options = LedgerOptions {
        key: home.signing_key_or_new()?,
        newest_checkpoint: Some(home.checkpoint()),
        checkpoints_to: settings.activity.checkpoints_to.as_ref().map(|path| home.folder().join(path)),
        retention: settings.activity.retention,
        patience: LOG_PATIENCE,
        now_ms,
    };
    let ledger = Ledger::start(store, options).await?;
    let interrupted = ledger.interrupted();
    if interrupted > 0 {
        tracing::warn!(
            "{interrupted} calls were under way when the gateway last stopped; they are marked as interrupted"
        );
    }
    Ok(ledger)
}

pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The database the tokens and records of this folder are in.
pub(crate) fn location(home: &Home) -> anyhow::Result<Location> {
    Ok(location_of(home, &settings_file::read_storage(&home.settings())?))
}

fn location_of(home: &Home, storage: &StorageSettings) -> Location {
    match &storage.url {
        Some(StorageUrl::Sqlite(path)) => Location::Sqlite(home.folder().join(path)),
        Some(StorageUrl::Postgres(url)) => Location::Postgres(url.expose().to_owned()),
        None => Location::Sqlite(home.database()),
    }
}

/// The signals that ask us to end.
pub(crate) struct EndSignal {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignal {
    /// From here on the signals do not end us by themselves, which would leave servers behind.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(mut self) {
        self.next().await;
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

async fn bind(settings: &Settings, listen: Listen) -> anyhow::Result<Listeners> {
    let address = match listen {
        Listen::Exactly(address) => address.unwrap_or(settings.listen),
        Listen::Somewhere => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    };
    settings::check_listen(address, settings.tls_terminated_by_proxy)
        .map_err(|message| Failure::new(Exit::BadSettings, message))?;
    for _ in 0..PORTS_TRIED {
        let main = match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(taken(address).into()),
            bound => bound.with_context(|| format!("could not listen on {address}"))?,
        };
        let Some(twin) = twin(main.local_addr()?) else { return Ok(Listeners { main, twin: None }) };
        match TcpListener::bind(twin).await {
            Ok(twin) => return Ok(Listeners { main, twin: Some(twin) }),
            // The kernel chose a port of which it gave the other half away: it may choose again.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && address.port() == 0 => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(taken(twin).into()),
            // This machine has only one of the two.
            Err(_) => return Ok(Listeners { main, twin: None }),
        }
    }
    anyhow::bail!("no free port was found")
}

/// The other address that `localhost` stands for.
fn twin(address: SocketAddr) -> Option<SocketAddr> {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Some(SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()))),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

fn taken(address: SocketAddr) -> Failure {
    let next = SocketAddr::new(address.ip(), address.port().wrapping_add(1));
    let message = format!("port {} is taken: something else listens on {address}", address.port());
    Failure::new(Exit::Failed, message)
        .hint(format!("choose another with --listen {next}, or with `listen` in the settings"))
}

/// Every agent and every server is a file to the kernel, and the usual limit is 1024.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "could not raise the number of open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_this_machine() {
        let check = |address: &str, expected: &str| assert_eq!(own_url(address.parse().unwrap()), expected);
        check("127.0.0.1:8080", "http://localhost:8080");
        check("[::1]:9000", "http://localhost:9000");
        check("0.0.0.0:80", "http://localhost:80");
        check("192.0.2.1:8080", "http://192.0.2.1:8080");
    }
}
