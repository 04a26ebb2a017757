//! Opens files of the data folder without following symbolic links.
//!
//! A program of the same user can put a link there, and each of these files is written without anyone looking. Through a
//! link, a server's output or list of tools would overwrite any file of the owner.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file. One that is created is the owner's alone.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe would block until something reads it.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Opens a file to replace its content.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().write(true).create(true).truncate(true))
}

/// Opens a file to read it.
pub(crate) fn read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}
