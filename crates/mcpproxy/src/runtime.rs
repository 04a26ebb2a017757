//! A gateway on a data folder: everything `serve` and `stdio` start, and how it ends.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
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
use crate::http_server::HttpServer;
use crate::local_agent::{self, LocalAgent};
use crate::operator_files::{self, Read};
use crate::reload::Reload;
use crate::settings_file;

/// Longer than the gateway gives its servers to end, and short enough for whoever sent the signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// A log that does not take a record within a second refuses it.
const LOG_PATIENCE: Duration = Duration::from_millis(900);

pub(crate) struct Runtime {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    pub(crate) local: LocalAgent,
    pub(crate) settings: Settings,
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

        let listener = bind(&settings, listen).await?;
        let address = listener.local_addr()?;
        let admin_key = home.admin_key_or_new()?;
        let location = location_of(home, &settings.storage);
        let store = Store::open(&location).await?;
        let ledger = open_ledger(home, &store, &settings).await?;
        let local = local_agent::open(home, &store, &local_agent::name(&location, ledger.verifier())).await?;

        let program = std::env::current_exe().context("could not find out which program this is")?;
        let gateway = Gateway::start(Options {
            files: files.clone(),
            store: store.clone(),
            ledger: ledger.clone(),
            logs: home.logs(),
            demo_command: vec![program.display().to_string(), "demo-server".to_owned()],
        });
        let guard = Guard::new(address.port(), &settings.allowed_hosts, &settings.allowed_origins);
        let stopping = CancellationToken::new();
        let app = mcpproxy_web::app(Web {
            gateway: gateway.clone(),
            store,
            ledger,
            admin_key: AdminKey::new(admin_key),
            guard: guard.clone(),
            facts: Facts {
                version: env!("CARGO_PKG_VERSION"),
                address: address.to_string(),
                started: Instant::now(),
                settings_path: path.clone(),
                now_ms,
            },
            stopping: stopping.clone(),
        });
        let server = HttpServer::new(listener, app);
        let reload = Reload::new(path, seen, files, gateway.clone(), guard);
        lock.announce(&address.to_string())?;
        Ok(Self { gateway, address, local, settings, has_settings_file, server, stopping, reload, _lock: lock })
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
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

async fn bind(settings: &Settings, listen: Listen) -> anyhow::Result<TcpListener> {
    let address = match listen {
        Listen::Exactly(address) => address.unwrap_or(settings.listen),
        Listen::Somewhere => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    };
    settings::check_listen(address, settings.tls_terminated_by_proxy)
        .map_err(|message| Failure::new(Exit::BadSettings, message))?;
    match TcpListener::bind(address).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let next = SocketAddr::new(address.ip(), address.port().wrapping_add(1));
            let message = format!("port {} is taken: something else listens on {address}", address.port());
            Err(Failure::new(Exit::Failed, message)
                .hint(format!("choose another with --listen {next}, or with `listen` in the settings"))
                .into())
        }
        bound => bound.with_context(|| format!("could not listen on {address}")),
    }
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
