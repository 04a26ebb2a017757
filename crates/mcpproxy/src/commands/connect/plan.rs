//! Plans a connection: reads the files, edits them in memory, and shows the difference.

use std::net::SocketAddr;

use anyhow::Context as _;

use super::Connect;
use super::content::{self, Change, FileContent, Transport, entry_path};
use super::journal::{Journal, Record};
use super::report::{ClientReport, FileChange, FileReport, Report, State};
use super::token::{TokenPlan, Tokens};
use crate::agent_clients::document::{self, DocumentError, Edit, Shown};
use crate::agent_clients::file::{ClientFile, private};
use crate::agent_clients::{Client, EntryValues, FileFormat, Machine, Permissions};
use crate::client::reachable;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::runtime::own_url;

/// Stands for a token that does not exist yet.
const NEW_TOKEN: &str = "*** (new)";

/// The facts that all clients of one run share.
pub(super) struct Request<'a> {
    home: &'a Home,
    machine: &'a Machine,
    connect: &'a Connect,
    url: String,
    /// The address that the gateway listens on.
    address: SocketAddr,
    program: String,
    is_running: bool,
    /// The address in the settings, or the default one, if the running gateway listens elsewhere.
    other_address: Option<ConfiguredAddress>,
}

impl<'a> Request<'a> {
    pub(super) fn new(home: &'a Home, machine: &'a Machine, connect: &'a Connect) -> anyhow::Result<Self> {
        let running = home.running()?;
        let configured = configured_address(home);
        let (address, secure, is_running) = match &running {
            Some(running) => {
                let address: SocketAddr = running.address.parse().context("gateway.lock contains no valid address")?;
                (address, running.certificate.as_ref().map(|_| running.url.clone()), true)
            }
            None => configured.map(|configured| (configured.address, configured.secure, false))?,
        };
        let other_address = match configured_address(home) {
            Ok(configured) if configured.address.port() != address.port() => Some(configured),
            Ok(_) | Err(_) => None,
        };
        let program = std::env::current_exe().context("could not find the path of this program")?;
        let address = reachable(address);
        // A certificate is for names, so that clients get the address of links for users.
        let url = secure.map_or_else(|| format!("http://{address}/mcp"), |base| format!("{base}/mcp"));
        Ok(Self {
            home,
            machine,
            connect,
            url,
            address,
            program: program.display().to_string(),
            is_running,
            other_address,
        })
    }

    fn values(&self, token: &TokenPlan) -> EntryValues {
        let mut arguments = vec!["stdio".to_owned()];
        if !self.home.is_default() {
            arguments.splice(0..0, ["--home".to_owned(), self.home.folder().display().to_string()]);
        }
        let token = match token {
            TokenPlan::Keep { secret, .. } => secret.clone(),
            TokenPlan::Create { .. } => NEW_TOKEN.to_owned(),
            TokenPlan::NotNeeded => String::new(),
        };
        EntryValues { url: self.url.clone(), token, program: self.program.clone(), arguments }
    }

    /// Returns what the user does about the gateway after connecting.
    pub(super) fn next_steps(&self, report: &Report) -> Vec<String> {
        if !report.has_connected() {
            return Vec::new();
        }
        let serve = self.home.command("mcpproxy", "serve");
        let mut steps = Vec::new();
        if !self.is_running {
            steps.push(format!("No gateway is running. Start it with `{serve}`."));
        // `mcpproxy stdio` finds the gateway, wherever it listens.
        } else if let Some(configured) = self.other_address.as_ref().filter(|_| !self.connect.stdio) {
            let configured = match configured {
                ConfiguredAddress { address, is_written: true, .. } => format!("the settings say {address}"),
                ConfiguredAddress { address, is_written: false, .. } => {
                    format!("without `listen` in the settings, the next one listens on {address}")
                }
            };
            steps.push(format!(
                "The running gateway listens on {}, but {configured}. If you start it with another address, connect \
                 again.",
                self.address
            ));
        }
        if self.url.starts_with("https://") && !self.connect.stdio {
            steps.push(
                "The gateway speaks HTTPS. If the client does not trust its certificate, give the client the authority \
                 (docs/tls.md), or connect it with --stdio, which needs no certificate."
                    .to_owned(),
            );
        }
        steps
    }
}

/// The address on which a gateway with these settings listens.
struct ConfiguredAddress {
    address: SocketAddr,
    /// False for the default address.
    is_written: bool,
    /// The base of links for users, if that gateway speaks TLS.
    secure: Option<String>,
}

fn configured_address(home: &Home) -> anyhow::Result<ConfiguredAddress> {
    let path = home.settings();
    let Some((_, text)) = settings_file::read_text(&path)? else {
        let address = mcpproxy_core::settings::demo().listen;
        return Ok(ConfiguredAddress { address, is_written: false, secure: None });
    };
    let settings = settings_file::check_shape(&path, &text)?;
    let address = settings.listen;
    let base = || settings.approvals.public_url.clone().unwrap_or_else(|| own_url(&settings, address));
    let secure = settings.tls.is_some().then(base);
    let written = document::read(&text, FileFormat::Json).unwrap_or_default();
    Ok(ConfiguredAddress { address, is_written: written.get("listen").is_some(), secure })
}

/// Everything that connecting a client would change.
pub(super) struct Plan {
    pub(super) client: &'static Client,
    pub(super) transport: Transport,
    pub(super) token: TokenPlan,
    pub(super) files: Vec<PlannedFile>,
    pub(super) record: Option<Record>,
    pub(super) has_rules: bool,
    pub(super) values: EntryValues,
    pub(super) machine: Machine,
    /// The agent of the user's token that connecting takes out of the entry.
    replaced_agent: Option<String>,
    asked_for_rules: bool,
}

/// A file, and its text after connecting.
pub(super) struct PlannedFile {
    pub(super) file: ClientFile,
    pub(super) format: FileFormat,
    pub(super) new_text: String,
    /// The permissions after connecting. A file with a token is private.
    pub(super) mode: u32,
    diff: String,
}

impl PlannedFile {
    pub(super) fn is_changed(&self) -> bool {
        self.differs_from(&self.new_text)
    }

    /// Checks whether the file would change if it got this text. A file that other users can read changes its mode.
    pub(super) fn differs_from(&self, text: &str) -> bool {
        self.file.text.as_deref() != Some(text) || self.mode != self.file.mode
    }
}

impl Plan {
    pub(super) async fn make(
        client: &'static Client,
        request: &Request<'_>,
        journal: &Journal,
        tokens: &mut Tokens<'_>,
    ) -> anyhow::Result<Self> {
        let path = client.config_path(request.machine).filter(|_| client.is_installed(request.machine));
        let path = path.ok_or_else(|| not_installed(client, request.machine))?;
        // The record is saved before the file is written. Read in this order, an entry of ours always has its record.
        let file = ClientFile::read(&path)?;
        let record = journal.load(client)?;
        let transport = if request.connect.stdio || client.http.is_none() { Transport::Stdio } else { Transport::Http };
        // Rules that were written before stay.
        let has_rules = request.connect.permissions || record.as_ref().is_some_and(|record| record.permissions);

        let text = file.text.as_deref().unwrap_or_default();
        let value = document::read(text, client.config.format).map_err(|error| bad_file(&file, &error))?;
        let entry = document::get(&value, &entry_path(client));
        let is_ours = record.as_ref().is_some_and(|record| record.files.iter().any(|known| known.path == file.path));
        if entry.is_some() && !is_ours && !request.connect.replace {
            return Err(not_ours(client, &file).into());
        }
        let found = tokens.find(entry).await?;
        let ours = record.as_ref().and_then(|record| record.agent.as_ref());
        let users_agent = found.as_ref().map(|found| found.agent.clone()).filter(|agent| ours != Some(agent));
        let token = match transport {
            Transport::Http => tokens.plan(client, record.as_ref(), found, request.connect.replace).await?,
            Transport::Stdio => TokenPlan::NotNeeded,
        };
        let replaced_agent = users_agent.filter(|_| !matches!(token, TokenPlan::Keep { .. }));
        let values = request.values(&token);
        let mut files = Vec::new();
        for content in content::of_client(client, request.machine, transport, &values, has_rules) {
            // The entry and the edit must come from the same text.
            let read = if content.path == path { file.clone() } else { ClientFile::read(&content.path)? };
            files.push(planned(content, read, &values.token)?);
        }
        let machine = request.machine.clone();
        let asked_for_rules = request.connect.permissions;
        Ok(Self {
            client,
            transport,
            token,
            files,
            record,
            has_rules,
            values,
            machine,
            replaced_agent,
            asked_for_rules,
        })
    }

    /// Returns the text of each file with this token, in the order of `files`.
    pub(super) fn texts(&self, token: String) -> anyhow::Result<Vec<String>> {
        let values = EntryValues { token, ..self.values.clone() };
        let contents = content::of_client(self.client, &self.machine, self.transport, &values, self.has_rules);
        let texts = contents.iter().zip(&self.files).map(|(content, planned)| new_text(content, &planned.file));
        Ok(texts.collect::<Result<Vec<_>, _>>()?)
    }

    /// Returns the changes of each file, in the order of `files`.
    pub(super) fn edits(&self) -> Vec<Change> {
        let contents = content::of_client(self.client, &self.machine, self.transport, &self.values, self.has_rules);
        contents.into_iter().map(|content| content.change).collect()
    }

    /// Returns true if nothing needs to be written or revoked.
    pub(super) fn is_done(&self) -> bool {
        !self.files.iter().any(PlannedFile::is_changed) && self.agent_to_revoke().is_none()
    }

    /// Returns the client's agent whose token is no longer in the entry. Nobody needs that token, and it has all
    /// permissions.
    pub(super) fn agent_to_revoke(&self) -> Option<&str> {
        match self.token {
            TokenPlan::NotNeeded | TokenPlan::Keep { is_users: true, .. } => self.recorded_agent(),
            // The token is in use, or creating the new one revokes it.
            TokenPlan::Keep { is_users: false, .. } | TokenPlan::Create { .. } => None,
        }
    }

    /// Returns the agent of the token that an earlier run created.
    pub(super) fn recorded_agent(&self) -> Option<&str> {
        self.record.as_ref().and_then(|record| record.agent.as_deref())
    }

    pub(super) fn diffs(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.diff.as_str())
    }

    /// Returns the consequences that no diff shows. The user reads them before agreeing.
    pub(super) fn consequences(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for planned in self.files.iter().filter(|planned| planned.mode != planned.file.mode) {
            let (shown, before, after) = (planned.file.path.display(), planned.file.mode, planned.mode);
            notes.push(format!(
                "`{shown}` holds a token, so its mode changes from {before:04o} to {after:04o}. Undo restores it."
            ));
        }
        if let Some(agent) = &self.replaced_agent {
            let instead = match self.transport {
                Transport::Http => "The new token has all permissions.",
                Transport::Stdio => "Over stdio, the client is the agent `local`, which has all permissions.",
            };
            notes.push(format!(
                "Connecting replaces the token of agent `{agent}` in the entry. {instead} Your token stays valid."
            ));
        }
        if let Some(agent) = self.agent_to_revoke() {
            notes.push(format!("Connecting revokes the token of agent `{agent}`, which the entry no longer uses."));
        }
        notes
    }

    fn notes(&self) -> Vec<String> {
        let links = self.files.iter().map(|planned| &planned.file).filter(|file| file.is_link());
        let link = |file: &ClientFile| {
            let (shown, target) = (file.path.display(), file.target.display());
            format!("`{shown}` is a symbolic link. Its target is `{target}`.")
        };
        let mut notes: Vec<String> = links.map(link).chain(self.consequences()).collect();
        if let TokenPlan::Keep { agent, is_users: true, .. } = &self.token {
            notes.push(format!(
                "The entry keeps the token of agent `{agent}`, which `connect` did not create. To replace it with a \
                 new one that has all permissions, add --replace."
            ));
        }
        match &self.client.permissions {
            Permissions::Rules { note: Some(note), .. } if self.has_rules => notes.push((*note).to_owned()),
            Permissions::Manual(text) if self.asked_for_rules => notes.push((*text).to_owned()),
            Permissions::Rules { .. } | Permissions::Manual(_) => {}
        }
        notes
    }

    pub(super) fn report(&self, state: State, backups: &[Option<String>]) -> ClientReport {
        let backups = backups.iter().cloned().chain(std::iter::repeat(None));
        let files = self.files.iter().zip(backups).map(|(file, backup)| {
            let change = match (&file.file.text, file.is_changed()) {
                (_, false) => FileChange::Unchanged,
                (None, true) => FileChange::Created,
                (Some(_), true) => FileChange::Changed,
            };
            FileReport { path: file.file.path.display().to_string(), change, backup, diff: file.diff.clone() }
        });
        let agent = match &self.token {
            TokenPlan::NotNeeded => "local",
            TokenPlan::Keep { agent, .. } | TokenPlan::Create { agent } => agent,
        };
        ClientReport {
            client: self.client.id,
            title: self.client.title,
            state,
            transport: Some(match self.transport {
                Transport::Http => "http",
                Transport::Stdio => "stdio",
            }),
            url: (self.transport == Transport::Http).then(|| self.values.url.clone()),
            agent: Some(agent.to_owned()),
            files: files.collect(),
            notes: self.notes(),
            restart: Some(self.client.restart),
            check: Some(self.client.check),
        }
    }
}

fn planned(content: FileContent, file: ClientFile, token: &str) -> Result<PlannedFile, Failure> {
    let new_text = new_text(&content, &file)?;
    let (before, after) = (file.text.as_deref(), Some(new_text.as_str()));
    let diff = document::diff(&file.target, before, after, content.format, &shown(&content.change));
    let holds_token = !token.is_empty() && new_text.contains(token);
    let mode = if holds_token { private(file.mode) } else { file.mode };
    Ok(PlannedFile { file, format: content.format, new_text, mode, diff })
}

fn new_text(content: &FileContent, file: &ClientFile) -> Result<String, Failure> {
    match &content.change {
        Change::Whole(text) => Ok((*text).to_owned()),
        Change::Edits(edits) => document::apply(file.text.as_deref().unwrap_or_default(), content.format, edits)
            .map_err(|error| bad_file(file, &error)),
    }
}

fn shown(change: &Change) -> Shown {
    let mut shown = Shown::default();
    match change {
        // Everything below the root.
        Change::Whole(_) => shown.paths.push(Vec::new()),
        Change::Edits(edits) => {
            for edit in edits {
                match edit {
                    Edit::Set { path, .. } | Edit::Remove { path } => shown.paths.push(path.clone()),
                    Edit::AddToList { values, .. } | Edit::RemoveFromList { values, .. } => {
                        shown.texts.extend(values.iter().cloned());
                    }
                }
            }
        }
    }
    shown
}

pub(super) fn bad_file(file: &ClientFile, error: &DocumentError) -> Failure {
    let shown = file.path.display();
    let hint = match error {
        DocumentError::Syntax { .. } | DocumentError::WrongKind { .. } | DocumentError::Duplicate { .. } => {
            "correct the file, and run the command again".to_owned()
        }
        DocumentError::TooUnusual => {
            "add the entry by hand; the page \"Connect your agent\" of the documentation shows it".to_owned()
        }
    };
    Failure::new(Exit::Failed, format!("`{shown}` cannot be edited: {error}. Nothing was changed.")).hint(hint)
}

fn not_ours(client: &Client, file: &ClientFile) -> Failure {
    let key = entry_path(client).join(".");
    let message = format!("`{}` already has an entry `{key}` that this command did not write.", file.path.display());
    Failure::new(Exit::Failed, message).hint(format!(
        "remove the entry, or run `mcpproxy connect {} --replace`; the client then gets a new token with \
         all permissions",
        client.id
    ))
}

fn not_installed(client: &Client, machine: &Machine) -> Failure {
    let folders = client.folders.paths(machine);
    let folder = folders.last().map(|folder| folder.display().to_string()).unwrap_or_default();
    let programs = client.programs.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    Failure::new(
        Exit::Failed,
        format!("{} is not installed: there is no folder `{folder}` and no program {programs}.", client.title),
    )
    .hint(format!("install {}, or create the folder if it is installed elsewhere", client.title))
}
