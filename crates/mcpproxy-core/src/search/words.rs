//! Splits texts and identifiers into stemmed words. `createPullRequest` and `Creating pull requests` give the same
//! words.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

use super::parts::{Script, WordPart, joined, parts};
use super::stem::stem;

/// Maximum length of a word. The rest is ignored.
const WORD_MAX_CHARS: usize = 64;

/// A word of a text and its stem.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StemmedWord<'a> {
    /// Lower case, without accents and English endings. Words are compared by their stems.
    pub(crate) stem: Cow<'a, str>,
    pub(crate) as_written: &'a str,
}

/// Returns the words in their order, including stop words. Scripts without spaces give every pair of neighbouring
/// characters as a word.
pub(crate) fn words(text: &str) -> Vec<StemmedWord<'_>> {
    let mut words = Vec::with_capacity(text.len() / 6);
    let mut letters = Vec::new();
    for part in parts(text) {
        match part.script {
            Script::Unparted => push_pairs(part.as_written, &mut words),
            // A lone combining mark has no stem and is not a word.
            Script::Ascii | Script::Other => {
                words.extend(Some(word(&part, &mut letters)).filter(|word| !word.stem.is_empty()));
            }
        }
    }
    words
}

/// Returns compounds as one word: `CoinGecko` gives `coingecko`, which may be the name of its server.
///
/// Only two or three words are joined. Longer identifiers are sentences, which are not written as one word.
pub(crate) fn compounds(text: &str) -> Vec<StemmedWord<'_>> {
    let mut letters = Vec::new();
    joined(text).map(|as_written| word(&WordPart { as_written, script: Script::Ascii }, &mut letters)).collect()
}

/// Returns the stem of one word of lower-case ASCII letters and digits.
pub(crate) fn stemmed(word: &str) -> Cow<'_, str> {
    self::word(&WordPart { as_written: word, script: Script::Ascii }, &mut Vec::with_capacity(word.len())).stem
}

/// Turns an identifier into text: `getUserByID` gives `get user by id`.
pub(crate) fn spaced(identifier: &str) -> String {
    let mut text = String::with_capacity(identifier.len() + 8);
    for part in parts(identifier) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.extend(part.as_written.chars().flat_map(char::to_lowercase));
    }
    text
}

/// Returns `true` for stop words, which say nothing about a tool.
pub(crate) fn is_stop_word(stem: &str) -> bool {
    STOP_STEMS.contains(stem)
}

/// English stop words. Verbs of tools (`get`, `list`, `find`, `show`, `make`, `like`), particles (`up`, `off`) and
/// names (`US`) are not among them.
const STOP_WORDS: &str = "a about also am an and any are aren as at be because been being but by can cannot could \
    couldn did didn do does doesn doing don done for from had has have having he hello help her here hers hey hi him \
    his how i if in into is isn it its itself just kindly let may me might mine must my myself need needed needing \
    needs no nor not of on onto or our ours please shall she should so some such than thank thanks that the their \
    theirs them then there these they this those though to too very via want wanted wanting wants was wasn we were \
    what whatever when where whether which while who whom whose why will with within won would wouldn yes you your \
    yours yourself";

static STOP_STEMS: LazyLock<HashSet<String>> =
    LazyLock::new(|| words(STOP_WORDS).into_iter().map(|word| word.stem.into_owned()).collect());

fn word<'a>(part: &WordPart<'a>, letters: &mut Vec<u8>) -> StemmedWord<'a> {
    let as_written = shortened(part.as_written);
    letters.clear();
    match part.script {
        Script::Ascii => letters.extend(as_written.bytes().map(|byte| byte.to_ascii_lowercase())),
        Script::Other | Script::Unparted => letters.extend(folded(as_written).bytes()),
    }
    if letters.iter().all(u8::is_ascii_lowercase) {
        stem(letters);
    }
    // Most words are in lower case, and most stems are a prefix of the word. These need no allocation.
    let stem = match as_written.get(..letters.len()) {
        Some(start) if start.as_bytes() == letters.as_slice() => Cow::Borrowed(start),
        _ => Cow::Owned(String::from_utf8_lossy(letters).into_owned()),
    };
    StemmedWord { stem, as_written }
}

fn push_pairs<'a>(text: &'a str, words: &mut Vec<StemmedWord<'a>>) {
    let mut starts = text.char_indices().map(|(start, _)| start).chain([text.len()]);
    let (mut first, mut second) = (starts.next().unwrap_or_default(), starts.next().unwrap_or_default());
    let mut push = |start, end| {
        let as_written = text.get(start..end).unwrap_or_default();
        words.push(StemmedWord { stem: Cow::Borrowed(as_written), as_written });
    };
    if second == text.len() {
        return push(first, second);
    }
    for third in starts {
        push(first, third);
        (first, second) = (second, third);
    }
}

/// Removes case, accents, and compatibility forms such as full-width letters.
fn folded(text: &str) -> String {
    text.nfkd().filter(|c| !is_accent(*c)).flat_map(char::to_lowercase).collect()
}

/// Returns `true` for Latin, Greek and Cyrillic accents and Arabic vowel marks. Marks of other scripts change the word.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{65f}')
}

fn shortened(text: &str) -> &str {
    if text.len() <= WORD_MAX_CHARS {
        return text;
    }
    let end = text.char_indices().nth(WORD_MAX_CHARS).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stems(text: &str) -> String {
        words(text).iter().map(|word| word.stem.as_ref()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn forms_of_a_word_are_one() {
        let check = |text: &str, expected: &str| assert_eq!(stems(text), expected, "{text}");
        check("createPullRequest", "creat pull request");
        check("create_pull-requests", "creat pull request");
        check("Creating pull requests!", "creat pull request");
        check("repositories repository", "repositori repositori");
        check("the user's files", "the user file");
        check("I don't know what’s new", "i don know what new");
        check("listS3Buckets on AWS", "list s3 bucket on aw");
        check("Café CAFE\u{301} ＣＡＦＥ", "cafe cafe cafe");
        check("ﬁles", "file");
        check("Поиск документов", "поиск документов");
        check("Αναζήτηση", "αναζητηση");
        check("v2.10", "v2 10");
        check("ec2s Straßes", "ec2s straßes");
        check("", "");
        check("--- _ …", "");
        check("\u{64b}A \u{301}", "a");
    }

    #[test]
    fn scripts_without_spaces_are_pairs() {
        let check = |text: &str, expected: &str| assert_eq!(stems(text), expected, "{text}");
        check("搜索文件", "搜索 索文 文件");
        check("查", "查");
        check("用GitHub搜索", "用 github 搜索");
        check("検索する、ファイル", "検索 索す する ファ ァイ イル");
        check("파일 검색", "파일 검색");
        check("ค้นหา", "ค\u{e49} \u{e49}น นห หา");
    }

    #[test]
    fn compounds_are_one_word() {
        let check = |text: &str, expected: &str| {
            let stems: Vec<_> = compounds(text).into_iter().map(|word| word.stem.into_owned()).collect();
            assert_eq!(stems.join(" "), expected, "{text}");
        };
        check("Prices of CoinPaprika, by coinPaprika", "coinpaprika coinpaprika");
        check("GitHub is one already, coin_paprika two", "");
        check("OldSchoolRuneScape numOfRows sha256", "numofrow sha256");
        check("用CoinPaprika搜索", "");
    }

    #[test]
    fn identifiers_become_texts() {
        let check = |text: &str, expected: &str| assert_eq!(spaced(text), expected, "{text}");
        check("getUserByID", "get user by id");
        check("create_pull-request", "create pull request");
        check("API-post-search", "api post search");
        check("HTTPServer.listURLs", "http server list urls");
        check("搜索_files", "搜索 files");
        check("", "");
    }

    #[test]
    fn words_keep_how_they_were_written() {
        let written: Vec<_> = words("getUsers, Ärzte 搜索文").into_iter().map(|word| word.as_written).collect();
        assert_eq!(written, ["get", "Users", "Ärzte", "搜索", "索文"]);
    }

    #[test]
    fn stop_words_name_nothing() {
        let check = |text: &str, expected: &str| {
            let left: Vec<_> = words(text).into_iter().filter(|word| !is_stop_word(&word.stem)).collect();
            assert_eq!(left.iter().map(|word| word.as_written).collect::<Vec<_>>().join(" "), expected, "{text}");
        };
        check("Can you please help me to find the weather in Paris?", "find weather Paris");
        check("I would like to list what I've got", "like list got");
        check("How do I delete my repository", "delete repository");
        check("I don't need this", "");
        for word in "get list find show make fetch like use search up off out all new us".split(' ') {
            assert!(!is_stop_word(&stems(word)), "{word}");
        }
    }

    #[test]
    fn long_words_are_cut() {
        let text = "ä".repeat(100_000);
        let words = words(&text);
        assert_eq!(words.iter().map(|word| word.stem.as_ref()).collect::<Vec<_>>(), ["a".repeat(WORD_MAX_CHARS)]);
        assert_eq!(super::words(&"x1".repeat(500_000)).len(), 1);
        assert_eq!(super::words(&"aB".repeat(500_000)).len(), 500_001);
        assert_eq!(super::words(&"a\u{301}".repeat(500_000)).len(), 1);
        assert_eq!(super::words(&"文".repeat(300_000)).len(), 299_999);
    }

    proptest! {
        #[test]
        fn any_text_has_words_that_stand_in_it(text in "\\PC*") {
            let start = |word: &StemmedWord<'_>| word.as_written.as_ptr().addr() - text.as_ptr().addr();
            let words = words(&text);
            for word in &words {
                prop_assert!(!word.stem.is_empty() && !word.as_written.is_empty());
                prop_assert!(word.as_written.chars().count() <= WORD_MAX_CHARS);
                prop_assert_eq!(text.get(start(word)..start(word) + word.as_written.len()), Some(word.as_written));
            }
            prop_assert!(words.is_sorted_by(|a, b| start(a) < start(b)));
        }

        #[test]
        fn case_and_separators_do_not_matter(words in prop::collection::vec("[a-z]{3,9}", 1..5)) {
            let snake = words.join("_");
            let pascal: String = words
                .iter()
                .flat_map(|word| word.char_indices().map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c }))
                .collect();
            prop_assert_eq!(stems(&snake), stems(&words.join(" ")));
            prop_assert_eq!(spaced(&snake), words.join(" "));
            // Names such as `GitHub` stay whole. Random words of three letters are hardly ever such names.
            prop_assert_eq!(spaced(&pascal), words.join(" "));
        }
    }
}
