//! Finds, in the standard error of a server that failed, the line that explains why, and what the server might miss.
//!
//! The last line is rarely the one that helps. npm ends with the path of a log file, Node.js with its own version,
//! Python frameworks with a shutdown message. [`error_line`] scores every line by words of [`SIGNS`] and returns the
//! best, the last one among equals. Without any sign there is no such line, and callers show the last one.
//!
//! [`missing_hint`] compares the lines with [`CAUSES`]. Each row names the environment variables that usually solve
//! such a failure. A variable that the server already has is not suggested. The texts are fixed, so that a server
//! cannot word advice for the operator. The only part that comes from the server is the name of a variable.

use mcpproxy_core::Untrusted;

/// Words that make a line more or less likely to be the explanation, in lower case.
const SIGNS: [(&str, i32); 24] = [
    ("error:", 4),
    ("exception:", 4),
    ("reason:", 3),
    ("fatal", 3),
    ("panicked at", 3),
    ("error", 2),
    ("err!", 2),
    ("exception", 2),
    ("failed", 2),
    ("cannot", 2),
    ("could not", 2),
    ("unable to", 2),
    ("not found", 2),
    ("no such file", 2),
    ("denied", 2),
    ("refused", 2),
    ("not set", 2),
    ("missing", 2),
    ("required", 1),
    ("traceback", -9),
    ("complete log of this run", -20),
    ("deprecat", -6),
    ("warn", -4),
    ("error code", -3),
];

/// Starts of the lines of a stack trace.
const FRAMES: [&str; 4] = ["at ", "File \"", "^", "~"];

/// A kind of failure, its signs in lower case, the variables that may solve it, and the advice.
struct Cause {
    signs: &'static [&'static str],
    variables: &'static [&'static str],
    advice: &'static str,
}

const CAUSES: [Cause; 4] = [
    Cause {
        signs: &[
            "certificate",
            "self_signed_cert",
            "self-signed",
            "unable_to_get_issuer",
            "unable_to_verify_leaf",
            "x509",
            "ssl: ",
        ],
        variables: &["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"],
        advice: "The server does not trust a certificate. If your network has its own certificate authority, set its \
                 file where the gateway starts",
    },
    Cause {
        signs: &[
            "enotfound",
            "eai_again",
            "getaddrinfo",
            "etimedout",
            "enetunreach",
            "name resolution",
            "could not resolve host",
            "network is unreachable",
            "behind a proxy",
            "dns error",
        ],
        variables: &["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"],
        advice: "The server does not reach the network. If you need a proxy, set it where the gateway starts",
    },
    Cause {
        signs: &[
            "command not found",
            "executable file not found",
            "spawn enoent",
            "no such file or directory (os error 2)",
        ],
        variables: &[],
        advice: "A program is missing. Install it, add its folder to PATH where the gateway starts, or write its whole \
                 path as `command`",
    },
    Cause {
        signs: &["unicodeencodeerror", "unicodedecodeerror", "setlocale"],
        variables: &["LANG", "LC_ALL"],
        advice: "The server needs a locale. Set it where the gateway starts, for example LANG=C.UTF-8",
    },
];

/// Words beside the name of a variable that a server misses, in lower case.
const MISSING: [&str; 6] = ["environment variable", "env var", "not set", "is required", "missing", "must be set"];

/// Longest name of a variable that is repeated in a hint.
const VARIABLE_MAX_CHARS: usize = 64;

/// Returns the line that explains a failure, if one looks like it.
pub(super) fn error_line(lines: &[Untrusted]) -> Option<&Untrusted> {
    if let Some(line) = after_traceback(lines) {
        return Some(line);
    }
    let scored = lines.iter().map(|line| (score(line.for_json()), line)).filter(|(score, _)| *score > 0);
    // Of equal scores, `max_by_key` returns the last.
    scored.max_by_key(|(score, _)| *score).map(|(_, line)| line)
}

/// Returns the exception that ends the last Python traceback.
fn after_traceback(lines: &[Untrusted]) -> Option<&Untrusted> {
    let start = lines.iter().rposition(|line| line.for_json().starts_with("Traceback (most recent call last)"))?;
    let mut rest = lines.iter().skip(start + 1);
    rest.find(|line| !line.for_json().trim().is_empty() && !line.for_json().starts_with(char::is_whitespace))
}

fn score(line: &str) -> i32 {
    let line = line.trim();
    if FRAMES.iter().any(|frame| line.starts_with(frame)) {
        return 0;
    }
    let lower = line.to_lowercase();
    SIGNS.iter().filter(|(sign, _)| lower.contains(sign)).map(|(_, weight)| weight).sum()
}

/// Returns advice for a failure that a missing variable or program usually causes. `is_set` says whether the server
/// already gets a variable.
pub(super) fn missing_hint(reason: &str, lines: &[Untrusted], is_set: &dyn Fn(&str) -> bool) -> Option<String> {
    let lower: Vec<String> =
        [reason].into_iter().chain(lines.iter().map(Untrusted::for_json)).map(str::to_lowercase).collect();
    let has = |sign: &str| lower.iter().any(|line| line.contains(sign));
    if let Some(name) = lines.iter().find_map(|line| missing_variable(line.for_json())).filter(|name| !is_set(name)) {
        return Some(format!(
            "{name} is not set. Set it in `env` of this server, or add it to `env_passthrough` if the gateway \
             has it."
        ));
    }
    let cause = CAUSES.iter().find(|cause| cause.signs.iter().any(|sign| has(sign)))?;
    let unset: Vec<&str> = cause.variables.iter().copied().filter(|name| !is_set(name)).collect();
    match (cause.variables, unset.as_slice()) {
        ([], _) => Some(format!("{}.", cause.advice)),
        (_, []) => None,
        (_, unset) => Some(format!("{}: {}.", cause.advice, unset.join(", "))),
    }
}

/// Returns the name of a variable that a line calls missing, such as `GITHUB_TOKEN`.
fn missing_variable(line: &str) -> Option<&str> {
    let lower = line.to_lowercase();
    if !MISSING.iter().any(|words| lower.contains(words)) {
        return None;
    }
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name = |word: &&str| {
        let starts = word.starts_with(|c: char| c.is_ascii_uppercase());
        let fits = word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        starts && fits && word.contains('_') && word.len() <= VARIABLE_MAX_CHARS
    };
    words.into_iter().find(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Untrusted> {
        text.lines().map(Untrusted::new).collect()
    }

    #[test]
    fn the_line_that_explains() {
        let check = |text: &str, expected: Option<&str>| {
            let lines = lines(text);
            assert_eq!(error_line(&lines).map(Untrusted::for_json), expected, "{text}");
        };
        check(
            "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error network request to https://packages.example \
             failed, reason: getaddrinfo ENOTFOUND packages.example\nnpm error network This is a problem related to network \
             connectivity.\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x.log",
            Some(
                "npm error network request to https://packages.example failed, reason: getaddrinfo ENOTFOUND packages.example",
            ),
        );
        check(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/y.js'\n    at \
             Module._load (node:internal/error:1)\n  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v22.1.0",
            Some("Error: Cannot find module '/x/y.js'"),
        );
        check(
            "INFO start\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    raise KeyError('x')\n\
             KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent \
             call last):\n  File \"b.py\", line 2\nModuleNotFoundError: No module named 'mcp'\nbye",
            Some("ModuleNotFoundError: No module named 'mcp'"),
        );
        check("thread 'main' panicked at src/main.rs:1:1:\nboom", Some("thread 'main' panicked at src/main.rs:1:1:"));
        check("Error: first\nError: second", Some("Error: second"));
        check("npm warn deprecated error-ex@1.0.0: no longer supported", None);
        check("listening\nbye", None);
        check("", None);
    }

    #[test]
    fn what_a_server_might_miss() {
        let check = |reason: &str, text: &str, set: &[&str], expected: Option<&str>| {
            let hint = missing_hint(reason, &lines(text), &|name| set.contains(&name));
            assert_eq!(hint.as_deref(), expected, "{reason} {text}");
        };
        let certificate = "The server does not trust a certificate. If your network has its own certificate authority, \
                           set its file where the gateway starts: NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE.";
        check("ended", "Error: self-signed certificate in certificate chain", &["SSL_CERT_FILE"], Some(certificate));
        let all = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"];
        check("ended", "Error: self-signed certificate in certificate chain", &all, None);
        let proxy = "The server does not reach the network. If you need a proxy, set it where the gateway starts: \
                     HTTPS_PROXY, HTTP_PROXY, NO_PROXY.";
        check("ended", "npm error code ENOTFOUND", &[], Some(proxy));
        let path = "A program is missing. Install it, add its folder to PATH where the gateway starts, or write its \
                    whole path as `command`.";
        check("could not start `uvx`: command not found", "", &[], Some(path));
        let token = "GITHUB_TOKEN is not set. Set it in `env` of this server, or add it to `env_passthrough` if \
                     the gateway has it.";
        check("ended", "Error: GITHUB_TOKEN environment variable is required", &[], Some(token));
        check("ended", "Error: GITHUB_TOKEN environment variable is required", &["GITHUB_TOKEN"], None);
        check("ended", "GITHUB_TOKEN=ghp_x was read", &[], None);
        check("ended", "bye", &[], None);
    }
}
