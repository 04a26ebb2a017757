//! Exports that go on where an earlier one ended: `--after POSITION` and `--continue`.
//!
//! A position has a number for each chain, because only positions of one chain are committed in order. So no record is
//! missed or written twice, also while a gateway writes. A call is exported when it has ended.
//!
//! `--continue` appends to a file. It keeps the position in `FILE.position`, together with the size of the file at that
//! moment. If an export is interrupted, the next one removes what was written after that size.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcpproxy_store::{FeedCursor, Filter, Store};
use serde::{Deserialize, Serialize};

use super::{Export, Shape, whereabouts};
use crate::commands::activity::destination::Destination;
use crate::commands::activity::words::counted;
use crate::exit::{Exit, Failure};
use crate::home::secret::{Readers, replace_file};
use crate::terminal::output;
use crate::terminal::progress::{Output, Progress};

/// The end of an export, beside its file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    position: String,
    /// The size of the file.
    bytes: u64,
    /// The format and the filters. All of a file has the same.
    what: String,
}

/// Writes the records after a position to standard output or a new file. Tells the position to go on from.
pub(super) async fn after(
    store: &Store,
    export: &Export,
    (filter, from): (&Filter, &FeedCursor),
) -> anyhow::Result<u64> {
    let mut out = Destination::open(export.out.as_deref())?;
    let shape = Shape::of(export);
    out.write_all(shape.header().as_bytes())?;
    let (written, next) = copy(store, (filter, from), shape, whereabouts(export), &mut out).await?;
    out.finish()?;
    output::tell(&format!("To go on from here, export with --after {next}"));
    Ok(written)
}

/// Appends the records since the last export to a file.
pub(super) async fn to_file(store: &Store, export: &Export, filter: &Filter, path: &Path) -> anyhow::Result<u64> {
    let doing = || format!("could not write to `{}`", path.display());
    let marked = mark_of(path);
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(path).with_context(doing)?;
    if file.try_lock().is_err() {
        return Err(Failure::new(Exit::Failed, format!("Another export writes to `{}`.", path.display()))
            .hint("wait until it has ended")
            .into());
    }
    let what = format!("{:?} {filter:?}", Shape::of(export));
    let from = match read_mark(&marked)? {
        Some(mark) => resume(&file, path, &mark, &what)?,
        None if file.metadata().with_context(doing)?.len() > 0 => {
            let message = format!("`{}` exists, but `{}` does not.", path.display(), marked.display());
            return Err(Failure::new(Exit::Failed, message)
                .hint("choose another file, or move this one away to export everything")
                .into());
        }
        None => {
            // An export that is interrupted now can be continued.
            write_mark(&marked, &Mark { position: FeedCursor::default().to_string(), bytes: 0, what: what.clone() })?;
            FeedCursor::default()
        }
    };
    let mut out = BufWriter::new(&file);
    let shape = Shape::of(export);
    if out.get_ref().metadata().with_context(doing)?.len() == 0 {
        out.write_all(shape.header().as_bytes()).with_context(doing)?;
    }
    let (written, next) = copy(store, (filter, &from), shape, Output::Elsewhere, &mut out).await?;
    out.flush().with_context(doing)?;
    drop(out);
    file.sync_all().with_context(doing)?;
    let bytes = file.metadata().with_context(doing)?.len();
    write_mark(&marked, &Mark { position: next.to_string(), bytes, what })?;
    Ok(written)
}

fn write_mark(path: &Path, mark: &Mark) -> anyhow::Result<()> {
    replace_file(path, &(serde_json::to_string(mark)? + "\n"), Readers::OnlyUs)
}

/// Moves to the end of what was exported before, and returns the position there.
fn resume(mut file: &File, path: &Path, mark: &Mark, what: &str) -> anyhow::Result<FeedCursor> {
    let shown = path.display();
    let again = "choose another file, or move this one and its `.position` away to export everything";
    if mark.what != what {
        let message = format!("`{shown}` was exported with another format or other filters.");
        return Err(Failure::new(Exit::Usage, message).hint(again).into());
    }
    let length = file.metadata()?.len();
    if length < mark.bytes {
        let message = format!("`{shown}` is shorter than after the last export.");
        return Err(Failure::new(Exit::Failed, message).hint(again).into());
    }
    // An interrupted export may have left a part.
    file.set_len(mark.bytes)
        .and_then(|()| file.seek(SeekFrom::End(0)))
        .with_context(|| format!("could not write to `{shown}`"))?;
    Ok(FeedCursor::parse(&mark.position)?)
}

/// Writes records up to the present end of the log, oldest first in each chain. Returns their number and the position.
async fn copy(
    store: &Store,
    (filter, from): (&Filter, &FeedCursor),
    shape: Shape,
    output: Output,
    out: &mut (dyn std::io::Write + Send),
) -> anyhow::Result<(u64, FeedCursor)> {
    let end = store.feed_end().await?;
    if from.is_beyond(&end) {
        return Err(Failure::new(Exit::Failed, "The log ends before this position, so it was restored or replaced.")
            .hint("start again from the beginning: `--after f`, or --continue with another file")
            .into());
    }
    let total = from.lines_until(&end);
    let mut progress = Progress::new("lines", output);
    let (mut written, mut done, mut missed, mut next) = (0, 0, 0, from.clone());
    while let Some(page) = store.export_after(&next, &end, filter).await? {
        for text in shape.texts(store, page.records).await? {
            out.write_all(text.as_bytes())?;
            written += 1;
        }
        (done, missed, next) = (done + page.lines, missed + page.missed, page.next);
        progress.show(done.min(total), Some(total));
    }
    drop(progress);
    if missed > 0 {
        output::tell(&format!("warning: Retention removed {} before they were exported.", counted(missed, "line")));
    }
    Ok((written, next))
}

fn mark_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".position");
    name.into()
}

fn read_mark(path: &Path) -> anyhow::Result<Option<Mark>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("could not read `{}`", path.display())),
    };
    let unreadable = |_| {
        Failure::new(Exit::Failed, format!("`{}` is not a position of an export.", path.display()))
            .hint("move it and its file away to export everything")
    };
    Ok(Some(serde_json::from_str(&text).map_err(unreadable)?))
}
