//! The command line, from the help texts.

use crate::common::{Folder, subcommands};

const INTRODUCTION: &str = "\
# Command line

This page is generated from `mcpproxy --help`.

Data goes to standard output, and messages go to standard error. `-o json` and `-o yaml` print data for programs.
`--home DIR` and `-o FORMAT` work with every command.
";

pub(crate) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    describe(&Folder::new(), &[], &mut page);
    page
}

/// Adds a section for a command and for each of its subcommands.
fn describe(folder: &Folder, command: &[&str], page: &mut String) {
    let printed = folder.run(&[command, &["--help"]].concat());
    let help = printed.strip_prefix("exit 0\n--- stdout\n").unwrap().strip_suffix("--- stderr\n").unwrap();
    let (about, rest) = help.split_once("\n\n").unwrap();
    let name = ["mcpproxy"].iter().chain(command).copied().collect::<Vec<_>>().join(" ");
    let level = if command.len() > 1 { "###" } else { "##" };
    page.push_str(&format!(
        "\n{level} `{name}`\n\n{}.\n\n```text\n{}\n```\n",
        about.trim_end_matches('.'),
        rest.trim_end()
    ));
    for subcommand in subcommands(help) {
        describe(folder, &[command, &[subcommand]].concat(), page);
    }
}
