//! Passwords, hashed with argon2id on blocking threads.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use tokio::sync::Semaphore;

pub(crate) const MIN_CHARS: usize = 10;
/// Limits the input of the hash function.
pub(crate) const MAX_CHARS: usize = 200;
/// Parallel hashes. Each takes 19 MiB and a core for a moment, so strangers who try to sign in must not start more.
const AT_ONCE: usize = 2;
/// The hash of no password, with the same cost as a real one. Checking an unknown name against it takes as long as
/// checking a known name.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5LW5vYm9keQ$Rdx2ue1IoVEjO9VsrnlX6dIiHDYQKDfdeEGhd/lKbNU";

#[derive(Clone)]
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
}

/// The reason why a new password is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    Short,
    Long,
    /// It equals the name, or repeats one character.
    Plain,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Passwords {
    /// Hashes a password. `None` without memory or randomness.
    pub(crate) async fn hash(&self, password: String) -> Option<String> {
        self.beside(move || Argon2::default().hash_password(password.as_bytes()).ok().map(|hash| hash.to_string()))
            .await
            .flatten()
    }

    /// Verifies a password. `None` stands for an unknown name and takes the same time.
    pub(crate) async fn is_right(&self, password: String, hash: Option<String>) -> bool {
        let is_somebody = hash.is_some();
        let hash = hash.unwrap_or_else(|| NOBODYS.to_owned());
        let is_right = self.beside(move || {
            let password = password.as_bytes().get(..MAX_CHARS * 4).unwrap_or(password.as_bytes());
            PasswordHash::new(&hash).is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
        });
        is_right.await.unwrap_or(false) && is_somebody
    }

    async fn beside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _turn = self.turns.acquire().await.ok()?;
        tokio::task::spawn_blocking(work).await.ok()
    }
}

/// Checks the length, and little else. Rules about digits and symbols make passwords hard to type and easy to guess.
pub(crate) fn weakness(name: &str, password: &str) -> Option<Weakness> {
    let chars = password.chars().count();
    let mut all = password.chars();
    let first = all.next();
    if chars < MIN_CHARS {
        Some(Weakness::Short)
    } else if chars > MAX_CHARS {
        Some(Weakness::Long)
    } else if all.all(|c| Some(c) == first) || password.to_lowercase().trim() == name.to_lowercase() {
        Some(Weakness::Plain)
    } else {
        None
    }
}

impl Weakness {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Short => "Use at least 10 characters. A few random words are easy to remember.",
            Self::Long => "Use at most 200 characters.",
            Self::Plain => "This password is too easy to guess. A few random words are easy to remember.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_password_itself_is_right() {
        let passwords = Passwords::default();
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(passwords.hash("correct horse".to_owned()).await.unwrap(), hash, "each has its own salt");
        let check = async |password: &str, hash: Option<&str>, expected: bool| {
            let is_right = passwords.is_right(password.to_owned(), hash.map(str::to_owned)).await;
            assert_eq!(is_right, expected, "{password}");
        };
        check("correct horse", Some(&hash), true).await;
        check("correct horsf", Some(&hash), false).await;
        check("", Some(&hash), false).await;
        check("correct horse", Some("not a hash"), false).await;
        check("correct horse", None, false).await;
        check("nobody's password", None, false).await;
    }

    /// With other parameters, this hash would take another time than a real one, which would reveal unknown names.
    #[test]
    fn the_hash_of_an_unknown_user_is_valid() {
        let hash = PasswordHash::new(NOBODYS).unwrap();
        let made = Argon2::default().hash_password(b"x").unwrap();
        assert_eq!((hash.algorithm, hash.version, &hash.params), (made.algorithm, made.version, &made.params));
        assert_eq!(hash.hash.unwrap().as_bytes().len(), made.hash.unwrap().as_bytes().len());
    }

    #[test]
    fn weak_ones() {
        let check = |password: &str, expected| assert_eq!(weakness("anna.lindgren", password), expected, "{password}");
        check("", Some(Weakness::Short));
        check("123456789", Some(Weakness::Short));
        check("pässwörter", None);
        check("aaaaaaaaaaaa", Some(Weakness::Plain));
        check("Anna.Lindgren", Some(Weakness::Plain));
        check("correct horse battery", None);
        check(&"ab".repeat(100), None);
        check(&"ab".repeat(101), Some(Weakness::Long));
    }
}
