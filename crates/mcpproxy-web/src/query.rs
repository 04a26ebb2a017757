//! Parses query strings and form bodies (`application/x-www-form-urlencoded`).

use mcpproxy_core::Untrusted;

use crate::problem::Problem;

const QUOTED_MAX_CHARS: usize = 40;

/// Splits `a=1&b=two+words` into decoded pairs.
pub(crate) fn pairs(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let shown = Untrusted::shortened(name, QUOTED_MAX_CHARS);
            let text = |text: &str| {
                decode(text).ok_or_else(|| {
                    Problem::bad_query(
                        format!("`{}` is not encoded correctly", shown.for_terminal()),
                        "use percent-encoded UTF-8 without NUL bytes, and `%25` for `%`",
                    )
                })
            };
            Ok((text(name)?, text(value)?))
        })
        .collect()
}

/// Decodes `%20` and `+`. `None` for an invalid escape, for bytes that are not UTF-8, and for NUL, which the databases
/// reject.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            _ => byte,
        });
    }
    String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(decode(text).as_deref(), expected, "{text}");
        check("", Some(""));
        check("a+b%20c%2B", Some("a b c+"));
        check("%C3%a9", Some("é"));
        check("'%20OR%201=1--", Some("' OR 1=1--"));
        for bad in ["%", "%%%", "%4", "%zz", "%+1", "%ff", "%C3", "%00", "a%00b"] {
            check(bad, None);
        }
    }

    #[test]
    fn pairs_keep_their_order() {
        let pairs = pairs("a=1&&b&c=x=y&a=2").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", ""), ("c", "x=y"), ("a", "2")]);
    }
}
