//! `contract docs`: writes contract cards as Markdown.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use http::Method;
use mcpproxy_core::review::docs::GENERATED;
use serde::Deserialize;

use crate::client::Rest;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, counted, lines, print};

#[derive(Deserialize)]
struct Answer {
    pages: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    file: String,
    text: String,
}

pub(super) async fn run(home: &Home, format: Format, to: Option<&Path>) -> anyhow::Result<()> {
    let answer = Rest::connect(home)?.ask(Method::GET, "/api/v1/contracts/docs").await?;
    let Some(folder) = to else {
        let Answer { pages } = Answer::deserialize(&answer)?;
        let text = || pages.iter().map(|page| lines(&page.text)).collect::<Vec<_>>().join("\n");
        return format.print(&answer, text);
    };
    let Answer { pages } = Answer::deserialize(&answer)?;
    fs::create_dir_all(folder).with_context(|| format!("could not create `{}`", folder.display()))?;
    // No page is written if one of them would replace a file of somebody else.
    for page in &pages {
        check_replaceable(&path(folder, page)?)?;
    }
    for page in &pages {
        let path = path(folder, page)?;
        fs::write(&path, lines(&page.text)).with_context(|| format!("could not write `{}`", path.display()))?;
    }
    print(&format!("Wrote {} to {}\n", counted(pages.len(), "file"), folder.display()))
}

/// Returns the path of a page. The names of servers have no slashes and no dots.
fn path(folder: &Path, page: &Page) -> anyhow::Result<std::path::PathBuf> {
    let is_plain = !page.file.contains(['/', '\\']) && !page.file.starts_with('.');
    anyhow::ensure!(is_plain, "unexpected file name in the answer of the gateway");
    Ok(folder.join(&page.file))
}

fn check_replaceable(path: &Path) -> anyhow::Result<()> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("could not read `{}`", path.display())),
    };
    if text.starts_with(GENERATED) {
        return Ok(());
    }
    let message = format!("`{}` was not written by this command", path.display());
    Err(Failure::new(Exit::Failed, message).hint("choose another folder with --to").into())
}
