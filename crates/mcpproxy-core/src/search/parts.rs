//! Finds the boundaries of words in texts and identifiers.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// One word, or a run of a script that has no spaces between words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WordPart<'a> {
    pub(super) as_written: &'a str,
    pub(super) script: Script,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Ascii,
    Other,
    /// Han, kana, Hangul, Thai and similar scripts, which do not separate words by spaces.
    Unparted,
}

/// Returns the parts of a text in their order.
pub(super) fn parts(text: &str) -> Vec<WordPart<'_>> {
    let mut parts = Vec::with_capacity(text.len() / 6);
    let mut borders = Vec::new();
    let mut rest = text;
    while let Some(run) = first_run(rest) {
        let Some(after) = rest.get(run.end..) else { break };
        split(rest.get(run).unwrap_or_default(), &mut borders, &mut parts);
        rest = skip_clitic(after);
    }
    parts
}

/// Returns ASCII identifiers that consist of two or three parts.
pub(super) fn joined(text: &str) -> impl Iterator<Item = &str> {
    let mut borders = Vec::new();
    let mut parts = Vec::new();
    let runs = text.split(|c| class(c) == CharClass::Separator);
    runs.filter(move |run| {
        let can_be = run.is_ascii() && !run.bytes().all(|byte| byte.is_ascii_lowercase());
        parts.clear();
        if can_be {
            split(run, &mut borders, &mut parts);
        }
        matches!(parts.len(), 2 | 3)
    })
}

/// The class of a character at word boundaries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Upper,
    /// Also letters without case.
    Lower,
    Digit,
    Unparted,
    /// An accent or vowel sign that belongs to the character before.
    Mark,
    Separator,
}

fn class(c: char) -> CharClass {
    match c {
        'a'..='z' => CharClass::Lower,
        'A'..='Z' => CharClass::Upper,
        '0'..='9' => CharClass::Digit,
        _ if c.is_ascii() => CharClass::Separator,
        _ if is_unparted(c) => CharClass::Unparted,
        _ if c.is_uppercase() => CharClass::Upper,
        _ if c.is_alphabetic() => CharClass::Lower,
        _ if c.is_numeric() => CharClass::Digit,
        _ if is_combining_mark(c) => CharClass::Mark,
        _ => CharClass::Separator,
    }
}

fn is_unparted(c: char) -> bool {
    let is_in_range = matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{318f}'
        | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}');
    is_in_range && (c.is_alphanumeric() || is_combining_mark(c))
}

/// Returns the first run of characters without a separator.
fn first_run(text: &str) -> Option<Range<usize>> {
    let start = text.find(|c| !matches!(class(c), CharClass::Separator | CharClass::Mark))?;
    let run = text.get(start..)?;
    Some(start..start + run.find(|c| class(c) == CharClass::Separator).unwrap_or(run.len()))
}

/// Skips the `'s` of `user's` and the `'t` of `don't`.
fn skip_clitic(text: &str) -> &str {
    let Some(letters) = text.strip_prefix(['\'', '\u{2019}']) else { return text };
    let clitic = ["s", "t", "re", "ve", "ll", "d", "m"].into_iter().find_map(|clitic| letters.strip_prefix(clitic));
    match clitic {
        Some(rest) if !rest.starts_with(|c| class(c) != CharClass::Separator) => rest,
        _ => letters,
    }
}

/// Splits a run into words, except for names such as `GitHub`.
fn split<'a>(run: &'a str, borders: &mut Vec<usize>, parts: &mut Vec<WordPart<'a>>) {
    // Fast path: most runs are a single word in lower case.
    if run.bytes().all(|byte| byte.is_ascii_lowercase()) {
        parts.push(WordPart { as_written: run, script: Script::Ascii });
        return;
    }
    borders.clear();
    borders.push(0);
    find_borders(run, borders);
    borders.push(run.len());
    let mut borders = borders.as_slice();
    while let [start, rest @ ..] = borders
        && let [next, ..] = rest
    {
        let joined = [3, 2].into_iter().find_map(|parts| {
            let end = *borders.get(parts)?;
            is_name(run.get(*start..end)?).then_some((parts, end))
        });
        let (used, end) = joined.unwrap_or((1, *next));
        let as_written = run.get(*start..end).unwrap_or_default();
        parts.push(WordPart { as_written, script: script(as_written) });
        borders = borders.get(used..).unwrap_or_default();
    }
}

fn script(part: &str) -> Script {
    if part.is_ascii() {
        return Script::Ascii;
    }
    if part.chars().next().is_some_and(is_unparted) { Script::Unparted } else { Script::Other }
}

/// Minimum number of letters for a word next to digits. `oauth2` and `sha256` split into `oauth 2` and `sha 256`. Fewer
/// letters mean nothing on their own, so `s3`, `ec2`, `k8s`, `mp3`, `v2` and `2fa` stay whole.
const LETTERS_OF_A_WORD: usize = 3;

fn find_borders(run: &str, borders: &mut Vec<usize>) {
    let mut before = SeenChars::default();
    for (at, c) in run.char_indices() {
        let class = class(c);
        if class == CharClass::Mark {
            continue;
        }
        let after = run.get(at + c.len_utf8()..).unwrap_or_default();
        if before.ends_at(class, after) {
            borders.push(at);
            before = SeenChars::default();
        }
        before.add(class);
    }
}

/// The characters of the current part.
#[derive(Default)]
struct SeenChars {
    last: Option<CharClass>,
    has_letters: bool,
    letters_at_end: usize,
}

impl SeenChars {
    fn add(&mut self, class: CharClass) {
        let is_letter = matches!(class, CharClass::Upper | CharClass::Lower);
        self.letters_at_end = if is_letter { self.letters_at_end + 1 } else { 0 };
        self.has_letters |= is_letter;
        self.last = Some(class);
    }

    /// Returns `true` if the part ends before a character.
    fn ends_at(&self, class: CharClass, after: &str) -> bool {
        let Some(last) = self.last else { return false };
        match (last, class) {
            (CharClass::Unparted, CharClass::Unparted) => false,
            (CharClass::Unparted, _) | (_, CharClass::Unparted) | (CharClass::Lower, CharClass::Upper) => true,
            // The last of several capitals begins the next word, as in `HTTPServer`, except before the `s` of `URLs`.
            (CharClass::Upper, CharClass::Upper) => is_lower(after) && !is_plural_s(after),
            (CharClass::Upper | CharClass::Lower, CharClass::Digit) => self.letters_at_end >= LETTERS_OF_A_WORD,
            (CharClass::Digit, CharClass::Upper) => self.has_letters || is_word(after),
            (CharClass::Digit, CharClass::Lower) => is_word(after),
            (_, CharClass::Mark | CharClass::Separator)
            | (CharClass::Mark | CharClass::Separator, _)
            | (CharClass::Upper | CharClass::Lower, CharClass::Lower)
            | (CharClass::Digit, CharClass::Digit) => false,
        }
    }
}

fn is_lower(text: &str) -> bool {
    text.chars().next().is_some_and(|c| class(c) == CharClass::Lower)
}

fn is_plural_s(text: &str) -> bool {
    text.strip_prefix('s').is_some_and(|rest| !is_lower(rest))
}

/// Returns `true` if enough letters follow to form a word with the one before.
fn is_word(after: &str) -> bool {
    let letters = after.chars().take(LETTERS_OF_A_WORD - 1).take_while(|c| class(*c) == CharClass::Lower);
    letters.count() == LETTERS_OF_A_WORD - 1
}

/// Returns `true` for names such as `GitHub`, whose capitals and digits do not separate words.
fn is_name(text: &str) -> bool {
    let mut letters = [0; 16];
    let Some(letters) = letters.get_mut(..text.len()) else { return false };
    letters.copy_from_slice(text.as_bytes());
    letters.make_ascii_lowercase();
    NAMES.binary_search_by(|name| name.as_bytes().cmp(letters)).is_ok()
}

/// Names that some write with a capital or digit inside and others without. Sorted.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "accuweather", "activecampaign", "airbnb", "airtable", "aliexpress", "arcgis", "arxiv", "auth0", "autocad",
    "backup", "baseball", "bigcommerce", "bigquery", "biorxiv", "bitbucket", "blockchain", "chatgpt", "checkout",
    "chromadb", "clickhouse", "clickup", "cloudflare", "cloudformation", "cloudfront", "cloudwatch", "cockroachdb",
    "coffeescript", "coingecko", "coinmarketcap", "couchdb", "database", "databricks", "datadog", "dataset",
    "deepseek", "defi", "devops", "devtools", "docusign", "dropbox", "duckdb", "duckduckgo", "dynamodb", "ebay",
    "elasticsearch", "email", "endpoint", "facebook", "fastapi", "filename", "firebase", "freebsd", "freshdesk",
    "geojson", "github", "gitlab", "graphql", "hashtag", "hostname", "hubspot", "huggingface", "icloud", "imdb",
    "imessage", "influxdb", "invision", "ios", "iot", "ipad", "iphone", "itunes", "javascript", "jetbrains",
    "jquery", "jupyterlab", "keyword", "kicad", "langchain", "latex", "leetcode", "linkedin", "llamaindex", "log4j",
    "macos", "mailchimp", "mapbox", "mariadb", "medrxiv", "memcached", "metadata", "mixpanel", "mongodb", "mysql",
    "neo4j", "nextjs", "nixos", "nodejs", "nosql", "nuget", "numpy", "oauth", "onedrive", "onenote", "openai",
    "openapi", "opensearch", "openshift", "openstreetmap", "opentelemetry", "opsgenie", "outlook", "pagerduty",
    "password", "paypal", "playlist", "playstation", "playwright", "pocketbase", "podcast", "postgis", "postgresql",
    "powerpoint", "powershell", "promql", "pubchem", "pubmed", "pypi", "pytorch", "quickbooks", "rabbitmq",
    "reactjs", "rubygems", "salesforce", "sendgrid", "sharepoint", "snowflake", "soundcloud", "sqlite", "subdomain",
    "supabase", "teamcity", "tensorflow", "tiktok", "timestamp", "timezone", "tmdb", "tripadvisor", "typescript",
    "username", "vscode", "vuejs", "web3", "webhook", "website", "websocket", "wechat", "whatsapp", "wifi",
    "woocommerce", "wordpress", "youtube", "zendesk",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let parts: Vec<_> = parts(text).into_iter().map(|part| part.as_written).collect();
        assert_eq!(parts.join(" "), expected, "{text}");
    }

    #[test]
    fn capitals_begin_words() {
        check("createPullRequest", "create Pull Request");
        check("HTTPServer", "HTTP Server");
        check("parseJSONFile", "parse JSON File");
        check("getUserByID", "get User By ID");
        check("listURLsByTag", "list URLs By Tag");
        check("IDs APIs PDFs", "IDs APIs PDFs");
        check("GETUser", "GET User");
        check("aBC", "a BC");
        check("ÄrzteListe", "Ärzte Liste");
    }

    #[test]
    fn separators_end_words() {
        check("create_pull-request.v2/issues:all", "create pull request v2 issues all");
        check("__init__", "init");
        check("user's don’t O'Brien 'quoted' it'sy", "user don O Brien quoted it sy");
        check("a\u{0}b\u{a0}c", "a b c");
        check("\u{301}a\u{301}b", "a\u{301}b");
    }

    #[test]
    fn digits_stay_with_few_letters() {
        check("s3 ec2 k8s mp3 v2 2fa 3D i18n b2b n8n h264", "s3 ec2 k8s mp3 v2 2fa 3D i18n b2b n8n h264");
        check("oauth2 sha256 utf8 python3 gpt4", "oauth 2 sha 256 utf 8 python 3 gpt 4");
        check("listS3Buckets EC2Instance K8sCluster 3DModel", "list S3 Buckets EC2 Instance K8s Cluster 3D Model");
        check("base64Encode getV2Users 10minutes 2023", "base 64 Encode get V2 Users 10 minutes 2023");
    }

    #[test]
    fn names_stay_whole() {
        check("GitHub createGitHubIssue YouTubeVideo", "GitHub create GitHub Issue YouTube Video");
        check("DuckDuckGoSearch MySQL PostgreSQL MongoDB", "DuckDuckGo Search MySQL PostgreSQL MongoDB");
        check("OAuth JavaScript OpenAI iPhone web3 neo4j", "OAuth JavaScript OpenAI iPhone web3 neo4j");
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn scripts_are_apart() {
        let scripts: Vec<_> = parts("abc搜索Текст文x").into_iter().map(|part| (part.as_written, part.script)).collect();
        let expected = [
            ("abc", Script::Ascii),
            ("搜索", Script::Unparted),
            ("Текст", Script::Other),
            ("文", Script::Unparted),
            ("x", Script::Ascii),
        ];
        assert_eq!(scripts, expected);
    }
}
