//! Finds names that are made to be taken for another: look-alike letters, digits in place of letters, and the name of a
//! tool of another server.

use super::fold::look_alike;
use super::hints::words;
use super::neighbours::{Likeness, Neighbours, looks_like};
use super::quote::visible;
use super::{Finding, Severity};

/// Words that tools are named with. A digit that turns a word into one of these was put there to deceive.
const COMMON: &str = "file files mail email gmail message messages list read write create delete update search send post \
    repo repos repository issue issues page pages query tool tools fetch database table tables user users slack github \
    calendar event events drive document documents folder download upload execute shell terminal browser click \
    navigate resolve library docs code commit branch pull request merge comment notes note task tasks project projects \
    channel channels account payment invoice order orders customer password token secret key keys login profile \
    weather location image video text title content contents data collection record records edit move copy directory \
    filesystem server client session memory model models send_email notion jira google workspace reply thread threads \
    schedule rename remove insert select close open start stop run invoke call get set add";

/// Names of tools that many servers share.
const GENERIC: &str = "search fetch read list get query execute help ping echo status delete write create update run \
    login logout version info health test add remove send ask chat think convert translate";

/// Services that many servers are for. A server whose name looks like one of these may pose as it.
const SERVICES: &str = "airtable asana atlassian azure bitbucket calendar cloudflare confluence discord docker dropbox \
    figma filesystem github gitlab gmail google grafana hubspot jira kubernetes linear microsoft mongodb mysql notion \
    onedrive outlook paypal playwright postgres puppeteer redis salesforce sentry sharepoint slack sqlite stripe supabase \
    telegram terraform trello vercel zapier";

/// Looks for a server name that can be taken for the name of another server, or of a well-known service. Server names
/// have only lower-case ASCII letters, digits, `-` and `_`, so what remains is `glthub`, `g1thub` and `git_hub`.
pub(super) fn scan_server<'a>(name: &str, others: impl IntoIterator<Item = &'a str>) -> Option<Finding> {
    let finding = |reason: String| {
        let (rule, severity, place) = ("look-alike-server", Severity::Medium, "server".to_owned());
        Some(Finding { rule, severity, place, reason })
    };
    if let Some(other) = others.into_iter().find(|other| *other != name && looks_like(name, other)) {
        let reason = format!("The server's name `{}` looks like your server `{}`.", visible(name), visible(other));
        return finding(reason);
    }
    let words = words(name);
    let services = || SERVICES.split_ascii_whitespace();
    // `github-work` names the service itself.
    if words.iter().any(|word| services().any(|service| service == word)) {
        return None;
    }
    let candidates = std::iter::once(name).chain(words.iter().map(String::as_str));
    let posed = candidates.filter_map(|candidate| services().find(|service| looks_like(candidate, service))).next()?;
    finding(format!("The server's name `{}` looks like `{posed}`, and is spelled differently.", visible(name)))
}

pub(super) fn scan(name: &str, neighbours: &Neighbours, findings: &mut Vec<Finding>) {
    let mut add = |rule, severity, reason| findings.push(Finding { rule, severity, place: "name".to_owned(), reason });
    let has_latin = name.chars().any(|c| c.is_ascii_alphabetic());
    let is_foreign = |c: &char| !c.is_ascii() && c.is_alphabetic();
    if let Some(foreign) = name.chars().find(is_foreign).filter(|_| has_latin) {
        let reason = format!("The name `{}` mixes scripts: `{foreign}` is no Latin letter.", visible(name));
        let severity =
            if look_alike(foreign).is_some() || is_compatible(foreign) { Severity::High } else { Severity::Low };
        add("look-alike-name", severity, reason);
    } else if let Some(word) = words(name).into_iter().find(|word| is_leet(word)) {
        let reason = format!("The name `{}` has a digit in place of a letter: `{word}`.", visible(name));
        add("look-alike-name", Severity::Medium, reason);
    }
    match neighbours.resembling(name) {
        Some((Likeness::Same, tool)) => {
            let is_generic = GENERIC.split_ascii_whitespace().any(|word| word == name.to_lowercase());
            let severity = if is_generic { Severity::Low } else { Severity::Medium };
            add(
                "shadows-tool",
                severity,
                format!("Another server has a tool with the same name, `{}`.", visible(tool)),
            );
        }
        Some((Likeness::LooksAlike, tool)) => {
            let reason = format!("The name `{}` looks like `{}` of another server.", visible(name), visible(tool));
            add("look-alike-name", Severity::Medium, reason);
        }
        None => {}
    }
}

/// Full-width and mathematical letters.
fn is_compatible(c: char) -> bool {
    let mut is_ascii = false;
    unicode_normalization::char::decompose_compatible(c, |part| {
        is_ascii = part.is_ascii_alphabetic() && !is_accented(c)
    });
    is_ascii
}

/// `é` also decomposes to an ASCII letter, but into two characters.
fn is_accented(c: char) -> bool {
    let mut parts = 0;
    unicode_normalization::char::decompose_canonical(c, |_| parts += 1);
    parts > 1
}

/// Returns whether a word becomes a common one when its digits are read as letters.
fn is_leet(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| matches!(byte, b'0' | b'1' | b'3' | b'4' | b'5' | b'7'));
    let is_common = |one: char| {
        let plain: String = word
            .chars()
            .map(|c| match c {
                '0' => 'o',
                '1' => one,
                '3' => 'e',
                '4' => 'a',
                '5' => 's',
                '7' => 't',
                c => c,
            })
            .collect();
        COMMON.split_ascii_whitespace().any(|common| common == plain)
    };
    has_digit && (is_common('l') || is_common('i'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_deceive() {
        let check = |name: &str, others: &[&str], expected: Option<&str>| {
            let found = scan_server(name, others.iter().copied()).map(|finding| finding.reason);
            assert_eq!(found.as_deref(), expected, "{name} {others:?}");
        };
        check("github", &["github", "gitlab", "fx"], None);
        check("glthub", &["github"], Some("The server's name `glthub` looks like your server `github`."));
        check("0ffice", &["demo", "office"], Some("The server's name `0ffice` looks like your server `office`."));
        check("glthub", &[], Some("The server's name `glthub` looks like `github`, and is spelled differently."));
        check(
            "g1thub-work",
            &[],
            Some("The server's name `g1thub-work` looks like `github`, and is spelled differently."),
        );
        check("git_hub", &[], Some("The server's name `git_hub` looks like `github`, and is spelled differently."));
        check(
            "kubernettes",
            &[],
            Some("The server's name `kubernettes` looks like `kubernetes`, and is spelled differently."),
        );
        check("github-work", &["github-home", "github"], None);
        check("postgres-1", &["postgres-2"], None);
        check("time", &["demo"], None);
    }

    #[test]
    fn names_that_deceive() {
        let neighbours = Neighbours::new([("github", ["create_issue", "search"])]);
        let check = |name: &str, expected: Option<(&str, Severity)>| {
            let mut findings = Vec::new();
            scan(name, &neighbours, &mut findings);
            assert_eq!(findings.first().map(|found| (found.rule, found.severity)), expected, "{name}");
        };
        check("list_things", None);
        check("creаte_record", Some(("look-alike-name", Severity::High)));
        check("h\u{ff53}et", Some(("look-alike-name", Severity::High)));
        check("read_fi1e", Some(("look-alike-name", Severity::Medium)));
        check("md5_hash", None);
        check("oauth2_login", None);
        check("größe_messen", Some(("look-alike-name", Severity::Low)));
        check("create_issue", Some(("shadows-tool", Severity::Medium)));
        check("search", Some(("shadows-tool", Severity::Low)));
        check("create-issue", Some(("look-alike-name", Severity::Medium)));
        check("create_isue", Some(("look-alike-name", Severity::Medium)));
        check("create_issues", None);
    }
}
