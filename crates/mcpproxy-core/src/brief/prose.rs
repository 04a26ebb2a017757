//! Shortens prose at the ends of sentences and words.

/// Marks omitted text.
const REST: char = '…';
const BULLETS: [char; 4] = ['-', '*', '•', '+'];
/// Headings of sections about arguments, which the schema should describe.
const ARGUMENTS: [&str; 14] = [
    "args",
    "arguments",
    "parameters",
    "params",
    "input",
    "inputs",
    "input parameters",
    "required arguments",
    "optional arguments",
    "required parameters",
    "optional parameters",
    "required options",
    "optional options",
    "keyword args",
];
/// Headings of sections that matter only to a reader of one tool's documentation.
const ASIDE: [&str; 14] = [
    "returns",
    "return",
    "return value",
    "output",
    "outputs",
    "raises",
    "yields",
    "error responses",
    "example",
    "examples",
    "example usage",
    "usage example",
    "usage examples",
    "example call",
];

/// A description, split into sections and without superfluous white space.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) about: String,
    pub(super) arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    About,
    Arguments,
    Aside,
}

/// Splits a description at headings such as `Args:`.
pub(super) fn sections(text: &str) -> Sections {
    let mut sections = Sections::default();
    let (mut now, mut heading_indent, mut after_gap) = (Section::About, 0, false);
    for line in text.lines() {
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let words = words_of(line);
        if words.is_empty() {
            after_gap = true;
            continue;
        }
        let is_inside = now != Section::About && indent > heading_indent;
        let heading = heading(&words).filter(|_| !is_inside);
        if let Some(section) = heading {
            (now, heading_indent) = (section, indent);
        } else if now != Section::About && after_gap && !is_inside && !words.starts_with(BULLETS) {
            now = Section::About;
        }
        after_gap = false;
        match now {
            Section::About => push_line(&mut sections.about, &words),
            Section::Arguments => push_line(&mut sections.arguments, &words),
            Section::Aside => {}
        }
    }
    if sections.about.is_empty() {
        // A description that consists of sections only is kept whole.
        sections = Sections { about: tidy(text), arguments: String::new() };
    }
    sections
}

fn heading(line: &str) -> Option<Section> {
    if !line.ends_with([':', '*']) && !line.starts_with('#') {
        return None;
    }
    let words = line.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    match words.as_str() {
        words if ARGUMENTS.contains(&words) => Some(Section::Arguments),
        words if ASIDE.contains(&words) => Some(Section::Aside),
        _ => None,
    }
}

/// Keeps the whole sentences that fit. A first sentence that is too long is cut between words.
pub(super) fn sentences(text: &str, max_bytes: usize) -> String {
    let text = tidy(text);
    if text.len() <= max_bytes {
        return text;
    }
    let room = max_bytes.saturating_sub(REST.len_utf8() + 1);
    let whole = ends(&text).take_while(|end| *end <= room).last().unwrap_or_default();
    let end = if whole > room / 2 { whole } else { last_word_end(&text, room).max(whole) };
    let kept = text.get(..end).unwrap_or_default().trim_end();
    let space = if kept.ends_with(['.', '!', '?']) { " " } else { "" };
    format!("{kept}{space}{REST}")
}

/// Returns the positions where sentences and lines end.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().filter_map(|(at, c)| {
        let end = at + c.len_utf8();
        let rest = text.get(end..).unwrap_or_default();
        match c {
            '\n' => Some(at),
            '。' | '！' | '？' => Some(end),
            // A full stop before lower case ends an abbreviation, not a sentence.
            '.' | '!' | '?' if rest.starts_with('\n') || rest.is_empty() => Some(end),
            '.' | '!' | '?' => rest.strip_prefix(' ')?.chars().next().is_none_or(|c| !c.is_lowercase()).then_some(end),
            _ => None,
        }
    })
}

fn last_word_end(text: &str, room: usize) -> usize {
    let within = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
    // Some scripts have no spaces, and some texts have extremely long words.
    within.rfind(char::is_whitespace).filter(|end| *end > room / 2).unwrap_or(within.len())
}

fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    text.lines().map(words_of).filter(|words| !words.is_empty()).for_each(|words| push_line(&mut tidied, &words));
    tidied
}

fn words_of(line: &str) -> String {
    let mut words = String::with_capacity(line.len());
    for word in line.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_sentences_are_kept() {
        let check = |text: &str, max_bytes: usize, expected: &str| {
            assert_eq!(sentences(text, max_bytes), expected, "{text}");
            assert!(expected.len() <= max_bytes);
        };
        check("", 10, "");
        check("  Sends\n\n   mail.  ", 40, "Sends\nmail.");
        check("Sends mail. Needs an account.", 40, "Sends mail. Needs an account.");
        check("Sends mail. Needs an account.", 20, "Sends mail. …");
        check("Takes a time, e.g. noon, and waits. Then it rings.", 42, "Takes a time, e.g. noon, and waits. …");
        check("Yes. This sentence is far too long to be kept whole.", 30, "Yes. This sentence is far…");
        check("- first\n- second\n- third", 21, "- first\n- second…");
        check("查询天气。返回温度和湿度。", 20, "查询天气。…");
        check("查询天气返回温度", 12, "查询…");
        check("ééééééééé", 12, "éééé…");
    }

    #[test]
    fn sections_are_told_apart() {
        let check = |text: &str, about: &str, arguments: &str| {
            assert_eq!(sections(text), Sections { about: about.to_owned(), arguments: arguments.to_owned() }, "{text}");
        };
        check(
            "Adds.\n\n    Args:\n        a: One.\n\n        b: Two.\n\n    Needs a login.",
            "Adds.\nNeeds a login.",
            "Args:\na: One.\nb: Two.",
        );
        check(
            "Adds.\n## Parameters\n- a: One.\n\n- b: Two.\n\nMore.",
            "Adds.\nMore.",
            "## Parameters\n- a: One.\n- b: Two.",
        );
        check("Adds.\n**Args:**\na: One.\n\nReturns:\n  A sum:\n  Args:\n", "Adds.", "**Args:**\na: One.");
        check("Adds.\nReturns: a sum\nInput is read.", "Adds.\nReturns: a sum\nInput is read.", "");
        check("Adds.\n📦 RETURNS:\n- a sum\n\nUse it when:\n- you count", "Adds.\nUse it when:\n- you count", "");
        check("Args:\n  a: One.", "Args:\na: One.", "");
        check("", "", "");
    }

    proptest! {
        #[test]
        fn never_longer_and_never_between_bytes(text in "[a-c.。!\n é🙂]{0,60}", max_bytes in 4usize..80) {
            let short = sentences(&text, max_bytes);
            prop_assert!(short.len() <= max_bytes);
            prop_assert_eq!(sentences(&short, max_bytes), short.clone(), "shortened once is enough");
            let kept = short.trim_end_matches([REST, ' ']);
            prop_assert!(tidy(&text).starts_with(kept));
        }
    }
}
