//! Finds the words of all concepts in a folded text, in one pass.

use std::collections::HashSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::concept::Concept;
use super::fold::Folded;
use super::neighbours::Neighbours;

/// A word of a concept, with its range in the folded text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) concept: Concept,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) language: Language,
}

/// The language of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Other,
    /// A word of another language that is also an English one, such as `messages`.
    Both,
}

/// The lists of words. English is the language of most tools, and the only one whose rules depend on word order.
const LISTS: &[(Language, &str)] = &[
    (Language::English, include_str!("../../../data/scan/en.txt")),
    (Language::Other, include_str!("../../../data/scan/ar.txt")),
    (Language::Other, include_str!("../../../data/scan/cs.txt")),
    (Language::Other, include_str!("../../../data/scan/de.txt")),
    (Language::Other, include_str!("../../../data/scan/es.txt")),
    (Language::Other, include_str!("../../../data/scan/fr.txt")),
    (Language::Other, include_str!("../../../data/scan/hi.txt")),
    (Language::Other, include_str!("../../../data/scan/id.txt")),
    (Language::Other, include_str!("../../../data/scan/it.txt")),
    (Language::Other, include_str!("../../../data/scan/ja.txt")),
    (Language::Other, include_str!("../../../data/scan/ko.txt")),
    (Language::Other, include_str!("../../../data/scan/nl.txt")),
    (Language::Other, include_str!("../../../data/scan/pl.txt")),
    (Language::Other, include_str!("../../../data/scan/pt.txt")),
    (Language::Other, include_str!("../../../data/scan/ru.txt")),
    (Language::Other, include_str!("../../../data/scan/sv.txt")),
    (Language::Other, include_str!("../../../data/scan/tr.txt")),
    (Language::Other, include_str!("../../../data/scan/uk.txt")),
    (Language::Other, include_str!("../../../data/scan/vi.txt")),
    (Language::Other, include_str!("../../../data/scan/zh.txt")),
];

/// Words of other languages that English texts use too. They help a sentence that is clearly in another language.
const BOTH: &str = "messages message conversation conversations discussion chat token tokens file no non prima use usa open \
    upload door cache charge passe copie copia ignore ignora secrets instructions directives dire mee lies lade password \
    prompt manda pon execute informe per primo note rule plan once ne persona cliente client historial ton ruf isi buka \
    rules ladda die in an personne nada secret content leak geheim fil documento carica mensaje kunden inne na historique \
    reporte comment pass comunicare informer alter meld door stuur teile melde hole gib fill";

/// Hits in one text. Only a text that was written against the scanner has more.
const HITS_MAX: usize = 20_000;

struct Entry {
    concept: Concept,
    is_prefix: bool,
    language: Language,
}

struct Automaton {
    search: Option<AhoCorasick>,
    entries: Vec<Entry>,
}

static AUTOMATON: LazyLock<Automaton> = LazyLock::new(|| {
    let mut words = Vec::new();
    let mut entries = Vec::new();
    let both: HashSet<&str> = BOTH.split_ascii_whitespace().collect();
    for (language, list) in LISTS {
        for (concept, word) in read(list) {
            let stem = word.strip_suffix('*');
            let folded = Folded::of(stem.unwrap_or(word)).text;
            let is_both = *language == Language::Other && both.contains(folded.as_str());
            let language = if is_both { Language::Both } else { *language };
            words.push(folded);
            entries.push(Entry { concept, is_prefix: stem.is_some(), language });
        }
    }
    let search = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&words).ok();
    Automaton { search, entries }
});

/// Reads a list of words: the name of a concept and a colon on a line of its own, then its words, separated by commas.
/// A line that starts with `#` is a comment.
fn read(list: &'static str) -> impl Iterator<Item = (Concept, &'static str)> {
    let mut concept = None;
    list.lines().filter(|line| !line.starts_with('#')).flat_map(move |line| {
        if let Some(name) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            concept = Concept::parse(name);
            return Vec::new();
        }
        let words = line.split(',').map(str::trim).filter(|word| !word.is_empty());
        concept.map(|concept| words.map(|word| (concept, word)).collect()).unwrap_or_default()
    })
}

/// The names that a text may refer to.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    /// The tool and its parameters.
    pub(super) own: &'a HashSet<String>,
    pub(super) neighbours: &'a Neighbours,
    /// The text is a value of a schema.
    pub(super) is_value: bool,
}

/// Returns the words of concepts in the order of their positions.
pub(super) fn find(text: &str, names: Names<'_>) -> Vec<Hit> {
    let automaton = &*AUTOMATON;
    let mut hits = Vec::new();
    let matches = automaton.search.iter().flat_map(|search| search.find_overlapping_iter(text));
    for found in matches.take(HITS_MAX) {
        let Some(entry) = automaton.entries.get(found.pattern().as_usize()) else { continue };
        if is_word(text, found.start(), found.end(), entry.is_prefix) {
            let (start, end) = (found.start(), found.end());
            hits.push(Hit { concept: entry.concept, start, end, language: entry.language });
        }
    }
    find_names(text, names, &mut hits);
    hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
    hits
}

/// Checks the edges of a word. Scripts without spaces, and Arabic with its attached particles, have no edges.
fn is_word(text: &str, start: usize, end: usize, is_prefix: bool) -> bool {
    let bytes = text.as_bytes();
    let inner = |at: usize| bytes.get(at).is_some_and(|byte| is_word_byte(*byte));
    let first = text.get(start..).and_then(|rest| rest.chars().next());
    if first.is_some_and(|c| matches!(c, '\u{600}'..='\u{6ff}' | '\u{900}'..='\u{97f}' | '\u{2e80}'..)) {
        return true;
    }
    let starts = !inner(start) || !start.checked_sub(1).is_some_and(inner);
    let ends = is_prefix || !end.checked_sub(1).is_some_and(inner) || !inner(end);
    starts && ends
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Finds mail addresses, URLs and names in code style.
fn find_names(text: &str, names: Names<'_>, hits: &mut Vec<Hit>) {
    let mut add = |concept, start, end| hits.push(Hit { concept, start, end, language: Language::English });
    let mut start = 0_usize;
    for token in text.split([' ', '\n', '(', ')', ',', ';', '"', '\'', '[', ']', '<', '>', '{', '}', '|', '=']) {
        let at = start;
        let before = text.get(..at).unwrap_or_default();
        let is_example =
            before.ends_with(['"', '\'', '`', '<']) || before.ends_with("example ") || before.ends_with("e.g. ");
        start += token.len() + 1;
        let word = token.trim_end_matches(['.', ':', '!', '?']);
        if word.starts_with("http://") || word.starts_with("https://") {
            add(Concept::Url, at, at + word.len());
        } else if !is_example && is_mail(word) && text.contains(' ') {
            add(Concept::Mail, at, at + word.len());
        } else if !word.is_empty() {
            let name = word.trim_matches(['`', '*', '#', '.', ':']);
            let name = name.strip_suffix("`'s").unwrap_or(name);
            if let Some(concept) = name_concept(name, word.starts_with('`'), names) {
                add(concept, at, at + word.len());
            }
        }
    }
}

fn is_mail(word: &str) -> bool {
    let Some((user, host)) = word.split_once('@') else { return false };
    !user.is_empty() && !user.contains(':') && host.contains('.') && !host.starts_with("odata")
}

fn name_concept(name: &str, is_code: bool, names: Names<'_>) -> Option<Concept> {
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')) {
        return None;
    }
    // `firecrawl_map` and `firecrawl_crawl` are tools of one server.
    let is_sibling = name.split_once('_').is_some_and(|(family, _)| names.own.contains(&format!("{family}_")));
    let is_own = names.own.contains(name) || is_sibling;
    let has_underscore = name.contains('_');
    if !is_own && names.neighbours.mentions(name, is_code) {
        return Some(Concept::Neighbour);
    }
    match (is_own, has_underscore, is_code) {
        (true, _, _) if has_underscore || is_code => Some(Concept::Parameter),
        (false, true, _) if name.bytes().any(|byte| byte.is_ascii_alphabetic()) && name.len() > 4 => {
            Some(Concept::ToolName)
        }
        (false, false, true) if !name.is_empty() => Some(Concept::Parameter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_well_formed() {
        for (_, list) in LISTS {
            for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
                let is_heading = line.strip_suffix(':').is_some_and(|name| Concept::parse(name).is_some());
                assert!(is_heading || line.starts_with("    "), "{line}");
            }
            assert!(read(list).count() > 40);
        }
        assert!(AUTOMATON.search.is_some());
    }

    #[test]
    fn names_and_addresses_are_words_too() {
        let own = HashSet::from(["note".to_owned(), "mail_".to_owned()]);
        let neighbours = Neighbours::new([("github", ["create_issue"])]);
        let check = |text: &str, expected: &[Concept]| {
            let names = Names { own: &own, neighbours: &neighbours, is_value: false };
            let mut hits = Vec::new();
            find_names(text, names, &mut hits);
            let found: Vec<Concept> = hits.iter().map(|hit| hit.concept).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("to a@b.example and https://c.example.", &[Concept::Mail, Concept::Url]);
        check("such as 'a@b.example'", &[]);
        check("put it in `note`, not in `rest`", &[Concept::Parameter, Concept::Parameter]);
        check("create_issue and other_tool", &[Concept::Neighbour, Concept::ToolName]);
        check("mail_send", &[Concept::Parameter]);
    }
}
