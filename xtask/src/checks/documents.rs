//! What the documents name exists: files, links, commands with their options, and every setting.

use mcpproxy_core::settings::{self, Outside};
use serde_json::Value;

use crate::tree::{File, Problem, Tree};

const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// The help of every command, which the command's own tests keep true.
const HELP: &str = "crates/mcpproxy/tests/snapshots/cli__help";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in DOCUMENTS {
        let Some(file) = tree.find(path) else {
            problems.push(Problem::missing(path, "this document is gone"));
            continue;
        };
        problems.extend(links(tree, file));
        problems.extend(sources(tree, file));
        problems.extend(commands(tree, file));
        problems.extend(examples(file));
    }
    problems.extend(tree.find("README.md").into_iter().flat_map(settings_reference));
    problems
}

/// Links within the repository.
fn links(tree: &Tree, file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let markdown = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let html = ["src=\"", "srcset=\"", "href=\""].into_iter().flat_map(|mark| line.split(mark).skip(1));
        for link in markdown.chain(html.filter_map(|rest| rest.split_once('"')).map(|(link, _)| link)) {
            let path = link.split('#').next().unwrap_or_default().trim_end_matches('/');
            let is_here = !link.contains("://") && !link.starts_with("mailto:") && !path.is_empty();
            let folder = format!("{path}/");
            if is_here && !tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder)) {
                problems.push(Problem::new(file, number, format!("the link to `{link}` leads nowhere")));
            }
        }
    }
    problems
}

/// Source files, which may be named by the end of their path.
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

/// Commands in code blocks, against the help that names them and their options.
fn commands(tree: &Tree, file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in blocks(&file.text, &["sh", "console"]) {
        let line = line.trim_start().trim_start_matches("$ ").replace("$(mcpproxy ", "mcpproxy ");
        let Some((_, rest)) = line.split_once("mcpproxy ").filter(|(before, _)| !before.contains(['#', '"', '\'']))
        else {
            continue;
        };
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
        // `mcpproxy` alone is a command; a group such as `mcpproxy servers` is none without a word after it.
        let is_unfinished = help.is_some_and(|help| help.text.contains("\nCommands:\n"));
        if is_unfinished && !(path.is_empty() && rest.starts_with('-')) {
            problems.push(Problem::new(file, number, format!("there is no command `mcpproxy {rest}`")));
        }
    }
    problems
}

/// Examples of settings are settings.
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

/// Every reference in an example leads somewhere.
struct Anything;

impl Outside for Anything {
    fn env(&self, _name: &str) -> Option<String> {
        Some("value".to_owned())
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Ok("value".to_owned())
    }

    /// What it stands for in an example is fine.
    fn stand_in(&self) -> Option<&str> {
        Some("value")
    }
}

/// The rows of the README's tables of settings are the keys of the schema, all of them and no others.
fn settings_reference(readme: &File) -> Vec<Problem> {
    let schema = settings::schema();
    let mut known = Vec::new();
    keys(&schema, "", &mut known);
    let server = schema.pointer("/$defs/server").cloned().unwrap_or_default();
    keys(&server, "mcpServers.NAME.", &mut known);
    known.retain(|key| key != "$schema");
    let (before, behind) = readme.text.split_once("\n## Settings").unwrap_or_default();
    let section = behind.split("\n## ").next().unwrap_or_default();
    let heading = 2 + before.matches('\n').count();
    let rows: Vec<(usize, &str)> = (heading..)
        .zip(section.lines())
        .filter_map(|(number, line)| Some((number, line.strip_prefix("| `")?.split('`').next()?)))
        .collect();
    let missing = known.iter().filter(|key| !rows.iter().any(|(_, row)| row == key));
    let missing = missing.map(|key| Problem::new(readme, heading, format!("the setting `{key}` is not described")));
    let invented = rows.iter().filter(|(_, row)| !known.iter().any(|key| key == row));
    let invented = invented.map(|(line, row)| Problem::new(readme, *line, format!("there is no setting `{row}`")));
    missing.chain(invented).collect()
}

/// The keys of an object's schema: its own, and in place of an object's the keys of that.
fn keys(schema: &Value, prefix: &str, found: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        if property.get("properties").is_some() {
            keys(property, &format!("{prefix}{name}."), found);
        } else {
            found.push(format!("{prefix}{name}"));
        }
    }
}

/// The lines of code blocks in these languages, with their numbers. A line that ends in `\` goes on in the next.
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
    fn wrong_commands_are_found() {
        let text = "```sh\nmcpproxy servers add time -- uvx --quiet x\nmcpproxy --home /x servers add a --url y\n\
            mcpproxy servers add a \\\n    --wrong y\nTOKEN=$(mcpproxy call tool-read a:b --args '{}')\n\
            mcpproxy tolls list\nmcpproxy servers ad a\nmcpproxy --home x --version\nexport X=\"mcpproxy nothing\"\n```\nmcpproxy outside\n";
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

    #[test]
    fn settings_that_are_missing_or_invented_are_found() {
        let found = found("# A\n\n## Settings\n\n| `listen` | x |\n| `nothing` | x |\n\n## B\n", |_, file| {
            settings_reference(file)
        });
        assert!(found.contains(&"README.md:6: there is no setting `nothing`".to_owned()), "{found:?}");
        assert!(found.iter().any(|problem| problem.ends_with("the setting `activity.durability` is not described")));
        assert!(
            found.iter().any(|problem| problem.ends_with("the setting `mcpServers.NAME.command` is not described"))
        );
        assert!(!found.iter().any(|problem| problem.contains("`listen`")));
    }
}
