//! `completions`: prints shell completion scripts.
//!
//! A script asks this program for candidates whenever the user presses Tab ([`answer`]), so it knows the names of
//! servers, tools, agents and approval requests at that moment ([`super::names`]).

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::commands::Cli;
use crate::exit::Exit;
use crate::terminal::output::print;

const PROGRAM: &str = "mcpproxy";
/// The variable that makes this program answer a shell instead of running a command.
const VARIABLE: &str = "COMPLETE";

/// Print a completion script for your shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy completions bash \\
      > ~/.local/share/bash-completion/completions/mcpproxy
  mcpproxy completions zsh > ~/.zfunc/_mcpproxy
  mcpproxy completions fish > ~/.config/fish/completions/mcpproxy.fish
  mcpproxy completions powershell >> $PROFILE

The script asks mcpproxy for candidates. It completes the names of servers, tools and agents, and the ids of approval requests.")]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    fn adapter(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &BashWithColons,
            Self::Elvish => &Elvish,
            Self::Fish => &Fish,
            Self::Powershell => &Powershell,
            Self::Zsh => &Zsh,
        }
    }
}

pub(crate) fn run(completions: &Completions) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    completions.shell.adapter().write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

/// Answers a shell that asks for candidates. Returns whether it did.
pub(crate) fn answer() -> bool {
    let shells = Shells(&[&BashWithColons, &Elvish, &Fish, &Powershell, &Zsh]);
    // Another value belongs to another program.
    let is_asked = std::env::var(VARIABLE).is_ok_and(|shell| shells.completer(&shell).is_some());
    if !is_asked {
        return false;
    }
    let folder = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .shells(shells)
        .try_complete(std::env::args_os(), folder.as_deref());
    // An error would appear in the command line that the user types.
    answered.unwrap_or(true)
}

/// Bash, which splits words at colons. Names of tools contain one, so the script joins the words again.
struct BashWithColons;

const BASH: &str = r#"_mcpproxy() {
    local words=() word last=-1 glue= i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == : || $glue ]] && ((last > 0)); then
            words[last]+=$word
            [[ $word == : ]] && glue=1 || glue=
        else
            words+=("$word")
            ((++last))
        fi
    done
    local current=${words[last]} IFS=$'\013'
    COMPREPLY=($(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$last" COMPLETE=bash COMPLETER -- "${words[@]}" 2> /dev/null))
    # Bash replaces only the part after the last colon.
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local prefix=${current%"${current##*:}"}
        for i in "${!COMPREPLY[@]}"; do
            COMPREPLY[i]=${COMPREPLY[i]#"$prefix"}
        done
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -F _mcpproxy BIN
"#;

impl EnvCompleter for BashWithColons {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        _variable: &str,
        _name: &str,
        bin: &str,
        completer: &str,
        script: &mut dyn std::io::Write,
    ) -> Result<(), std::io::Error> {
        let completer = crate::terminal::shell::plain_word(completer);
        script.write_all(BASH.replace("BIN", bin).replace("COMPLETER", &completer).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        args: Vec<std::ffi::OsString>,
        folder: Option<&std::path::Path>,
        out: &mut dyn std::io::Write,
    ) -> Result<(), std::io::Error> {
        Bash.write_complete(command, args, folder, out)
    }
}
