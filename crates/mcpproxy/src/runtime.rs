//! A gateway on a data folder: everything `serve` and `stdio` start, and how it ends.

mod banner;
mod end_signal;
pub(crate) mod first_user;
mod http_server;
mod listen;
mod local_agent;
pub(crate) mod notices;
mod reload;

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpproxy_core::settings::Settings;
use mcpproxy_gateway::{Gateway, Options};
use mcpproxy_store::{Ledger, LedgerOptions, Store};
use mcpproxy_web::{AdminKey, Facts, Guard, Web};
use tokio_util::sync::CancellationToken;

use self::http_server::HttpServer;
use self::listen::{bind, own_url};
use self::local_agent::LocalAgent;
use self::reload::Reload;
use crate::database::location_of;
use crate::home::Home;
use crate::home::lock::Lock;
use crate::operator_files::{self, Read};
use crate::terminal::time::now_ms;

pub(crate) use self::banner::banner;
pub(crate) use self::end_signal::EndSignal;
pub(crate) use self::listen::Listen;

/// Longer than the gateway gives its servers to end, and short enough for whoever sent the signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

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

/// Every agent and every server is a file to the kernel, and the usual limit is 1024.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "could not raise the number of open files");
    }
}
