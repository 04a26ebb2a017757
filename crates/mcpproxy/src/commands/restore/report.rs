//! Says what a restore did, or would do.

use std::path::PathBuf;

use mcpproxy_store::Restore;
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::terminal::output::{Format, line, sentence, tell};

pub(super) fn done(format: Format, archive: &Archive, restore: &Restore, kept: &[PathBuf]) -> anyhow::Result<()> {
    let mut answer = facts(archive, restore);
    let kept: Vec<String> = kept.iter().map(|path| path.display().to_string()).collect();
    if let Value::Object(members) = &mut answer {
        members.insert("restored".to_owned(), json!(true));
        members.insert("kept".to_owned(), json!(kept));
    }
    format.print(&answer, || format!("{}\n", said(restore)))?;
    for path in &kept {
        tell(&format!("Kept what was there before: {}", line(path)));
    }
    tell("Check the log with `mcpproxy activity verify`, then start the gateway: mcpproxy serve");
    Ok(())
}

pub(super) fn would(format: Format, archive: &Archive, restore: &Restore) -> anyhow::Result<()> {
    let mut answer = facts(archive, restore);
    if let Value::Object(members) = &mut answer {
        members.insert("restored".to_owned(), json!(false));
    }
    format.print(&answer, || {
        format!("The backup is intact. A restore would be recorded as: {}\n", line(&restore.to_string()))
    })
}

fn facts(archive: &Archive, restore: &Restore) -> Value {
    json!({
        "backup": archive.manifest.created,
        "chain": archive.manifest.chain,
        "position": restore.backup_seq,
        "rows": archive.manifest.rows(),
        "files": archive.manifest.files(),
        "records_gone": restore.records_gone,
        "lost_to": restore.lost_to,
    })
}

/// The message of the record, as a sentence.
fn said(restore: &Restore) -> String {
    let text = restore.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    sentence(&line(&first.into_iter().chain(letters).collect::<String>()))
}
