//! The changes of `doctor --fix`: permissions of files that belong to this user alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::facts::open_files;
use crate::home::Home;

/// Removes the permissions of other users. Returns what was done.
pub(super) fn run(home: &Home) -> Vec<String> {
    let fix = |(path, mode): (String, u32)| match fs::set_permissions(&path, Permissions::from_mode(mode & 0o700)) {
        Ok(()) => format!("{path}: mode {mode:03o} is now {:03o}", mode & 0o700),
        Err(error) => format!("{path}: could not change the mode: {error}"),
    };
    open_files(home).into_iter().map(fix).collect()
}
