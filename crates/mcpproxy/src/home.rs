//! The data folder, by default `~/.mcpproxy`.
//!
//! | file | content |
//! |---|---|
//! | `mcp_config.json`, `contracts/`, `policies/` | written by the operator, read by `operator_files` |
//! | `mcpproxy.db` | tokens, users, approvals and the activity log, unless `storage.url` names another database |
//! | `admin.key` | opens the REST API for the commands of this machine |
//! | `agent.token` | token of the local agent, used by `mcpproxy call` and `mcpproxy stdio` |
//! | `signing.key` | signs the checkpoints of the activity log |
//! | `signing.key.next` | the next signing key, while `activity key rotate` runs |
//! | `retired-keys.txt` | public keys of earlier signing keys |
//! | `sealing.key` | encrypts the tokens with which the gateway signs in to servers |
//! | `checkpoint.txt` | newest signed checkpoint, outside the database, so that a truncated log is detected |
//! | `verified.json` | the last verification of the activity log, from which `activity verify` goes on |
//! | `signing.key.old`, `checkpoint.old.txt` | both of a damaged log, which `serve --accept-damage` set aside; `….2` and so on of later ones |
//! | `connect/` | what `mcpproxy connect` wrote into clients' files, with backups |
//! | `gateway.lock` | held by the running gateway, see [`lock`] |
//! | `settings.lock` | held by a command that changes the settings |
//! | `restore.pending` | there while `mcpproxy restore` replaces files; no gateway starts until it is gone |
//! | `replaced-TIME/` | files that `mcpproxy restore --force` replaced |
//! | `logs/` | standard error of each server |
//! | `tools/` | the tools that each server listed last, for commands that work without a gateway |
//! | `secrets/`, `backups/` | secrets of imported servers, and clients' files before `import` changed them |
//!
//! The folder has mode 0700 and every secret mode 0600. A folder that other users can write is refused. A secret that other users can read is refused instead of used,
//! because it may already be known to them ([`secret`]).

pub(crate) mod lock;
pub(crate) mod rotation;
pub(crate) mod secret;
pub(crate) mod set_aside;

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcpproxy_store::{SealingKey, SigningKey, VERIFIED_FILE, forget_verification};

use self::secret::{key_or_new, random_key, read_secret, write_secret};
use self::set_aside::SET_ASIDE;
use crate::exit::{Exit, Failure};
use crate::terminal::shell;

const FOLDER_MODE: u32 = 0o700;
const OTHERS_WRITE: u32 = 0o022;
const ADMIN_KEY: &str = "admin.key";
const AGENT_TOKEN: &str = "agent.token";
const SIGNING_KEY: &str = "signing.key";
const NEXT_SIGNING_KEY: &str = "signing.key.next";
const SEALING_KEY: &str = "sealing.key";
const DATABASE: &str = "mcpproxy.db";

const KEYS: [&str; 5] = [ADMIN_KEY, AGENT_TOKEN, SIGNING_KEY, NEXT_SIGNING_KEY, SEALING_KEY];
/// The database, and the files that SQLite keeps next to it.
pub(crate) const DATABASES: [&str; 3] = [DATABASE, "mcpproxy.db-wal", "mcpproxy.db-shm"];

/// Returns the keys and tokens of the data folder, also those that were set aside.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().chain(SET_ASIDE.map(|(key, _)| key))
}

/// Returns the files of the data folder that no server may get, also not through `${file:PATH}` in the settings.
pub(crate) fn own_secrets() -> impl Iterator<Item = &'static str> {
    keys().chain(DATABASES)
}

/// The path of a data folder.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    is_default: bool,
}

impl Home {
    /// Returns the folder of `--home`, or `~/.mcpproxy`.
    pub(crate) fn resolve(given: Option<PathBuf>) -> anyhow::Result<Self> {
        match given {
            Some(folder) => {
                let folder = std::path::absolute(&folder)
                    .with_context(|| format!("could not resolve the folder `{}`", folder.display()))?;
                Ok(Self { folder, is_default: false })
            }
            None => {
                let user = std::env::home_dir().filter(|folder| !folder.as_os_str().is_empty()).ok_or_else(|| {
                    Failure::new(Exit::Usage, "Your home folder is unknown.")
                        .hint("choose a data folder with --home DIR")
                })?;
                Ok(Self { folder: user.join(".mcpproxy"), is_default: true })
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether commands use this folder without `--home`.
    pub(crate) fn is_default(&self) -> bool {
        self.is_default
    }

    /// Returns a command line for this folder, with `--home` if it is needed.
    pub(crate) fn command(&self, program: &str, rest: &str) -> String {
        format!("{program}{} {rest}", self.option())
    }

    /// Returns the option that commands need for this folder: ` --home '/my data'`, or nothing for the default folder.
    pub(crate) fn option(&self) -> String {
        if self.is_default {
            String::new()
        } else {
            format!(" --home {}", shell::plain_word(&self.folder.display().to_string()))
        }
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.folder.join("mcp_config.json")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join(DATABASE)
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Returns the folder with the tools that each server listed last.
    pub(crate) fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }

    pub(crate) fn agent_token(&self) -> PathBuf {
        self.folder.join(AGENT_TOKEN)
    }

    /// Returns the path of the newest checkpoint of the activity log.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.folder.join("checkpoint.txt")
    }

    /// Returns the path of the file with the last verification of the activity log.
    pub(crate) fn verified(&self) -> PathBuf {
        self.folder.join(VERIFIED_FILE)
    }

    /// Makes the next verification of the activity log read every line.
    pub(crate) fn forget_verification(&self) -> anyhow::Result<()> {
        let path = self.verified();
        forget_verification(&path).with_context(|| format!("could not remove `{}`", path.display()))
    }

    fn signing_key(&self) -> PathBuf {
        self.folder.join(SIGNING_KEY)
    }

    fn admin_key(&self) -> PathBuf {
        self.folder.join(ADMIN_KEY)
    }

    /// Returns the path of the file that marks a restore that has not finished.
    pub(crate) fn restore_pending(&self) -> PathBuf {
        self.folder.join("restore.pending")
    }

    fn lock(&self) -> PathBuf {
        self.folder.join("gateway.lock")
    }

    /// Creates the folder, or checks that an existing one is safe to use.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        let folder = &self.folder;
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)
            .with_context(|| format!("could not create the data folder `{}`", folder.display()))?;
        self.check_writers()
    }

    /// Refuses a folder that other users can write. They could replace contracts, keys or the database.
    fn check_writers(&self) -> anyhow::Result<()> {
        let shown = self.folder.display();
        let metadata = std::fs::metadata(&self.folder).with_context(|| format!("could not read `{shown}`"))?;
        let (us, owner) = (rustix::process::geteuid().as_raw(), metadata.uid());
        let word = shell::plain_word(&shown.to_string());
        if owner != us && owner != 0 {
            let message = format!("The data folder `{shown}` belongs to another user (uid {owner}, you are {us}).");
            let hint = format!("run `chown {us} {word}` as root, or choose another folder with --home DIR");
            return Err(Failure::new(Exit::Failed, message).hint(hint).into());
        }
        if metadata.mode() & OTHERS_WRITE != 0 {
            let message = format!("Other users can write to the data folder `{shown}`.");
            let hint = format!("run `chmod go-w {word}`, or choose a folder of your own with --home DIR");
            return Err(Failure::new(Exit::Failed, message).hint(hint).into());
        }
        Ok(())
    }

    /// Returns the admin key. Creates it if it does not exist.
    pub(crate) fn admin_key_or_new(&self) -> anyhow::Result<String> {
        key_or_new(&self.admin_key())
    }

    /// Returns the key that encrypts the tokens of servers. Creates it if it does not exist.
    pub(crate) fn sealing_key_or_new(&self) -> anyhow::Result<SealingKey> {
        let path = self.folder.join(SEALING_KEY);
        let text = key_or_new(&path)?;
        let key = SealingKey::from_hex(&text).ok_or_else(|| {
            Failure::new(Exit::Failed, format!("`{}` does not hold a key of 64 hexadecimal digits", path.display()))
                .hint(
                    "restore the file from a backup; without one, move it away, start the gateway, and sign in to your \
                     servers again with `mcpproxy servers login NAME`",
                )
        })?;
        Ok(key)
    }

    /// Creates the key that signs the activity log.
    pub(crate) fn new_signing_key(&self) -> anyhow::Result<SigningKey> {
        let key = random_key()?;
        write_secret(&self.signing_key(), &key)?;
        self.parse_signing_key(&key)
    }

    /// Returns the key that signs the activity log, if it exists.
    pub(crate) fn existing_signing_key(&self) -> anyhow::Result<Option<SigningKey>> {
        read_secret(&self.signing_key())?.map(|text| self.parse_signing_key(&text)).transpose()
    }

    fn parse_signing_key(&self, text: &str) -> anyhow::Result<SigningKey> {
        let key = SigningKey::from_hex(text).ok_or_else(|| {
            let path = self.signing_key();
            Failure::new(Exit::Failed, format!("`{}` does not hold a key of 64 hexadecimal digits", path.display()))
                .hint(
                    "restore the file from a backup; without one, move it away and start a new chain with `mcpproxy serve \
                     --accept-damage`",
                )
        })?;
        Ok(key)
    }

    pub(crate) fn existing_admin_key(&self) -> anyhow::Result<String> {
        read_secret(&self.admin_key())?.ok_or_else(|| no_secret(&self.admin_key()).into())
    }

    pub(crate) fn existing_agent_token(&self) -> anyhow::Result<String> {
        read_secret(&self.agent_token())?.ok_or_else(|| no_secret(&self.agent_token()).into())
    }
}

fn no_secret(path: &Path) -> Failure {
    Failure::new(Exit::NoGateway, format!("`{}` does not exist", path.display()))
        .hint("start the gateway once to create it: mcpproxy serve")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::secret::{KEY_BYTES, Readers, replace_file};
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().join("data"))).unwrap();
        home.create().unwrap();
        (folder, home)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn one_gateway_for_a_folder() {
        let (_folder, home) = home();
        assert!(home.running().unwrap().is_none());
        let mut lock = home.take_lock().unwrap();
        lock.announce("127.0.0.1:1234", "http://localhost:1234", None).unwrap();
        let running = home.running().unwrap().unwrap();
        assert_eq!((running.pid, running.address.as_str()), (std::process::id(), "127.0.0.1:1234"));
        let refused = home.take_lock().err().unwrap().to_string();
        assert!(refused.starts_with("A gateway already runs at http://127.0.0.1:1234. "), "{refused}");
        assert!(refused.ends_with(&format!("locked by pid {}.", std::process::id())), "{refused}");
        let pin = "0a".repeat(32);
        lock.announce("127.0.0.1:1234", "https://localhost:1234", Some(&"00".repeat(32))).unwrap();
        lock.announce_certificate(&pin).unwrap();
        let running = home.running().unwrap().unwrap();
        assert_eq!((running.url.as_str(), running.certificate.as_ref()), ("https://localhost:1234", Some(&pin)));
        assert_eq!(lock::read_announced(&running.lock).unwrap().certificate, Some(pin));
        let refused = home.take_lock().err().unwrap().to_string();
        assert!(refused.starts_with("A gateway already runs at https://127.0.0.1:1234. "), "{refused}");
        drop(lock);
        assert!(home.running().unwrap().is_none());
        home.take_lock().unwrap();
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let (_folder, home) = home();
        for (mode, is_refused) in [(0o700, false), (0o755, false), (0o770, true), (0o702, true), (0o1777, true)] {
            fs::set_permissions(home.folder(), Permissions::from_mode(mode)).unwrap();
            let created = home.create().map_err(|error| error.to_string());
            let expected = format!("Other users can write to the data folder `{}`.", home.folder().display());
            assert_eq!(created.err(), is_refused.then_some(expected), "{mode:o}");
        }
    }

    #[test]
    fn secrets_are_ours_alone() {
        let (_folder, home) = home();
        assert_eq!(mode(home.folder()), 0o700);
        let key = home.admin_key_or_new().unwrap();
        assert_eq!(key.len(), 2 * KEY_BYTES);
        assert_eq!(home.admin_key_or_new().unwrap(), key);
        assert_eq!(mode(&home.admin_key()), 0o600);
        assert!(write_secret(&home.admin_key(), "other").is_err());
        fs::set_permissions(home.admin_key(), Permissions::from_mode(0o640)).unwrap();
        let refused = home.existing_admin_key().unwrap_err().to_string();
        assert!(refused.ends_with("permissions too open"), "{refused}");
    }

    #[test]
    fn the_signing_key_is_made_once() {
        let (_folder, home) = home();
        assert!(home.existing_signing_key().unwrap().is_none());
        let made = home.new_signing_key().unwrap();
        assert!(home.new_signing_key().is_err(), "a key is never replaced");
        assert_eq!(home.existing_signing_key().unwrap().unwrap().verifier(), made.verifier());
        assert_eq!((mode(&home.signing_key()), read_secret(&home.signing_key()).unwrap().unwrap().len()), (0o600, 64));

        fs::set_permissions(home.signing_key(), Permissions::from_mode(0o644)).unwrap();
        let refused = home.existing_signing_key().err().unwrap().to_string();
        assert!(refused.ends_with("permissions too open"), "{refused}");

        fs::set_permissions(home.signing_key(), Permissions::from_mode(0o600)).unwrap();
        for broken in ["", "00", &"g".repeat(64)] {
            fs::write(home.signing_key(), broken).unwrap();
            let refused = home.existing_signing_key().err().unwrap().to_string();
            assert!(refused.ends_with("does not hold a key of 64 hexadecimal digits"), "{refused}");
            assert_eq!(fs::read_to_string(home.signing_key()).unwrap(), broken, "it is not replaced");
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_mode() {
        let (_folder, home) = home();
        replace_file(&home.settings(), "{}", Readers::AsBefore).unwrap();
        assert_eq!(mode(&home.settings()), 0o600);
        fs::set_permissions(home.settings(), Permissions::from_mode(0o640)).unwrap();
        replace_file(&home.settings(), "{ }", Readers::AsBefore).unwrap();
        assert_eq!((mode(&home.settings()), fs::read_to_string(home.settings()).unwrap()), (0o640, "{ }".to_owned()));
        replace_file(&home.settings(), "{}", Readers::OnlyUs).unwrap();
        assert_eq!(mode(&home.settings()), 0o600);
    }
}
