//! The data folder: where each file is, who may read it, and who runs on it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use mcpproxy_store::SigningKey;
use rand::TryRng as _;
use rand::rngs::SysRng;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::shell;

const FOLDER_MODE: u32 = 0o700;
const SECRET_MODE: u32 = 0o600;
const KEY_BYTES: usize = 32;

/// A look at the lock holds it for a moment, so one refusal proves nothing.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(30);
/// How long a gateway may take from its lock to its address.
const START_PAUSES: u32 = 100;

#[derive(Clone, Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    is_default: bool,
}

impl Home {
    /// The folder that was asked for, or `~/.mcpproxy`.
    pub(crate) fn resolve(asked: Option<PathBuf>) -> anyhow::Result<Self> {
        match asked {
            Some(folder) => {
                let folder = std::path::absolute(&folder)
                    .with_context(|| format!("could not find the folder `{}`", folder.display()))?;
                Ok(Self { folder, is_default: false })
            }
            None => {
                let user = std::env::home_dir().filter(|folder| !folder.as_os_str().is_empty()).ok_or_else(|| {
                    Failure::new(Exit::Usage, "no home folder is known").hint("say where the data is: --home DIR")
                })?;
                Ok(Self { folder: user.join(".mcpproxy"), is_default: true })
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether commands find this folder without being told.
    pub(crate) fn is_default(&self) -> bool {
        self.is_default
    }

    /// A command line that works on this folder.
    pub(crate) fn command(&self, program: &str, rest: &str) -> String {
        if self.is_default {
            format!("{program} {rest}")
        } else {
            format!("{program} --home {} {rest}", shell::plain_word(&self.folder.display().to_string()))
        }
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.folder.join("mcp_config.json")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join("mcpproxy.db")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    pub(crate) fn agent_token(&self) -> PathBuf {
        self.folder.join("agent.token")
    }

    /// The newest checkpoint of the activity log, beside the database and not in it.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.folder.join("checkpoint.txt")
    }

    fn signing_key(&self) -> PathBuf {
        self.folder.join("signing.key")
    }

    fn admin_key(&self) -> PathBuf {
        self.folder.join("admin.key")
    }

    fn lock(&self) -> PathBuf {
        self.folder.join("gateway.lock")
    }

    pub(crate) fn create(&self) -> anyhow::Result<()> {
        let folder = &self.folder;
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)
            .with_context(|| format!("could not create the data folder `{}`", folder.display()))
    }

    /// The admin key, made now if there is none.
    pub(crate) fn admin_key_or_new(&self) -> anyhow::Result<String> {
        if let Some(key) = read_secret(&self.admin_key())? {
            return Ok(key);
        }
        let key = random_key()?;
        write_secret(&self.admin_key(), &key)?;
        Ok(key)
    }

    /// The key that signs the activity log, made now if there is none.
    pub(crate) fn signing_key_or_new(&self) -> anyhow::Result<SigningKey> {
        if let Some(key) = self.existing_signing_key()? {
            return Ok(key);
        }
        let key = random_key()?;
        write_secret(&self.signing_key(), &key)?;
        self.parse_signing_key(&key)
    }

    /// The key that signs the activity log, if a gateway has made one.
    pub(crate) fn existing_signing_key(&self) -> anyhow::Result<Option<SigningKey>> {
        read_secret(&self.signing_key())?.map(|text| self.parse_signing_key(&text)).transpose()
    }

    fn parse_signing_key(&self, text: &str) -> anyhow::Result<SigningKey> {
        let key = SigningKey::from_hex(text).ok_or_else(|| {
            let path = self.signing_key();
            Failure::new(Exit::Failed, format!("`{}` does not hold a key of 64 hexadecimal digits", path.display()))
                .hint("bring it back from a backup; without it, a new key begins a new chain: move the file away for that")
        })?;
        Ok(key)
    }

    pub(crate) fn existing_admin_key(&self) -> anyhow::Result<String> {
        read_secret(&self.admin_key())?.ok_or_else(|| no_secret(&self.admin_key()).into())
    }

    pub(crate) fn existing_agent_token(&self) -> anyhow::Result<String> {
        read_secret(&self.agent_token())?.ok_or_else(|| no_secret(&self.agent_token()).into())
    }

    /// Makes this process the one gateway of the folder, until the lock is dropped.
    pub(crate) fn take_lock(&self) -> anyhow::Result<Lock> {
        let path = self.lock();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(SECRET_MODE)
            .open(&path)
            .with_context(|| format!("could not open `{}`", path.display()))?;
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => {
                    file.set_len(0)?;
                    return Ok(Lock { file });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
                }
            }
        }
        let holder = match read_running(&file) {
            Some(running) => format!("data directory is locked by pid {}", running.pid),
            None => "data directory is locked by another gateway".to_owned(),
        };
        Err(Failure::new(Exit::Failed, format!("{holder} (`{}`)", self.folder.display()))
            .hint("use the gateway that runs (mcpproxy servers list), stop it, or choose another folder with --home")
            .into())
    }

    /// The gateway that runs on this folder, if one does. Waits for one that is just starting.
    pub(crate) fn running(&self) -> anyhow::Result<Option<Running>> {
        let path = self.lock();
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("could not open `{}`", path.display())),
        };
        for _ in 0..START_PAUSES {
            match file.try_lock_shared() {
                Ok(()) => return Ok(None),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("could not look at `{}`", path.display()));
                }
            }
            file.rewind()?;
            if let Some(running) = read_running(&file) {
                return Ok(Some(running));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Ok(None)
    }
}

/// What `gateway.lock` says about the process that holds it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) address: String,
}

/// Held for as long as the gateway runs; the kernel releases it, whatever happens to us.
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Tells other commands where the gateway listens.
    pub(crate) fn announce(&mut self, address: &str) -> anyhow::Result<()> {
        let running = Running { pid: std::process::id(), address: address.to_owned() };
        let text = serde_json::to_string(&running)? + "\n";
        self.file.rewind()?;
        self.file.write_all(text.as_bytes()).context("could not write the address into gateway.lock")
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _released_anyway = self.file.set_len(0);
    }
}

fn read_running(mut file: &File) -> Option<Running> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// 64 hexadecimal digits that nobody can guess.
fn random_key() -> anyhow::Result<String> {
    let mut bytes = [0_u8; KEY_BYTES];
    SysRng.try_fill_bytes(&mut bytes).context("the operating system gave no random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn no_secret(path: &Path) -> Failure {
    Failure::new(Exit::NoGateway, format!("there is no `{}`", path.display()))
        .hint("start the gateway once, it makes one: mcpproxy serve")
}

/// A secret from its file. A file that others can read is refused: then it is a secret no more.
pub(crate) fn read_secret(path: &Path) -> anyhow::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("could not read `{}`", path.display())),
    };
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        return Err(Failure::new(Exit::Failed, format!("`{path}`: permissions too open"))
            .hint(format!("run chmod 600 {path}"))
            .into());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("could not read `{}`", path.display()))?;
    Ok(Some(text.trim().to_owned()))
}

/// A new file that only we can read. It must not exist yet: nobody may have put something in its place. It is whole or
/// not there at all, also after a power cut.
pub(crate) fn write_secret(path: &Path, secret: &str) -> anyhow::Result<()> {
    let doing = || format!("could not create `{}`", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(doing)?;
    writeln!(file, "{secret}").with_context(doing)?;
    file.as_file().set_permissions(Permissions::from_mode(SECRET_MODE)).with_context(doing)?;
    file.as_file().sync_all().with_context(doing)?;
    file.persist_noclobber(path).with_context(doing)?;
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(doing)
}

/// Who may read a file once it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Whoever could before; only we, if the file is new.
    AsBefore,
    OnlyUs,
}

/// Replaces a file in one step, so that nobody ever reads half of it.
pub(crate) fn replace_file(path: &Path, text: &str, readers: Readers) -> anyhow::Result<()> {
    // Through a symbolic link the real file is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path).map_or(SECRET_MODE, |metadata| metadata.permissions().mode() & 0o7777);
    let mode = match readers {
        Readers::AsBefore => before,
        Readers::OnlyUs => before & !0o077,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("could not write into `{}`", folder.display()))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&path).with_context(|| format!("could not replace `{}`", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
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
        lock.announce("127.0.0.1:1234").unwrap();
        let running = home.running().unwrap().unwrap();
        assert_eq!((running.pid, running.address.as_str()), (std::process::id(), "127.0.0.1:1234"));
        let refused = home.take_lock().err().unwrap().to_string();
        assert!(refused.starts_with(&format!("data directory is locked by pid {}", std::process::id())), "{refused}");
        drop(lock);
        assert!(home.running().unwrap().is_none());
        home.take_lock().unwrap();
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
        let made = home.signing_key_or_new().unwrap();
        assert_eq!(home.signing_key_or_new().unwrap().verifier(), made.verifier());
        assert_eq!(home.existing_signing_key().unwrap().unwrap().verifier(), made.verifier());
        assert_eq!((mode(&home.signing_key()), read_secret(&home.signing_key()).unwrap().unwrap().len()), (0o600, 64));

        fs::set_permissions(home.signing_key(), Permissions::from_mode(0o644)).unwrap();
        let refused = home.signing_key_or_new().err().unwrap().to_string();
        assert!(refused.ends_with("permissions too open"), "{refused}");

        fs::set_permissions(home.signing_key(), Permissions::from_mode(0o600)).unwrap();
        for broken in ["", "00", &"g".repeat(64)] {
            fs::write(home.signing_key(), broken).unwrap();
            let refused = home.signing_key_or_new().err().unwrap().to_string();
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
