//! Asks a user at the terminal about each definition.

use super::entry::{Choice, Entry, Review};
use super::show::{self, Paper};
use crate::commands::approvals::sign_in::UserAtTerminal;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{counted, counted_as};

/// Longer output gets a reminder to scroll up.
const SCREEN_LINES: usize = 60;

/// An answer of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    One(Choice),
    /// Everything that is not decided yet.
    Rest(Choice),
    /// Read them one by one, or leave this one for later.
    Next,
    Quit,
}

impl Answer {
    /// Reads a word, or its first letter. Accepting everything takes two whole words, so that no slip does it.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["a" | "accept"] => Some(Self::One(Choice::Accept)),
            ["r" | "reject"] => Some(Self::One(Choice::Reject)),
            ["accept", "all"] => Some(Self::Rest(Choice::Accept)),
            ["reject", "all"] => Some(Self::Rest(Choice::Reject)),
            [] | ["s" | "skip" | "e" | "each" | "n" | "next"] => Some(Self::Next),
            ["q" | "quit"] => Some(Self::Quit),
            _ => None,
        }
    }
}

/// Returns the choice for each definition, in their order. `None`: the user skipped it.
pub(super) async fn choices(
    user: &mut UserAtTerminal,
    review: &Review,
    paper: Paper,
) -> anyhow::Result<Vec<Option<Choice>>> {
    let entries = &review.entries;
    let mut answers = Answers::of(entries);
    user.tell(&show::summary(review, paper))?;
    if entries.len() > 1 {
        user.tell(OVERVIEW)?;
        match ask(user, "each, accept all, reject all or quit? ", |answer| !matches!(answer, Answer::One(_))).await? {
            Answer::Quit => return Ok(answers.choices),
            Answer::Rest(Choice::Reject) if review.waiting() == 0 => return Ok(answers.choices),
            Answer::Rest(choice) => tell_rest(user, &mut answers, entries, choice)?,
            Answer::One(_) | Answer::Next => {}
        }
    }
    for (index, entry) in entries.iter().enumerate() {
        if answers.choices.get(index).is_some_and(Option::is_some) {
            continue;
        }
        let shown = show::entry(entry, paper);
        user.tell(&format!("\n{shown}"))?;
        if shown.lines().count() > SCREEN_LINES {
            user.tell(&format!("\nThis definition has {}. Scroll up.", counted(shown.lines().count(), "line")))?;
        }
        let place = if entries.len() > 1 { format!("{} of {}: ", index + 1, entries.len()) } else { String::new() };
        let words = if entry.is_rejected() { "accept, skip or quit? " } else { "accept, reject, skip or quit? " };
        match ask(user, &format!("{place}{words}"), |_| true).await? {
            // It is rejected already.
            Answer::One(Choice::Reject) if entry.is_rejected() => {}
            Answer::One(choice) => answers.set(index, choice),
            Answer::Rest(choice) => {
                if !(choice == Choice::Reject && entry.is_rejected()) {
                    answers.set(index, choice);
                }
                tell_rest(user, &mut answers, entries, choice)?;
            }
            Answer::Next => {}
            Answer::Quit => break,
        }
    }
    Ok(answers.choices)
}

const OVERVIEW: &str = "\
each        Read them one by one
accept all  Accept all from this version, except
            findings of severity high
reject all  Reject all from this version";

/// Asks until the answer makes sense. Ctrl-C and the end of the input decide nothing.
async fn ask(user: &mut UserAtTerminal, question: &str, fits: fn(Answer) -> bool) -> anyhow::Result<Answer> {
    loop {
        let Some(text) = user.ask_freely(question).await? else {
            return Err(Failure::new(Exit::Refused, "You made no decision, so nothing changed.").into());
        };
        match Answer::parse(&text).filter(|answer| fits(*answer)) {
            Some(answer) => return Ok(answer),
            None => {
                user.tell("Type one of these words.\n`accept all` and `reject all` decide on all that are left.")?
            }
        }
    }
}

fn tell_rest(user: &UserAtTerminal, answers: &mut Answers, entries: &[Entry], choice: Choice) -> anyhow::Result<()> {
    let severe = answers.set_rest(entries, choice);
    if severe > 0 {
        let has = counted_as(severe, "definition has", "definitions have");
        user.tell(&format!("{has} a finding of severity high.\nDecide one by one:"))?;
    }
    Ok(())
}

struct Answers {
    choices: Vec<Option<Choice>>,
}

impl Answers {
    fn of(entries: &[Entry]) -> Self {
        Self { choices: vec![None; entries.len()] }
    }

    fn set(&mut self, index: usize, choice: Choice) {
        if let Some(slot) = self.choices.get_mut(index) {
            *slot = Some(choice);
        }
    }

    /// Decides on everything that is not decided yet. Severe findings are never accepted unread: returns how many are
    /// left.
    fn set_rest(&mut self, entries: &[Entry], choice: Choice) -> usize {
        let mut severe = 0;
        for (slot, entry) in self.choices.iter_mut().zip(entries).filter(|(slot, _)| slot.is_none()) {
            match choice {
                Choice::Accept if entry.is_severe() => severe += 1,
                Choice::Reject if entry.is_rejected() => {}
                Choice::Accept | Choice::Reject => *slot = Some(choice),
            }
        }
        severe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |text: &str, expected: Option<Answer>| assert_eq!(Answer::parse(text), expected, "{text:?}");
        check("a", Some(Answer::One(Choice::Accept)));
        check(" Accept ", Some(Answer::One(Choice::Accept)));
        check("r", Some(Answer::One(Choice::Reject)));
        check("accept  all", Some(Answer::Rest(Choice::Accept)));
        check("reject all", Some(Answer::Rest(Choice::Reject)));
        check("", Some(Answer::Next));
        check("skip", Some(Answer::Next));
        check("q", Some(Answer::Quit));
        check("a all", None);
        check("aa", None);
        check("yes", None);
    }
}
