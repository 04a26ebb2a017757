//! Writes an import: all of it, or nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::{Plan, secret_path};
use crate::agent_clients::document::{self, Edit};
use crate::agent_clients::{self, backup};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::lock::HeldLock;
use crate::home::secret::{Readers, create_folder, replace_file, write_secret};
use crate::operator_files::settings_file;
use crate::terminal::output::tell;

/// The files that were written, so that they can be undone.
pub(crate) struct Written {
    home: Home,
    /// The new text of the settings.
    after: String,
    /// The text to restore. `None` inside if there was no file. `None` if the settings are untouched.
    before: Option<Option<String>>,
    secrets: Vec<PathBuf>,
}

/// Writes secrets and settings. Undoes everything if one step fails. The lock ends with this function, because a reload
/// may take long.
pub(crate) fn settings(home: &Home, plan: &Plan, lock: HeldLock) -> anyhow::Result<Written> {
    let mut written = Written { home: home.clone(), after: plan.after.clone(), before: None, secrets: Vec::new() };
    match write_all(home, plan, &mut written) {
        Ok(()) => Ok(written),
        Err(error) => {
            written.undo(lock);
            Err(error)
        }
    }
}

fn write_all(home: &Home, plan: &Plan, written: &mut Written) -> anyhow::Result<()> {
    if plan.servers.is_empty() {
        return Ok(());
    }
    let path = home.settings();
    let now = settings_file::read_text(&path)?.map(|(_, text)| text);
    if now != plan.before {
        return Err(Failure::new(Exit::Failed, format!("`{}` changed after the preview.", path.display()))
            .hint("run the command again; nothing was changed")
            .into());
    }
    for secret in plan.servers.iter().flat_map(|server| &server.secrets) {
        let path = secret_path(home, secret);
        // The plan has found that the file holds this very secret.
        if path.symlink_metadata().is_ok() {
            continue;
        }
        create_folder(path.parent().unwrap_or(Path::new(".")))?;
        write_secret(&path, secret.value.expose())?;
        written.secrets.push(path);
    }
    let readers = match settings_file::check_shape(&path, &plan.after)?.inline_secrets().is_empty() {
        true => Readers::AsBefore,
        false => Readers::OnlyUs,
    };
    written.before = Some(plan.before.clone());
    replace_file(&path, &plan.after, readers)
}

impl Written {
    /// A change of the settings alone, as it was written.
    pub(crate) fn of_settings(home: &Home, before: Option<String>, after: String) -> Self {
        Self { home: home.clone(), after, before: Some(before), secrets: Vec::new() }
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.before.is_some()
    }

    /// Restores the settings and removes the new secrets. If another command has changed the settings in between, its
    /// change counts, and everything stays.
    pub(crate) fn undo(&self, _lock: HeldLock) {
        if let Err(error) = self.restore() {
            tell(&format!("warning: could not restore `{}`: {error:#}", self.home.settings().display()));
            // The new settings still refer to the secrets.
            return;
        }
        for path in &self.secrets {
            if let Err(error) = fs::remove_file(path) {
                tell(&format!("warning: could not remove `{}`: {error}", path.display()));
            }
        }
    }

    fn restore(&self) -> anyhow::Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        let path = self.home.settings();
        let now = settings_file::read_text(&path)?.map(|(_, text)| text);
        if now == *before {
            return Ok(());
        }
        if now.as_deref() != Some(self.after.as_str()) {
            anyhow::bail!("it has changed since; remove the imported servers with `mcpproxy servers remove NAME`");
        }
        match before {
            Some(text) => replace_file(&path, text, Readers::AsBefore),
            None => fs::remove_file(&path).map_err(Into::into),
        }
    }
}

/// Removes the servers from the client's file. Returns the backup of the file.
pub(crate) fn remove_direct(home: &Home, plan: &Plan) -> Result<Option<PathBuf>, Failure> {
    let file = &plan.source.file;
    let text = file.text.as_deref().unwrap_or_default();
    let edits: Vec<Edit> = plan.removed_paths().into_iter().map(|path| Edit::Remove { path }).collect();
    let edited = document::apply(text, plan.source.format, &edits).map_err(|error| {
        Failure::new(Exit::Failed, format!("`{}`: {error}.", file.path.display()))
            .hint("nothing was changed; import with --keep-direct, and remove the servers in the client")
    })?;
    if edited == text {
        return Ok(None);
    }
    let _lock = agent_clients::lock(home)
        .map_err(|error| Failure::new(Exit::Failed, format!("{error:#}")).hint("run the command again"))?;
    let name = format!("import-{}", plan.source.client.map_or("file", |client| client.id));
    let backup = backup::write(&home.folder().join("backups"), &name, &file.path, text)
        .map_err(|error| Failure::new(Exit::Failed, format!("{error:#}")).hint("nothing was changed"))?;
    match file.replace(&edited) {
        Ok(_) => Ok(Some(backup)),
        Err(failure) => {
            backup::remove(&backup);
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_keeps_a_change_of_another_command() {
        let check = |before: Option<&str>, now: &str, expected: Option<&str>, is_secret_kept: bool| {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
            let secret = folder.path().join("secret");
            fs::write(&secret, "s").unwrap();
            fs::write(home.settings(), now).unwrap();
            let written = Written {
                home: home.clone(),
                after: "after".to_owned(),
                before: Some(before.map(str::to_owned)),
                secrets: vec![secret.clone()],
            };
            written.undo(home.lock_settings().unwrap());
            assert_eq!(fs::read_to_string(home.settings()).ok().as_deref(), expected);
            assert_eq!(secret.exists(), is_secret_kept);
        };
        check(Some("before"), "after", Some("before"), false);
        check(None, "after", None, false);
        check(Some("before"), "before", Some("before"), false);
        check(Some("before"), "after, and more", Some("after, and more"), true);
        check(None, "after, and more", Some("after, and more"), true);
    }
}
