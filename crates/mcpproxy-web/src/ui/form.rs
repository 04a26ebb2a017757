//! Reads form bodies. Size and number of fields are limited, and each name may appear once.

use axum::body::{Body, to_bytes};
use http::header::{CONTENT_TYPE, HeaderMap};

use crate::query::decode;

/// The largest form contains a JSON Schema.
const MAX_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormError {
    NotAForm,
    TooLarge,
}

impl Form {
    pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, FormError> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        // Our own pages send nothing else.
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(FormError::NotAForm);
        }
        let body = to_bytes(body, MAX_BYTES).await.map_err(|_| FormError::TooLarge)?;
        Self::parse(std::str::from_utf8(&body).map_err(|_| FormError::NotAForm)?)
    }

    fn parse(text: &str) -> Result<Self, FormError> {
        let mut form = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = decode(name).zip(decode(value)).ok_or(FormError::NotAForm)?;
            // Duplicate fields are ambiguous.
            if form.text(&name).is_some() || form.fields.len() == MAX_FIELDS {
                return Err(FormError::NotAForm);
            }
            form.fields.push((name, value));
        }
        Ok(form)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value, or an empty string.
    pub(crate) fn or_empty(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// Returns names and values of all fields but these.
    pub(crate) fn without(&self, names: &[&str]) -> Vec<(String, String)> {
        self.fields.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect()
    }

    /// Returns the trimmed value, unless it is empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).map(str::trim).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let form = Form::parse("action=deny&comment=+no%2C%0D%0Anot+that+&totp=").unwrap();
        assert_eq!(form.text("comment"), Some(" no,\r\nnot that "));
        assert_eq!(form.filled("comment"), Some("no,\r\nnot that"));
        assert_eq!((form.text("totp"), form.filled("totp")), (Some(""), None));
        assert_eq!((form.text("csrf"), form.or_empty("csrf")), (None, ""));
    }

    #[test]
    fn what_is_no_form() {
        let many: Vec<String> = (0..33).map(|number| format!("f{number}=1")).collect();
        for bad in ["a=1&a=2", "a=%", "a=%ff", "a=%00", &many.join("&")] {
            assert_eq!(Form::parse(bad).unwrap_err(), FormError::NotAForm, "{bad}");
        }
    }

    #[tokio::test]
    async fn the_type_and_the_size_count() {
        let check = async |kind: &str, bytes: usize, expected: Option<FormError>| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
            let body = Body::from(format!("a={}", "x".repeat(bytes)));
            assert_eq!(Form::read(&headers, body).await.err(), expected, "{kind} {bytes}");
        };
        check("application/x-www-form-urlencoded", 10, None).await;
        check("application/x-www-form-urlencoded; charset=UTF-8", 10, None).await;
        check("application/x-www-form-urlencoded", MAX_BYTES, Some(FormError::TooLarge)).await;
        check("text/plain", 10, Some(FormError::NotAForm)).await;
        check("multipart/form-data; boundary=x", 10, Some(FormError::NotAForm)).await;
        assert_eq!(Form::read(&HeaderMap::new(), Body::empty()).await.err(), Some(FormError::NotAForm));
    }
}
