//! The operator's files as they were last seen, and as they are active: compares, reads and checks them.
//!
//! If all files are valid, they take effect together: the gateway builds a new snapshot, and calls that already started
//! keep the old one. The exception is what weakens contracts or policies. A half-written file is often valid, and an agent
//! with a shell can write files too. So that part waits until a user confirms it ([`weigh`]). Unchanged parts keep their
//! `Arc`, so that servers and policies are not rebuilt. If any file is invalid, nothing changes. The terminal and
//! `GET /api/v1/status` show the error until the next change.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_core::settings::{self, Settings, Warning};
use mcpproxy_gateway::{CheckedFiles, Confirmation, Confirmed, Files, Gateway};
use mcpproxy_store::ConfigVersion;
use mcpproxy_web::Guard;
use tokio::sync::watch;
use tokio::task::JoinError;

use super::Trigger;
use crate::exit::{Exit, Failure};
use crate::operator_files::published::{self, nothing_published};
use crate::operator_files::settings_file::{self, warning_lines};
use crate::operator_files::{self, FileStamps, OperatorFiles, OperatorTexts, Source, VersionInForce};
use crate::runtime::last_run::stricter;
use crate::runtime::own_tls::OwnTls;
use crate::runtime::weigh::{KnownTools, Weighed, rules, weigh};
use crate::terminal::output::tell;

/// Time between two comparisons after an event. Programs write several files, or one in several steps, without a longer
/// pause than this.
const SETTLE: Duration = Duration::from_millis(15);
/// Comparisons after an event until the clock takes over.
const SETTLE_MAX: usize = 20;

/// The files of the operator, as they were last seen and as they are active. Every comparison works on a copy, which
/// replaces the original only if the comparison did not panic.
#[derive(Clone)]
pub(crate) struct WatchedFiles {
    pub(crate) path: PathBuf,
    /// The source of contracts, policies and shared settings. It stays until a restart. Its version may be newer than the one
    /// in force, if this one is not valid here.
    pub(crate) source: Source,
    pub(crate) in_force: VersionInForce,
    /// Files that the settings refer to.
    pub(crate) referenced: Vec<PathBuf>,
    /// The files of `tls` in settings that could not be used. Their correction is a change too.
    pub(crate) tls_paths: Vec<PathBuf>,
    /// Taken before `current` was read, so that no change in between is missed.
    pub(crate) seen: FileStamps,
    pub(crate) current: Files,
    /// Files of which a part waits for a user.
    pub(crate) wanted: Option<Arc<Wanted>>,
    /// Annotations and contracts from the servers themselves. The operator's contracts can weaken these too.
    pub(crate) known: KnownTools,
    /// Gets the texts of files that are active, for the comparison at the next start.
    pub(crate) remember: watch::Sender<Arc<OperatorTexts>>,
    pub(crate) gateway: Gateway,
    pub(crate) guard: Guard,
    pub(crate) listener: ListenerFacts,
    /// [`operator_files::read`], except in tests.
    pub(crate) read: ReadFiles,
}

/// Facts about the listener, which a reload cannot change.
#[derive(Clone)]
pub(crate) struct ListenerFacts {
    /// `--listen` may differ from the settings.
    pub(crate) address: SocketAddr,
    /// `None` if it speaks plain HTTP.
    pub(crate) tls: Option<OwnTls>,
}

/// Valid files that are not active as a whole.
pub(crate) struct Wanted {
    files: Files,
    texts: Arc<OperatorTexts>,
    digest: String,
}

pub(super) type Checked = Result<CheckedFiles, String>;

pub(crate) type ReadFiles = fn(&Path, Option<&Arc<Settings>>, &Source) -> Result<OperatorFiles, Failure>;

impl WatchedFiles {
    /// Reports that a comparison panicked. The error stays visible in `mcpproxy status` until a reload succeeds.
    pub(super) fn crashed(&self, error: &JoinError) {
        tracing::error!(%error, "reading settings, contracts and policies failed because of a bug in mcpproxy");
        let message = "mcpproxy crashed while it read the files, and tries again every few seconds";
        if self.gateway.reload_error().as_deref() != Some(message) {
            self.gateway.reload_failed(message.to_owned());
        }
    }

    /// Compares fingerprints, and reads the files if they changed and are finished. Returns the newest fingerprints.
    pub(super) fn look(&mut self, last: &FileStamps, trigger: Trigger) -> FileStamps {
        let referenced = [self.referenced.as_slice(), &self.tls_paths].concat();
        let mut now = operator_files::inspect(&self.path, &referenced);
        let is_finished = match trigger {
            Trigger::Clock | Trigger::Version => now == *last,
            Trigger::Request => true,
            Trigger::Event if now == self.seen => false,
            Trigger::Event => (0..SETTLE_MAX).any(|_| {
                std::thread::sleep(SETTLE);
                let before = std::mem::replace(&mut now, operator_files::inspect(&self.path, &referenced));
                before == now
            }),
        };
        if is_finished && now != self.seen {
            self.changed(&now);
        } else if trigger == Trigger::Request {
            self.reload(trigger);
        }
        now
    }

    fn changed(&mut self, now: &FileStamps) {
        let before = std::mem::replace(&mut self.seen, now.clone());
        if before.has_settings() && !now.has_settings() {
            // An editor may be about to write it again. Either way, the previous settings remain active.
            let path = self.path.display();
            tell(&format!("! The settings file {path} is gone. The previous settings remain active."));
        }
        if now.ignored != before.ignored {
            now.warn_of_ignored();
        }
        if now.stamps != before.stamps {
            self.reload(Trigger::Event);
        }
    }

    pub(super) fn reload(&mut self, trigger: Trigger) {
        let read = (self.read)(&self.path, Some(&self.current.settings), &self.source);
        let error = self.gateway.reload_error();
        let read = read.and_then(|read| self.keeps(read)).and_then(|read| self.listens(read));
        let pair = read.as_ref().ok().and_then(|read| read.tls.clone());
        match read.and_then(|read| self.weighed(read)) {
            Ok(new) => {
                self.tls_paths.clear();
                if let (Some(tls), Some(pair)) = (&self.listener.tls, &pair) {
                    tls.renew(pair);
                }
                let version = self.version_of_source();
                if error.is_none() && self.is_current(&new) {
                    self.note_version(version.as_ref());
                    return;
                }
                let changes = settings::diff(&self.current.settings, &new.settings);
                for key in &changes.restart_needed {
                    tracing::warn!("The new value of `{key}` takes effect after a restart.");
                }
                let before = &self.current.settings.warnings;
                let is_new = |warning: &&Warning| !before.iter().any(|old| old.message == warning.message);
                let new_warnings: Vec<Warning> = new.settings.warnings.iter().filter(is_new).cloned().collect();
                warning_lines(&self.path, &new_warnings).iter().for_each(|warning| tell(warning));
                tracing::info!(path = %self.path.display(), "reloaded settings, contracts and policies");
                self.take(&new);
                match &version {
                    Some(version) if self.gateway.version() != Some(version.head.number) => {
                        self.gateway.reload_version(new, &version.head.published_by, version.head.number);
                    }
                    Some(_) | None => self.gateway.reload(new),
                }
                self.note_version(version.as_ref());
            }
            Err(failure) => {
                self.tls_paths = settings_file::tls_paths(&self.path);
                self.tls_paths.retain(|path| !self.referenced.contains(path));
                let served = self.listener.tls.as_ref().filter(|_| failure.is_about_certificate());
                let served = served.map(|tls| format!(". {}", tls.still_served()));
                let message = format!("{failure}{}", served.unwrap_or_default());
                // A request finds what an event has reported already.
                if trigger != Trigger::Request || error.as_ref() != Some(&message) {
                    self.gateway.reload_failed(message);
                }
            }
        }
    }

    /// Checks that nothing disappears by accident.
    fn keeps(&self, read: OperatorFiles) -> Result<OperatorFiles, Failure> {
        let (before, now) = (&self.current.settings, &read.files.settings);
        if before.operator_files != now.operator_files {
            let line = now.written.line("operator_files").map(|line| format!(":{line}:1")).unwrap_or_default();
            let path = self.path.display();
            let message = format!("{path}{line}: the new value of `operator_files` takes effect after a restart");
            return Err(Failure::new(Exit::BadSettings, message));
        }
        match &self.source {
            Source::Folder => read.keeps(&self.current).map(|()| read),
            Source::Database(Some(_)) => Ok(read),
            Source::Database(None) => Err(nothing_published()),
        }
    }

    fn version_of_source(&self) -> Option<Arc<ConfigVersion>> {
        match &self.source {
            Source::Folder | Source::Database(None) => None,
            Source::Database(Some(version)) => Some(Arc::clone(version)),
        }
    }

    /// Says that a version is in force.
    fn note_version(&self, version: Option<&Arc<ConfigVersion>>) {
        if let Some(version) = version {
            self.gateway.set_version(version.head.number);
            self.in_force.set(version);
        }
    }

    /// Checks files that a user may publish.
    pub(super) fn check(&self, files: &[(String, String)]) -> Checked {
        let new = published::check(&self.path, &self.current.settings, files).map_err(|failure| failure.to_string())?;
        // A copy: what nobody publishes must not add tools.
        let mut known = self.known.clone();
        known.update(self.gateway.offered(), &new.settings);
        let weaker = Weaker::between(&rules(&self.current), &rules(&new), &known.all());
        Ok(CheckedFiles { weaker })
    }

    /// Checks settings that depend on the listener. It may have another address than the settings say.
    fn listens(&self, read: OperatorFiles) -> Result<OperatorFiles, Failure> {
        let is_open = read.files.settings.allow_anonymous_loopback;
        let checked = settings::check_anonymous(self.listener.address, is_open);
        checked.map(|()| read).map_err(|message| Failure::new(Exit::BadSettings, message))
    }

    fn take(&mut self, new: &Files) {
        self.guard.allow(&new.settings.allowed_hosts, &new.settings.allowed_origins);
        self.current = new.clone();
    }

    /// Returns the part of the files that takes effect at once. The rest waits for a user.
    fn weighed(&mut self, read: OperatorFiles) -> Result<Files, Failure> {
        let OperatorFiles { files, referenced, texts, .. } = read;
        let wanted = self.with_old(files);
        let digest = texts.digest(&wanted.settings);
        self.known.update(self.gateway.offered(), &wanted.settings);
        let tools = self.known.all();
        let weighed = match &self.source {
            Source::Folder => weigh(&self.current, &wanted, digest.clone(), &tools),
            // A user confirmed the version.
            Source::Database(_) => Ok(Weighed { files: wanted.clone(), held: None }),
        };
        let Weighed { files, held } = weighed.map_err(|error| Failure::new(Exit::BadSettings, error.to_string()))?;
        self.referenced = referenced;
        let texts = Arc::new(texts);
        let remembered = Arc::clone(&self.remember.borrow());
        self.remember_texts(match held {
            None => Arc::clone(&texts),
            Some(_) => Arc::new(stricter(&remembered, &texts, &files, &tools)),
        });
        self.wanted = held.is_some().then(|| Arc::new(Wanted { files: wanted, texts, digest }));
        self.gateway.hold(held);
        Ok(self.with_old(files))
    }

    fn remember_texts(&self, texts: Arc<OperatorTexts>) {
        self.remember.send_if_modified(|known| {
            let is_new = *known != texts;
            *known = texts;
            is_new
        });
    }

    /// Applies what waits, if it is what the user has read. The files were read a moment ago.
    pub(super) fn confirm(&mut self, confirmation: &Confirmation) -> Confirmed {
        if let Some(error) = self.gateway.reload_error() {
            return Confirmed::Refused(error);
        }
        let (Some(wanted), Some(held)) = (self.wanted.clone(), self.gateway.held()) else {
            return Confirmed::NothingWaits;
        };
        if wanted.digest != confirmation.digest() || held.digest != wanted.digest {
            return Confirmed::Changed;
        }
        if held.weaker.needs_step_up && !confirmation.has_step_up() {
            return Confirmed::StepUpRequired;
        }
        let new = self.with_old(wanted.files.clone());
        self.take(&new);
        self.gateway.reload_confirmed(new, confirmation.user());
        self.gateway.hold(None);
        self.wanted = None;
        self.remember_texts(Arc::clone(&wanted.texts));
        Confirmed::Applied
    }

    /// Keeps the old `Arc` of every unchanged part, so that nothing is rebuilt because of it.
    fn with_old(&self, new: Files) -> Files {
        let Files { settings, contracts, policies } = new;
        let old = &self.current;
        Files {
            settings: if settings == old.settings { Arc::clone(&old.settings) } else { settings },
            contracts: if contracts == old.contracts { Arc::clone(&old.contracts) } else { contracts },
            policies: if policies == old.policies { Arc::clone(&old.policies) } else { policies },
        }
    }

    fn is_current(&self, new: &Files) -> bool {
        let Files { settings, contracts, policies } = &self.current;
        Arc::ptr_eq(settings, &new.settings)
            && Arc::ptr_eq(contracts, &new.contracts)
            && Arc::ptr_eq(policies, &new.policies)
    }
}
