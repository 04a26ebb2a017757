//! `servers review`: shows what a server wants to tell agents, and lets a user accept or reject it.
//!
//! Anybody with the admin key can read a review. Only a user at a terminal can decide, with a name and a password, so
//! that an agent with a shell cannot accept what poisons it. The user decides first and signs in last. Each decision
//! names the version that was on the screen: if the server has changed it meanwhile, the decision has no effect.
//!
//! - `entry` is a review as the gateway sends it.
//! - `words` compares two texts of a definition, and `visible` lets nothing hide in them.
//! - `show` formats all of it, `ask` asks for decisions, and `decide` signs in and sends them.

mod ask;
mod decide;
mod entry;
mod flags;
mod show;
mod visible;
mod words;

use anyhow::Context as _;
use clap::Args;
use http::Method;
use mcpproxy_core::ServerName;
use serde_json::Value;

use self::entry::{Choice, Entry, Review};
use self::show::{KINDS, Paper};
use crate::client::Rest;
use crate::commands::approvals::sign_in::UserAtTerminal;
use crate::commands::names;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, counted_as, print, tell};
use crate::terminal::prompt::Terminal;
use crate::terminal::size::prose_columns;
use crate::terminal::style::Colours;
use crate::terminal::wrap::hanging;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy servers review fx                  Read and decide, one by one
  mcpproxy servers review fx --accept-all     Accept a whole upgrade
  mcpproxy servers review fx --accept get_rate tool:list_rates
  mcpproxy servers review fx --rejected       Accept what was rejected before
  mcpproxy servers review fx -o json          Print what waits

Definitions are tools, prompts, resource templates and the instructions of a server. New and changed ones wait here, and agents do not see them. [-old-] and {+new+} words are marked, and invisible characters are shown as ⟨U+202E⟩. You decide at a terminal and sign in last. Agents and the admin key cannot decide. A definition with a finding of severity high is accepted only one by one, or by its name. A rejected definition stays hidden until the server changes it, or until you accept it with --rejected or by its name.")]
pub(crate) struct ReviewArgs {
    /// Name of the server
    #[arg(value_parser = names::parse_server, add = names::servers())]
    name: ServerName,
    /// Accept these definitions, by name or as `kind:name`
    #[arg(long, value_name = "NAME", num_args = 1.., add = names::waiting())]
    accept: Vec<String>,
    /// Reject these definitions, by name or as `kind:name`
    #[arg(long, value_name = "NAME", num_args = 1.., add = names::waiting())]
    reject: Vec<String>,
    /// Accept all other definitions that wait, except those with a finding of severity high
    #[arg(long, conflicts_with = "reject_all")]
    accept_all: bool,
    /// Reject all other definitions that wait
    #[arg(long)]
    reject_all: bool,
    /// Do not show the definitions again before you sign in. Needs one of the options above
    #[arg(long, short)]
    yes: bool,
    /// Show definitions that a user rejected, to accept them after all
    #[arg(long)]
    rejected: bool,
}

impl ReviewArgs {
    fn has_decision(&self) -> bool {
        self.accept_all || self.reject_all || !self.accept.is_empty() || !self.reject.is_empty()
    }
}

pub(crate) async fn run(home: &Home, format: Format, args: ReviewArgs) -> anyhow::Result<Exit> {
    if args.yes && !args.has_decision() {
        return Err(Failure::new(Exit::Usage, "`--yes` needs a decision.")
            .hint("add --accept NAME, --reject NAME, --accept-all or --reject-all")
            .into());
    }
    // A name may be the one of a rejected definition.
    let with_rejected = if args.rejected || !args.accept.is_empty() { "?rejected=true" } else { "" };
    let path = format!("/api/v1/servers/{}/review{with_rejected}", args.name);
    let (mut answer, text) = Rest::connect(home)?.ask_for_text(Method::GET, &path).await?;
    let mut review: Review = serde_json::from_str(&text).context("the gateway sent no review")?;
    if args.rejected {
        review.entries.retain(Entry::is_rejected);
    } else {
        let is_named = |entry: &Entry| args.accept.iter().any(|name| *name == entry.name || *name == entry.full_name());
        review.entries.retain(|entry| !entry.is_rejected() || is_named(entry));
    }
    if let (true, Some(all)) = (args.rejected, answer.get_mut("entries").and_then(Value::as_array_mut)) {
        all.retain(|entry| entry.get("rejected_by").is_some_and(Value::is_string));
    }
    let order = |entry: &Entry| KINDS.iter().position(|kind| *kind == entry.kind);
    review.entries.sort_by(|a, b| (order(a), &a.name).cmp(&(order(b), &b.name)));
    let paper = Paper { columns: prose_columns(), colours: Colours::of(&std::io::stdout()) };
    if review.entries.is_empty() {
        return nothing(home, &answer, format, &args, review.rejected);
    }
    if args.has_decision() {
        let choices = flags::choices(&args, &review.entries)?;
        return by_flags(home, format, &args, &review, choices, paper).await;
    }
    match format {
        Format::Json | Format::Yaml => format.print(&answer, String::new).map(|()| Exit::Done),
        Format::Table if review.entries.iter().any(|entry| entry.reason == "not_locked") => {
            print(&whole(&review, paper))?;
            tell(
                "The gateway runs with a lock file, so nobody can accept these definitions. To accept them, run `mcpproxy \
                 lock` with a gateway without `--locked`, review the difference, and restart.",
            );
            Ok(Exit::Done)
        }
        Format::Table => match Terminal::of_user() {
            Some(terminal) => by_answers(home, terminal, &review, paper).await,
            None => {
                print(&whole(&review, paper))?;
                tell_rejected(home, &args, review.rejected);
                tell(&how_to_decide(home, &args)?);
                Ok(Exit::Done)
            }
        },
    }
}

fn nothing(home: &Home, answer: &Value, format: Format, args: &ReviewArgs, rejected: usize) -> anyhow::Result<Exit> {
    let name = &args.name;
    if args.accept.is_empty() && args.reject.is_empty() {
        let what = if args.rejected { "nothing that it lists is rejected" } else { "nothing waits for review" };
        format.print(answer, || format!("{what} at {name}\n"))?;
        tell_rejected(home, args, rejected);
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::Failed, format!("Nothing waits for review at {name}.")).into())
}

/// Names the command and the page for a decision, for output without a terminal.
fn how_to_decide(home: &Home, args: &ReviewArgs) -> anyhow::Result<String> {
    let name = &args.name;
    let (option, query) = if args.rejected { (" --rejected", "?of=rejected") } else { ("", "") };
    let command = home.command("mcpproxy", &format!("servers review {name}{option}"));
    let page = home
        .running()?
        .map(|running| format!("\nOr open the page:\n  {}/ui/servers/{name}/review{query}", running.url));
    Ok(format!("To decide, run this in a terminal:\n  {command}{}", page.unwrap_or_default()))
}

/// Says that there are rejected definitions, which are not asked about again.
fn tell_rejected(home: &Home, args: &ReviewArgs, count: usize) {
    if count > 0 && !args.rejected {
        let command = home.command("mcpproxy", &format!("servers review {} --rejected", args.name));
        tell(&format!(
            "{}. See them with:\n  {command}",
            counted_as(count, "definition is rejected", "definitions are rejected")
        ));
    }
}

/// Formats a whole review, for a pipe.
fn whole(review: &Review, paper: Paper) -> String {
    let entries: String = review.entries.iter().map(|entry| format!("\n{}", show::entry(entry, paper))).collect();
    show::summary(review, paper) + &entries
}

/// Asks for each decision.
async fn by_answers(home: &Home, terminal: Terminal, review: &Review, paper: Paper) -> anyhow::Result<Exit> {
    decide::check_users(home).await?;
    let mut user = UserAtTerminal::at(terminal)?;
    let choices = ask::choices(&mut user, review, paper).await?;
    if choices.iter().all(Option::is_none) {
        let message = match review.waiting() {
            0 => "You made no decision, so nothing changed.".to_owned(),
            count => {
                let wait = counted_as(count, "definition still waits", "definitions still wait");
                format!("You made no decision. {wait}.")
            }
        };
        return Err(Failure::new(Exit::Refused, message).into());
    }
    user.tell(&format!("\n{}", hanging(&sign_in_words(&choices), paper.columns, 0)))?;
    decide::send(home, &mut user, review, &choices, Format::Table).await
}

/// Makes the decisions of the command line. The user still signs in, at a terminal.
async fn by_flags(
    home: &Home,
    format: Format,
    args: &ReviewArgs,
    review: &Review,
    choices: Vec<Option<Choice>>,
    paper: Paper,
) -> anyhow::Result<Exit> {
    let Some(terminal) = Terminal::of_user() else {
        let message = "a user factor is required; definitions cannot be accepted or rejected non-interactively";
        return Err(Failure::new(Exit::Refused, message).hint("run this command in a terminal").into());
    };
    decide::check_users(home).await?;
    let mut user = UserAtTerminal::at(terminal)?;
    if !args.yes {
        user.tell(&show::summary(review, paper))?;
        for (entry, choice) in review.entries.iter().zip(&choices) {
            if *choice == Some(Choice::Accept) {
                user.tell(&format!("\n{}", show::entry(entry, paper)))?;
            }
        }
        user.tell("")?;
    }
    let left: Vec<String> = review
        .entries
        .iter()
        .zip(&choices)
        .filter(|(entry, choice)| args.accept_all && choice.is_none() && entry.is_severe())
        .map(|(entry, _)| visible::visible(&entry.full_name()))
        .collect();
    if !left.is_empty() {
        let why = "Not accepted, because of a finding of severity high";
        let text = format!("{why}: {}. Accept them by name.", left.join(", "));
        user.tell(&hanging(&text, paper.columns, 0))?;
    }
    if choices.iter().all(Option::is_none) {
        return Err(Failure::new(Exit::Refused, "No definition is left to decide.").into());
    }
    user.tell(&hanging(&sign_in_words(&choices), paper.columns, 0))?;
    decide::send(home, &mut user, review, &choices, format).await
}

/// Says what the user confirms by signing in.
fn sign_in_words(choices: &[Option<Choice>]) -> String {
    let count = |choice: Choice| choices.iter().filter(|one| **one == Some(choice)).count();
    let words = match (count(Choice::Accept), count(Choice::Reject)) {
        (accept, 0) => format!("accept {accept}"),
        (0, reject) => format!("reject {reject}"),
        (accept, reject) => format!("accept {accept} and reject {reject}"),
    };
    format!("Sign in to {words}. Press Ctrl-C to change nothing.")
}
