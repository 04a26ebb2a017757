//! The target of an export: standard output, a device, or a file that appears only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

pub(super) enum Destination {
    Standard(BufWriter<io::Stdout>),
    /// A device or a pipe, which is never replaced.
    Device(BufWriter<File>),
    File {
        part: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
}

impl Destination {
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::Standard(BufWriter::new(io::stdout()))) };
        let doing = || format!("could not write to `{}`", path.display());
        // Through a symbolic link the real file is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            let device = OpenOptions::new().write(true).open(&path).with_context(doing)?;
            return Ok(Self::Device(BufWriter::new(device)));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = tempfile::Builder::new()
            .prefix(&format!("{name}."))
            .suffix(".part")
            .tempfile_in(folder)
            .with_context(doing)?;
        Ok(Self::File { part: BufWriter::new(part), path })
    }

    /// Completes the export. Without this call, no file is left behind.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Standard(mut out) => out.flush().context("could not print"),
            Self::Device(mut out) => out.flush().context("could not write"),
            Self::File { part, path } => {
                let doing = || format!("could not write `{}`", path.display());
                let part = part.into_inner().map_err(io::IntoInnerError::into_error).with_context(doing)?;
                part.as_file().sync_all().with_context(doing)?;
                part.persist(&path).with_context(doing)?;
                Ok(())
            }
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Device(out) => out.write(bytes),
            Self::File { part, .. } => part.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Device(out) => out.flush(),
            Self::File { part, .. } => part.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let mut given_up = Destination::open(Some(&path)).unwrap();
        given_up.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(given_up);
        assert!(names(folder.path()).is_empty());

        let mut whole = Destination::open(Some(&path)).unwrap();
        whole.write_all(b"whole").unwrap();
        whole.finish().unwrap();
        assert_eq!((names(folder.path()), fs::read(&path).unwrap()), (vec!["out.csv".to_owned()], b"whole".to_vec()));
    }

    #[test]
    fn a_device_stays_a_device() {
        let mut device = Destination::open(Some(Path::new("/dev/null"))).unwrap();
        assert!(matches!(device, Destination::Device(_)));
        device.write_all(b"gone").unwrap();
        device.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
