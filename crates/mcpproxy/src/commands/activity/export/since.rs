//! Exports that go on where an earlier one ended: `--after POSITION` and `--continue`.
//!
//! A position has a number for each chain, because only positions of one chain are committed in order. So no record is
//! missed or written twice, also while a gateway writes. A call is exported when it has ended.
//!
//! `--continue` appends to a file. It keeps the position in `FILE.position`, together with the size of the file at that
//! moment (`mark.rs`). If an export is interrupted, the next one removes what was written after that size.
//!
//! A position alone does not say of which log it is. So `--after` warns if the log was restored since, and `--continue`
//! compares the log with the mark.

use std::fs::TryLockError;
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use mcpproxy_store::{FeedCursor, Filter, Store};

use super::mark::{Mark, open_file, what_of};
use super::{Export, Shape, whereabouts};
use crate::commands::activity::destination::Destination;
use crate::commands::activity::words::counted;
use crate::exit::{Exit, Failure};
use crate::terminal::output;
use crate::terminal::progress::{Output, Progress};

/// Writes the records after a position to standard output or a new file. Tells the position to go on from.
pub(super) async fn after(
    store: &Store,
    export: &Export,
    (filter, from): (&Filter, &FeedCursor),
) -> anyhow::Result<u64> {
    let mut out = Destination::open(export.out.as_deref())?;
    let shape = Shape::of(export);
    out.write_all(shape.header().as_bytes())?;
    if let Some(fork) = store.replaced_before(from).await? {
        output::tell(&format!(
            "warning: The log was restored from a backup. If this position is older than the restore, the records after \
             {fork} are missing here.\n\
             hint: export them with --after {fork}"
        ));
    }
    let (written, next) = copy(store, (filter, from), shape, whereabouts(export), &mut out).await?;
    out.finish()?;
    output::tell(&format!("To go on from here, export with --after {next}"));
    Ok(written)
}

/// Appends the records since the last export to a file.
pub(super) async fn to_file(store: &Store, export: &Export, filter: &Filter, path: &Path) -> anyhow::Result<u64> {
    let doing = || format!("could not write to `{}`", path.display());
    let marked = Mark::path(path);
    let mut file = open_file(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::new(Exit::Failed, format!("Another export writes to `{}`.", path.display()))
                .hint("wait until it has ended")
                .into());
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
        }
    }
    let shape = Shape::of(export);
    let what = what_of(shape, filter);
    let from = match Mark::read(&marked)? {
        Some(mark) => {
            let (from, bytes) = mark.check(&file, path, &what)?;
            mark.check_log(store, &from).await?;
            file.set_len(bytes).and_then(|()| file.seek(SeekFrom::End(0))).with_context(doing)?;
            from
        }
        None if file.metadata().with_context(doing)?.len() > 0 => {
            let message = format!("`{}` exists, but `{}` does not.", path.display(), marked.display());
            return Err(Failure::new(Exit::Failed, message)
                .hint("choose another file, or move this one away to export everything")
                .into());
        }
        None => {
            // An export that is interrupted now can be continued.
            Mark::new(what.clone()).write(&marked)?;
            FeedCursor::default()
        }
    };
    let mut out = BufWriter::new(&file);
    if out.get_ref().metadata().with_context(doing)?.len() == 0 {
        out.write_all(shape.header().as_bytes()).with_context(doing)?;
    }
    let (written, next) = copy(store, (filter, &from), shape, Output::Elsewhere, &mut out).await?;
    out.flush().with_context(doing)?;
    drop(out);
    file.sync_all().with_context(doing)?;
    let bytes = file.metadata().with_context(doing)?.len();
    Mark::after(store, &next, (bytes, what)).await?.write(&marked)?;
    Ok(written)
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
    // The first export begins with the oldest record that is kept. Every later one counts what is missing.
    let from = if *from == FeedCursor::default() { store.oldest_kept().await? } else { from.clone() };
    let total = from.lines_until(&end);
    let mut progress = Progress::new("lines", output);
    let (mut written, mut done, mut missed, mut next) = (0, 0, 0, from);
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
