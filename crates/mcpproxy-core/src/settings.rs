//! The settings file, `mcp_config.json`: JSON with comments, read strictly, with a position for every mistake.
//!
//! [`parse`] turns the text into [`Settings`] with all defaults filled in and all references resolved, or returns every
//! mistake at once. A mistake outside the servers changes nothing: the gateway keeps the settings it has.
//!
//! A mistake inside one server, such as an environment variable that is not set, concerns that server alone. It becomes
//! [`TransportSettings::Misconfigured`], which cannot be connected to, and all other servers load. A disabled server is
//! checked for its shape, but its references are not resolved.
//!
//! Each section of the file has a module: `server.rs` for `mcpServers`, `approvals.rs`, `activity.rs`, `trust.rs` and so
//! on.
//! Each reads its own object with the reader of [`file`](crate::file) and returns its own struct. `keys.rs` lists the
//! keys of every object, and `schema.rs` publishes the same keys as a JSON Schema for editors. Tests compare the two.
//!
//! Invariants:
//!
//! - **Secrets stay out of logs.** Values of `env`, `headers` and database URLs are [`Secret`]s, whose `Debug` is
//!   `***`. Error messages never contain a value that a reference was resolved to.
//! - **Unknown keys are mistakes.** A misspelt `tls_terminated_by_proxy` must not silently mean its default. Keys that
//!   other MCP clients use in `mcpServers` are understood or become warnings ([`foreign`]).
//! - **No I/O.** Environment variables and files come through [`Outside`], so that tests need neither.
//!
//! Why not `serde` with `deny_unknown_fields`? See [`file`](crate::file): it reports one mistake per attempt.
//!
//! To add a setting: add the key in `keys.rs`, and the field with its default in its struct. Then add one line in the
//! `read` function of the section, and the description in `schema.rs`. A key in only one of `keys.rs` and `schema.rs`
//! fails a test.

mod activity;
mod address;
mod agents;
mod amount;
mod approvals;
mod changes;
mod contracts;
mod digest;
mod effective;
mod export;
mod foreign;
mod identity;
mod intent;
mod keys;
mod limits;
mod machine;
mod metrics;
mod oauth;
mod people;
mod read;
mod reference;
mod schema;
mod search;
mod secret;
mod server;
mod storage;
mod suggest;
#[cfg(test)]
mod tests;
mod tls;
mod tool_filter;
mod trust;
mod warning;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::ServerName;
use crate::file::{self, Author, Fields, FileKind, Format, Mistake, Mistakes, shown};
use crate::trust::Welcome;
use foreign::NameClashes;
use read::Reader;
use warning::Warnings;

pub use activity::{ActivitySettings, Durability, Retention};
pub use address::{check_listen, parse_listen};
pub use agents::{
    AgentOAuth, AgentSettings, AllowEntry, ClaimMapping, ClaimMatch, Granted, NoAgent, TokenClaims, is_provider_agent,
};
pub use approvals::{ApprovalSettings, Channel, Channels, Notify, Webhook};
pub use changes::{Changes, changed_keys, changed_server_keys, diff};
pub use contracts::{ContractSettings, Unclassified, Weakening};
pub use effective::{EffectiveSetting, SettingSource, Written};
pub use export::{ExportSettings, ExportTo};
pub use foreign::{
    RelocatedSecret, ServerKey, TranslatedServer, escape_references, free_name, relocate_secrets, server_keys,
    translate,
};
pub use identity::{ServerIdentity, WrittenTransport};
pub use intent::{IntentSettings, TwoKey, Unannotated};
pub use limits::LimitSettings;
pub use machine::FilesSource;
pub use metrics::MetricsSettings;
pub use oauth::{OAUTH_SCOPES_MAX, OAuthGrant, OAuthSettings, is_oauth_scope};
pub use people::{OidcSettings, PeopleSettings, Selectors, SessionSettings};
pub use reference::{Outside, Unresolved};
pub use schema::schema;
pub use search::{EncoderUse, SearchSettings};
pub use secret::Secret;
pub use storage::{StorageSettings, StorageUrl};
pub use suggest::server_name as suggest_server_name;
pub use tls::{TlsSettings, check_anonymous};
pub use tool_filter::ToolFilter;
pub use trust::TrustSettings;
pub use warning::Warning;

pub const FILE_MAX_BYTES: usize = 1024 * 1024;
pub const SERVERS_MAX: usize = 1000;

/// Every value takes at least one byte, so the size of the file limits their number.
const KIND: FileKind =
    FileKind { values_max: FILE_MAX_BYTES, too_many: "remove some", empty: "write `{}` for all defaults" };

/// A whole settings file, with references resolved and defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// In the order of the file.
    pub servers: Vec<ServerSettings>,
    pub intent: IntentSettings,
    pub contracts: ContractSettings,
    pub trust: TrustSettings,
    pub activity: ActivitySettings,
    pub approvals: ApprovalSettings,
    pub people: PeopleSettings,
    pub agents: AgentSettings,
    pub listen: SocketAddr,
    /// The time that a stopping gateway waits for running calls.
    pub shutdown_grace: Duration,
    /// The time after which `/readyz` no longer waits for the first connection of every server.
    pub ready_timeout: Duration,
    /// Offers `/mcp/s/NAME` and `/mcp/direct` beside `/mcp`.
    pub direct_mode: bool,
    /// Treats clients on this machine without a token as a read-only agent.
    pub allow_anonymous_loopback: bool,
    /// The gateway itself speaks HTTPS.
    pub tls: Option<TlsSettings>,
    pub tls_terminated_by_proxy: bool,
    /// In lower case, with a port only where the operator wrote one.
    pub allowed_hosts: Vec<String>,
    /// As browsers send them: `scheme://host[:port]` in lower case.
    pub allowed_origins: Vec<String>,
    pub storage: StorageSettings,
    /// The place of contracts, policies and the settings that gateways share.
    pub operator_files: FilesSource,
    pub limits: LimitSettings,
    pub metrics: MetricsSettings,
    /// The destination that gets a copy of every record.
    pub export: Option<ExportSettings>,
    pub search: SearchSettings,
    /// Keys of other clients without a meaning here, in the order of the file.
    pub warnings: Vec<Warning>,
    /// The places of the keys in the file.
    pub written: Written,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    pub name: ServerName,
    pub enabled: bool,
    /// The name for people, such as `My Files` for `my-files`.
    pub title: Option<String>,
    pub description: Option<String>,
    pub transport: TransportSettings,
    pub oauth: OAuthSettings,
    pub call_timeout: Duration,
    pub connect_timeout: Duration,
    /// The time between two reads of the list of tools. Zero turns this off.
    pub tools_refresh: Duration,
    pub max_concurrent_calls: usize,
    pub result_limit_bytes: usize,
    /// Environment variables of the gateway that its process gets, besides those that every process gets.
    pub env_passthrough: Vec<String>,
    pub tools: ToolFilter,
    /// The rule for its first list. `None` follows `trust.first_sight`.
    pub first_sight: Option<Welcome>,
    /// Made of the text in the file, before references are resolved.
    pub identity: ServerIdentity,
    /// Places of secrets that stand in the file itself: `env.TOKEN`, `args.2`.
    pub secrets_in_file: Vec<String>,
}

/// The transport of a server. Its `Debug` shows no argument, value or URL path, because each may hold a secret.
#[derive(Clone, PartialEq)]
pub enum TransportSettings {
    Stdio {
        command: String,
        args: Vec<String>,
        env: Vec<(String, Secret)>,
        cwd: Option<String>,
    },
    Http {
        url: String,
        headers: Vec<(String, Secret)>,
    },
    Sse {
        url: String,
        headers: Vec<(String, Secret)>,
    },
    Demo,
    /// The settings of this server have mistakes. `kind` is what they seem to describe.
    Misconfigured {
        kind: &'static str,
        mistakes: Vec<Mistake>,
    },
}

/// Reads a settings file, or returns all its mistakes in the order of the file.
pub fn parse(text: &str, outside: &dyn Outside) -> Result<Settings, Vec<Mistake>> {
    if text.len() > FILE_MAX_BYTES {
        let message =
            "the settings file is larger than 1 MiB; keep long values in files and refer to them with `${file:PATH}`";
        return Err(vec![Mistake { line: 1, column: 1, message: message.to_owned() }]);
    }
    let mut mistakes = Mistakes::default();
    let mut documents = file::documents(text, Format::Jsonc, KIND, &mut mistakes);
    let mut warnings = Warnings::default();
    let settings = documents.first_mut().and_then(|root| {
        let written = Written::of(root);
        let clashes = foreign::adopt(root, &mut warnings);
        let mut reader = Reader::new(Author::Operator, outside, &mut mistakes);
        let fields = reader.fields(root, &keys::TOP)?;
        Some(Settings { written, ..read_settings(&mut reader, &fields, &clashes) })
    });
    let mistakes = mistakes.in_order();
    match settings {
        Some(settings) if mistakes.is_empty() => Ok(Settings { warnings: warnings.in_order(), ..settings }),
        Some(_) | None => Err(mistakes),
    }
}

/// The settings without a settings file: the built-in demo server.
pub fn demo() -> Settings {
    // The only way to make a `ServerName` is to parse one, and `demo` is one.
    let servers = ServerName::parse("demo").map(|name| ServerSettings::new(name, TransportSettings::Demo)).into_iter();
    Settings { servers: servers.collect(), ..Settings::default() }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            intent: IntentSettings::default(),
            contracts: ContractSettings::default(),
            trust: TrustSettings::default(),
            activity: ActivitySettings::default(),
            approvals: ApprovalSettings::default(),
            people: PeopleSettings::default(),
            agents: AgentSettings::default(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            shutdown_grace: Duration::from_secs(10),
            ready_timeout: Duration::from_secs(5),
            direct_mode: true,
            allow_anonymous_loopback: false,
            tls: None,
            tls_terminated_by_proxy: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            storage: StorageSettings::default(),
            operator_files: FilesSource::Folder,
            limits: LimitSettings::default(),
            metrics: MetricsSettings::default(),
            export: None,
            search: SearchSettings::default(),
            warnings: Vec::new(),
            written: Written::default(),
        }
    }
}

impl Settings {
    /// Returns the keys whose secret is in the file itself instead of behind a reference, also those of servers that are
    /// disabled or misconfigured. Only the owner should be able to read such a file.
    pub fn inline_secrets(&self) -> Vec<String> {
        let of_server = |server: &ServerSettings| {
            let place = |place: &String| format!("mcpServers.{}.{}", server.name, shown(place));
            server.secrets_in_file.iter().map(place).collect::<Vec<_>>()
        };
        let mut found: Vec<String> = self.servers.iter().flat_map(of_server).collect();
        if let Some(StorageUrl::Postgres(url)) = &self.storage.url
            && url.stands_in_file()
        {
            found.push("storage.url".to_owned());
        }
        if let Some(webhook) = &self.approvals.notify.webhook
            && webhook.secret.stands_in_file()
        {
            found.push("approvals.notify.webhook.secret".to_owned());
        }
        let client_secret = self.people.oidc.as_ref().and_then(|oidc| oidc.client_secret.as_ref());
        if client_secret.is_some_and(Secret::stands_in_file) {
            found.push("people.oidc.client_secret".to_owned());
        }
        if self.metrics.token.as_ref().is_some_and(Secret::stands_in_file) {
            found.push("metrics.token".to_owned());
        }
        if self.export.as_ref().and_then(|export| export.token.as_ref()).is_some_and(Secret::stands_in_file) {
            found.push("export.token".to_owned());
        }
        found
    }
}

impl Settings {
    /// Returns true if nobody on the network can read what agents and users send.
    pub fn encrypts(&self) -> bool {
        self.tls.is_some() || self.tls_terminated_by_proxy
    }

    /// Returns the servers whose settings have mistakes, in the order of the file.
    pub fn misconfigured(&self) -> impl Iterator<Item = (&ServerSettings, &[Mistake])> {
        self.servers.iter().filter_map(|server| Some((server, server.transport.mistakes()?)))
    }
}

impl ServerSettings {
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
    pub const TOOLS_REFRESH: Duration = Duration::from_secs(60);
    pub const MAX_CONCURRENT_CALLS: usize = 32;
    pub const RESULT_LIMIT_BYTES: usize = 10 * 1024 * 1024;

    /// An enabled server with all defaults.
    pub fn new(name: ServerName, transport: TransportSettings) -> Self {
        Self {
            identity: ServerIdentity::of(&name, &transport),
            name,
            enabled: true,
            title: None,
            description: None,
            transport,
            oauth: OAuthSettings::default(),
            call_timeout: Self::CALL_TIMEOUT,
            connect_timeout: Self::CONNECT_TIMEOUT,
            tools_refresh: Self::TOOLS_REFRESH,
            max_concurrent_calls: Self::MAX_CONCURRENT_CALLS,
            result_limit_bytes: Self::RESULT_LIMIT_BYTES,
            env_passthrough: Vec::new(),
            tools: ToolFilter::default(),
            first_sight: None,
            secrets_in_file: Vec::new(),
        }
    }
}

impl TransportSettings {
    /// `stdio`, `http`, `sse` or `demo`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
            Self::Sse { .. } => "sse",
            Self::Demo => "demo",
            Self::Misconfigured { kind, .. } => kind,
        }
    }

    /// Returns the mistakes of a misconfigured server.
    pub fn mistakes(&self) -> Option<&[Mistake]> {
        match self {
            Self::Misconfigured { mistakes, .. } => Some(mistakes),
            Self::Stdio { .. } | Self::Http { .. } | Self::Sse { .. } | Self::Demo => None,
        }
    }
}

fn read_settings(reader: &mut Reader<'_>, fields: &Fields<'_>, clashes: &NameClashes) -> Settings {
    let default = Settings::default();
    let passthrough = reader.parsed_list(fields, "env_passthrough", server::parse_passthrough);
    let tools_refresh = server::read_tools_refresh(reader, fields).unwrap_or(ServerSettings::TOOLS_REFRESH);
    let surroundings = server::Surroundings { passthrough: &passthrough, tools_refresh, clashes };
    let settings = Settings {
        servers: fields
            .find("mcpServers")
            .map(|field| server::read_all(reader, field, &surroundings))
            .unwrap_or_default(),
        intent: intent::read(reader, fields).unwrap_or_default(),
        contracts: contracts::read(reader, fields).unwrap_or_default(),
        trust: trust::read(reader, fields).unwrap_or_default(),
        activity: activity::read(reader, fields).unwrap_or_default(),
        approvals: approvals::read(reader, fields).unwrap_or_default(),
        people: people::read(reader, fields).unwrap_or_default(),
        agents: agents::read(reader, fields).unwrap_or_default(),
        listen: reader.parsed_of(fields, "listen", parse_listen).unwrap_or(default.listen),
        shutdown_grace: reader
            .parsed_of(fields, "shutdown_grace", amount::parse_wait)
            .unwrap_or(default.shutdown_grace),
        ready_timeout: reader.parsed_of(fields, "ready_timeout", amount::parse_wait).unwrap_or(default.ready_timeout),
        direct_mode: reader.boolean_of(fields, "direct_mode").unwrap_or(default.direct_mode),
        allow_anonymous_loopback: reader.boolean_of(fields, "allow_anonymous_loopback").unwrap_or(false),
        tls: tls::read(reader, fields),
        tls_terminated_by_proxy: reader.boolean_of(fields, "tls_terminated_by_proxy").unwrap_or(false),
        allowed_hosts: reader.parsed_list(fields, "allowed_hosts", address::parse_host),
        allowed_origins: reader.parsed_list(fields, "allowed_origins", address::parse_origin),
        storage: storage::read(reader, fields),
        operator_files: reader.choice_of(fields, "operator_files", keys::OPERATOR_FILES).unwrap_or(FilesSource::Folder),
        limits: limits::read(reader, fields).unwrap_or_default(),
        metrics: metrics::read(reader, fields).unwrap_or_default(),
        export: export::read(reader, fields),
        search: search::read(reader, fields).unwrap_or_default(),
        warnings: Vec::new(),
        written: Written::default(),
    };
    if let Some(field) = fields.find("listen")
        && let Err(message) = check_listen(settings.listen, settings.encrypts())
    {
        reader.report(field.node.position, message);
    }
    if let Some(field) = fields.find("allow_anonymous_loopback")
        && settings.allow_anonymous_loopback
        && settings.tls_terminated_by_proxy
    {
        // All clients of the proxy would look local, so all would be let in.
        let message = "`allow_anonymous_loopback` and `tls_terminated_by_proxy` cannot both be true: behind a proxy, every \
                       client seems to be on this machine; set one of them to false";
        reader.report(field.position, message);
    }
    tls::check(reader, fields, &settings);
    settings
}
