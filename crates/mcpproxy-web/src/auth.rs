//! How a person proves who they are: a password, and a factor that no program on the machine has.

pub(crate) mod access;
mod admin_key;
pub(crate) mod attempts;
pub(crate) mod cookie;
pub(crate) mod factor;
mod guard;
pub(crate) mod identity;
pub(crate) mod login;
pub(crate) mod origin;
pub(crate) mod passkey;
pub(crate) mod password;
pub(crate) mod presence;
pub(crate) mod records;
pub(crate) mod totp;

pub use admin_key::AdminKey;
pub use guard::{Guard, Guarded};

use rand::TryRng as _;
use rand::rngs::SysRng;

/// From the operating system alone: whoever guesses one of these is somebody else.
pub(crate) fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).ok().map(|()| bytes)
}
