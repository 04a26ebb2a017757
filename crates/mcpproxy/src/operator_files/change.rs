//! Adds, removes, enables or disables a server in the settings file, under the lock of the settings.

use std::collections::BTreeSet;

use mcpproxy_core::settings::{Settings, server_keys};
use mcpproxy_core::{ServerName, nearest};

use super::edit::{self, Change, EditError};
use super::{published, settings_file};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::{Readers, replace_file};

/// An edited settings file that is not written yet.
pub(crate) struct Edited {
    /// `None` if there was no file.
    pub(crate) before: Option<String>,
    pub(crate) after: String,
    pub(crate) settings: Settings,
}

/// The part of the change that decides which mistakes stop it.
#[derive(Clone, Copy)]
enum Brings {
    NewServer,
    KnownServer,
    Nothing,
}

/// Edits and writes the settings file.
pub(crate) fn write_change(home: &Home, name: &ServerName, change: Change) -> anyhow::Result<Edited> {
    let _lock = home.lock_settings()?;
    let edited = edit(home, name, change)?;
    // The gateway refuses secrets in a file that other users can read.
    let readers = if edited.settings.inline_secrets().is_empty() { Readers::AsBefore } else { Readers::OnlyUs };
    replace_file(&home.settings(), &edited.after, readers)?;
    Ok(edited)
}

/// Reads and edits the settings, and checks the result.
pub(crate) fn edit(home: &Home, name: &ServerName, change: Change) -> anyhow::Result<Edited> {
    published::check_editable(home)?;
    let path = home.settings();
    let before = settings_file::read_text(&path)?.map(|(_, text)| text);
    if let Some(text) = &before {
        // Check the file first. Otherwise this change would be blamed for earlier errors.
        settings_file::check_shape(&path, text)?;
    }
    let brings = match &change {
        Change::Add(_) => Brings::NewServer,
        Change::Enable => Brings::KnownServer,
        Change::Remove | Change::Disable => Brings::Nothing,
    };
    let text = before.as_deref();
    let after = edit::apply(text, name, change).map_err(|error| edit_failure(&error, text))?;
    let unchanged = |failure: Failure| failure.hint("the settings file was not changed");
    let settings = settings_file::check_shape(&path, &after).map_err(unchanged)?;
    // A mistake in another server is none of this change.
    let own = settings.misconfigured().find(|(server, _)| server.name == *name);
    match (own, brings) {
        (None, _) | (Some(_), Brings::Nothing) => {}
        // The mistake is in the arguments, and no line of the file has it.
        (Some((_, mistakes)), Brings::NewServer) => {
            let messages: Vec<&str> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
            let message = format!("Server `{name}` cannot be added: {}", messages.join("; "));
            return Err(unchanged(Failure::new(Exit::Usage, message)).into());
        }
        (Some((_, mistakes)), Brings::KnownServer) => {
            return Err(unchanged(settings_file::bad(&path, mistakes)).into());
        }
    }
    Ok(Edited { before, after, settings })
}

impl Edited {
    /// Lists files with secrets that nothing refers to any more.
    pub(crate) fn unused_secrets(&self) -> BTreeSet<String> {
        edit::unused_secrets(self.before.as_deref().unwrap_or_default(), &self.after)
    }
}

/// Names the server that was probably meant, if the settings have none with this name.
fn edit_failure(error: &EditError, text: Option<&str>) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
    let EditError::Missing(name) = error else { return failure };
    let keys = server_keys(text.unwrap_or_default());
    match nearest(name.as_str(), keys.iter().map(|key| key.name.as_str())) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("list all servers with `mcpproxy servers list`"),
    }
}
