//! Checks that the documents name only what exists: files, links, commands with their options, and settings.
//!
//! The documents are five files at the root and every page of the book in `docs/`. The reference pages of the book are
//! generated, and a test of the command compares them with the code.

use mcpproxy_core::settings::{self, Outside};

use crate::tree::{File, Problem, Tree};

const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
/// The folder of the book.
const BOOK: &str = "docs/";

/// The help of every command, which the command's own tests keep true.
const HELP: &str = "crates/mcpproxy/tests/snapshots/cli__help";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let missing = DOCUMENTS.iter().filter(|path| tree.find(path).is_none());
    problems.extend(missing.map(|path| Problem::missing(path, "this document does not exist")));
    for file in tree.files.iter().filter(|file| is_document(&file.path)) {
        problems.extend(links(tree, file));
        problems.extend(sources(tree, file));
        problems.extend(commands(tree, file));
        problems.extend(examples(file));
    }
    problems
}

fn is_document(path: &str) -> bool {
    DOCUMENTS.contains(&path) || (path.starts_with(BOOK) && path.ends_with(".md"))
}

/// Checks links within the repository. A link is relative to the folder of its document.
fn links(tree: &Tree, file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let markdown = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let html = ["src=\"", "srcset=\"", "href=\""].into_iter().flat_map(|mark| line.split(mark).skip(1));
        for link in markdown.chain(html.filter_map(|rest| rest.split_once('"')).map(|(link, _)| link)) {
            let target = link.split('#').next().unwrap_or_default().trim_end_matches('/');
            let is_here = !link.contains("://") && !link.starts_with("mailto:") && !target.is_empty();
            let path = resolved(&file.path, target);
            let folder = format!("{path}/");
            if is_here && !tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder)) {
                problems.push(Problem::new(file, number, format!("the link to `{link}` leads nowhere")));
            }
        }
    }
    problems
}

/// Resolves a link against the folder of the document that has it.
fn resolved(document: &str, link: &str) -> String {
    let mut steps: Vec<&str> = document.split('/').collect();
    steps.pop();
    for step in link.split('/') {
        match step {
            "." => {}
            ".." => {
                steps.pop();
            }
            name => steps.push(name),
        }
    }
    steps.join("/")
}

/// Checks the names of source files. A document may give the end of a path.
fn sources(tree: &Tree, file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for name in line.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")) {
            let end = format!("/{name}");
            if !tree.files.iter().any(|file| file.path == name || file.path.ends_with(&end)) {
                problems.push(Problem::new(file, number, format!("there is no file `{name}`")));
            }
        }
    }
    problems
}

/// Checks commands in code blocks against the help, which names them and their options.
fn commands(tree: &Tree, file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in blocks(&file.text, &["sh", "console"]) {
        let line = line.trim_start().trim_start_matches("$ ").replace("$(mcpproxy ", "mcpproxy ");
        let Some((before, rest)) =
            line.split_once("mcpproxy ").filter(|(before, _)| !before.contains(['#', '"', '\'']))
        else {
            continue;
        };
        // An output that names a command, such as "Use `mcpproxy call tool-write`.", ends it with a backtick.
        let rest = if before.ends_with('`') { rest.split('`').next().unwrap_or(rest) } else { rest };
        let words: Vec<&str> =
            rest.split_whitespace().take_while(|word| !["--", "|", ">", "&&", "#"].contains(word)).collect();
        let mut words = words.into_iter();
        let mut path = String::new();
        let mut help = tree.find(&format!("{HELP}.snap"));
        let mut is_deciding = true;
        while let Some(word) = words.next() {
            if let Some(option) = Some(word).filter(|word| word.starts_with('-')) {
                let name = option.split('=').next().unwrap_or(option).trim_end_matches(')');
                if help.is_none_or(|help| !help.text.contains(name)) {
                    problems.push(Problem::new(
                        file,
                        number,
                        format!("`mcpproxy{}` has no `{name}`", path.replace('_', " ")),
                    ));
                }
                if ["--home", "-o"].contains(&name) {
                    words.next();
                }
            } else if is_deciding {
                let longer = format!("{path}_{}", word.replace('-', "_"));
                match tree.find(&format!("{HELP}{longer}.snap")) {
                    Some(found) => (path, help) = (longer, Some(found)),
                    None => is_deciding = false,
                }
            }
        }
        // `mcpproxy` alone is a command, and so is `mcpproxy activity key`. A group such as `mcpproxy servers` needs another
        // word.
        let is_optional = help.is_some_and(|help| help.text.contains(" [COMMAND]\n")) && !path.is_empty();
        let is_unfinished = !is_optional && help.is_some_and(|help| help.text.contains("\nCommands:\n"));
        if is_unfinished && !(path.is_empty() && rest.starts_with('-')) {
            problems.push(Problem::new(file, number, format!("there is no command `mcpproxy {rest}`")));
        }
    }
    problems
}

/// Checks that every `jsonc` block is a valid settings file.
fn examples(file: &File) -> Vec<Problem> {
    let lines = blocks(&file.text, &["jsonc"]);
    let Some((number, _)) = lines.first() else { return Vec::new() };
    let mut texts: Vec<(usize, String)> = vec![(*number, String::new())];
    let mut expected = *number;
    for (number, line) in &lines {
        if *number != expected {
            texts.push((*number, String::new()));
        }
        expected = number + 1;
        if let Some((_, text)) = texts.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    let check = |(number, text): (usize, String)| {
        let errors = settings::parse(&text, &Anything).err().unwrap_or_default();
        errors.into_iter().map(move |error| Problem::new(file, number + error.line - 1, error.message))
    };
    texts.into_iter().flat_map(check).collect()
}

/// Resolves every reference in an example.
struct Anything;

impl Outside for Anything {
    fn env(&self, _name: &str) -> Option<String> {
        Some("value".to_owned())
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Ok("value".to_owned())
    }

    /// Accepts any value that a reference stands for.
    fn stand_in(&self) -> Option<&str> {
        Some("value")
    }
}

/// Returns the lines of code blocks in these languages, with their numbers. A line that ends in `\` continues in the
/// next.
fn blocks(text: &str, languages: &[&str]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut language = None;
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(name) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() { None } else { Some(name.trim()) };
            continue;
        }
        if !language.is_some_and(|language| languages.contains(&language)) {
            continue;
        }
        let kept = line.strip_suffix('\\').unwrap_or(line);
        match found.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => whole.push_str(kept),
            None => found.push((number, kept.to_owned())),
        }
        goes_on = line.ends_with('\\');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(readme: &str, check: fn(&Tree, &File) -> Vec<Problem>) -> Vec<String> {
        let help = |name: &str| format!("{HELP}{name}.snap");
        let tree = Tree::of(&[
            ("README.md", readme),
            ("docs/picture.svg", "<svg/>"),
            ("crates/a/src/lib.rs", ""),
            (&help(""), "\nCommands:\n --home -o --version"),
            (&help("_servers"), "\nCommands:\n --home -o"),
            (&help("_servers_add"), "--home -o --env --url"),
            (&help("_call"), "\nCommands:\n --home"),
            (&help("_key"), "Usage: mcpproxy key [COMMAND]\n\nCommands:\n --home"),
            (&help("_call_tool_read"), "--home --args"),
        ]);
        check(&tree, tree.find("README.md").unwrap()).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn broken_links_and_names_are_found() {
        let text = "[a](docs/picture.svg) [b](https://x.example) [c](#here)\n<img src=\"docs/gone.svg\"> [d](docs/)\n";
        assert_eq!(found(text, links), ["README.md:2: the link to `docs/gone.svg` leads nowhere"]);
        assert_eq!(found("`src/lib.rs` and `gone.rs`\n", sources), ["README.md:1: there is no file `gone.rs`"]);
    }

    #[test]
    fn links_of_a_page_start_in_its_folder() {
        let page = "[a](picture.svg) [b](../README.md) [c](reference/gone.md)\n";
        let tree = Tree::of(&[("README.md", ""), ("docs/picture.svg", ""), ("docs/page.md", page)]);
        let found: Vec<_> =
            check(&tree).iter().map(Problem::to_string).filter(|one| one.starts_with("docs/")).collect();
        assert_eq!(found, ["docs/page.md:1: the link to `reference/gone.md` leads nowhere"]);
    }

    #[test]
    fn wrong_commands_are_found() {
        let text = "```sh\nmcpproxy servers add time -- uvx --quiet x\nmcpproxy --home /x servers add a --url y\n\
            mcpproxy servers add a \\\n    --wrong y\nTOKEN=$(mcpproxy call tool-read a:b --args '{}')\n\
            mcpproxy tolls list\nmcpproxy servers ad a\nmcpproxy --home x --version\nmcpproxy key > a\nexport X=\"mcpproxy nothing\"\n```\nmcpproxy outside\n";
        assert_eq!(
            found(text, commands),
            [
                "README.md:4: `mcpproxy servers add` has no `--wrong`",
                "README.md:7: there is no command `mcpproxy tolls list`",
                "README.md:8: there is no command `mcpproxy servers ad a`",
            ]
        );
    }

    #[test]
    fn wrong_settings_are_found() {
        let text =
            "```jsonc\n{\n  // fine\n  \"listen\": \"127.0.0.1:1\"\n}\n```\n\n```jsonc\n{\n  \"lisen\": 1\n}\n```\n";
        let found = found(text, |_, file| examples(file));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("README.md:10: "), "{found:?}");
    }
}
