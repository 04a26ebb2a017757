//! Lists the clients on this machine, for `connect` without arguments.

use serde::Serialize;

use super::journal::Journal;
use crate::agent_clients::file::ClientFile;
use crate::agent_clients::{CLIENTS, Client, Machine, document};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::listing::Cell;
use crate::terminal::output::{line, table};
use crate::terminal::style::Tone;

#[derive(Serialize)]
pub(super) struct Clients {
    clients: Vec<KnownClient>,
}

#[derive(Serialize)]
struct KnownClient {
    client: &'static str,
    title: &'static str,
    installed: bool,
    connected: bool,
    /// The agent whose token `connect` created. `null` for `mcpproxy stdio`, and for a client that is not connected.
    agent: Option<String>,
    /// The file that lists the client's servers.
    file: Option<String>,
    /// The reason why that file cannot be read, if it cannot.
    file_error: Option<String>,
}

impl Clients {
    pub(super) fn of(machine: &Machine, journal: &Journal) -> Result<Self, Failure> {
        let known = |client: &'static Client| {
            let record = journal.load(client)?;
            Ok(KnownClient {
                client: client.id,
                title: client.title,
                installed: client.is_installed(machine),
                connected: record.is_some(),
                agent: record.and_then(|record| record.agent),
                file: client.config_path(machine).map(|path| path.display().to_string()),
                file_error: file_error(client, machine),
            })
        };
        Ok(Self { clients: CLIENTS.iter().map(known).collect::<Result<_, _>>()? })
    }

    pub(super) fn text(&self, home: &Home) -> String {
        let shown: Vec<&KnownClient> =
            self.clients.iter().filter(|client| client.installed || client.connected).collect();
        let ids = |is_wanted: fn(&KnownClient) -> bool| {
            let wanted = self.clients.iter().filter(|client| is_wanted(client));
            wanted.map(|client| client.client).collect::<Vec<_>>()
        };
        if shown.is_empty() {
            return format!("No known client is installed. Known clients:\n  {}\n", ids(|_| true).join("\n  "));
        }
        let rows = shown.iter().map(|client| {
            let state = match (&client.file_error, client.connected) {
                // The client cannot read its file either, whatever was written into it.
                (Some(_), _) => Cell::new("file invalid", Tone::Bad),
                (None, true) => Cell::new("connected", Tone::Good),
                (None, false) => Cell::new("not connected", Tone::Plain),
            };
            vec![client.client.to_owned().into(), state, line(client.file.as_deref().unwrap_or("-")).into()]
        });
        let errors = shown.iter().filter_map(|client| Some((client.file.as_ref()?, client.file_error.as_ref()?)));
        let errors: String = errors.map(|(file, error)| format!("{}: {}\n", line(file), line(error))).collect();
        let errors = if errors.is_empty() { errors } else { format!("\n{errors}") };
        let is_open = |client: &KnownClient| client.installed && !client.connected && client.file_error.is_none();
        let next = match ids(is_open).first() {
            Some(id) => format!("Connect a client: {}", home.command("mcpproxy", &format!("connect {id}"))),
            None if !errors.is_empty() => "Correct the file, then connect its client.".to_owned(),
            None => "All installed clients are connected.".to_owned(),
        };
        let undo = match ids(|client| client.connected).first() {
            Some(id) => format!("Disconnect one:   {}\n", home.command("mcpproxy", &format!("connect {id} --undo"))),
            None => String::new(),
        };
        format!("{}{errors}\n{next}\n{undo}", table(&["CLIENT", "STATE", "FILE"], rows))
    }
}

/// Returns why the file of an installed client cannot be read. A file that does not exist yet is fine.
fn file_error(client: &Client, machine: &Machine) -> Option<String> {
    let path = client.config_path(machine).filter(|_| client.is_installed(machine))?;
    match ClientFile::read(&path) {
        Err(failure) => Some(failure.to_string()),
        Ok(file) => document::read(&file.text?, client.config.format).err().map(|error| error.to_string()),
    }
}

/// Builds the error for options without a client.
pub(super) fn none_named(machine: &Machine, journal: &Journal, is_undo: bool) -> anyhow::Error {
    let fits = |client: &&Client| match is_undo {
        true => matches!(journal.load(client), Ok(Some(_))),
        false => client.is_installed(machine),
    };
    let ids: Vec<&str> = CLIENTS.iter().filter(fits).map(|client| client.id).collect();
    let hint = match (ids.is_empty(), is_undo) {
        (true, true) => "no client is connected; `mcpproxy connect` lists the clients on this machine".to_owned(),
        (true, false) => "no known client is installed; `mcpproxy connect` lists the known clients".to_owned(),
        (false, true) => format!("name a connected client ({}), or pass --all", ids.join(", ")),
        (false, false) => format!("name an installed client ({}), or pass --all", ids.join(", ")),
    };
    Failure::new(Exit::Usage, "No client is named.").hint(hint).into()
}
