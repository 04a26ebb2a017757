//! Authentication and access control.
//!
//! [`Guard`] rejects foreign hosts and origins before anything else. `identity` finds the sender of a request: an
//! agent, the admin key, a signed-in user, or none of them. `access` decides if the sender may use a REST endpoint.
//! `login`, `presence` and `factor` are the three levels of proof that a user gives: a session, presence at this page,
//! and a fresh second factor. `oidc` gets the first and the last of them from an identity provider.

pub(crate) mod access;
mod admin_key;
pub(crate) mod cookie;
pub(crate) mod factor;
mod guard;
pub(crate) mod identity;
pub(crate) mod login;
pub(crate) mod oidc;
pub(crate) mod origin;
pub(crate) mod passkey;
pub(crate) mod password;
pub(crate) mod presence;
pub(crate) mod records;
pub(crate) mod recovery;
pub(crate) mod session_places;
pub(crate) mod sign_ins;
pub(crate) mod slow_lane;
pub(crate) mod totp;

pub use admin_key::AdminKey;
pub use guard::{Guard, Guarded};

use rand::TryRng as _;
use rand::rngs::SysRng;

/// Returns random bytes from the operating system. Sessions and invitations are secure only if nobody can guess them.
pub(crate) fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).ok().map(|()| bytes)
}
