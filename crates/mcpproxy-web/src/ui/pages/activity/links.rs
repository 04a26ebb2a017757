//! Addresses of the list of records: every filter is in the address, with the name that REST gives it.

/// The filters of an address, decoded, in their order. The position in the list is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters(Vec<(String, String)>);

/// More and longer parameters are cut. The parser refuses such values anyway, and the page repeats them in its links.
const PAIRS_MAX: usize = 32;
const VALUE_CHARS: usize = 300;
const LIST: &str = "/ui/activity";
const EXPORT: &str = "/api/v1/activity/export";

impl Filters {
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let short = |text: String| text.chars().take(VALUE_CHARS).collect();
        Self(pairs.into_iter().take(PAIRS_MAX).map(|(name, value)| (short(name), short(value))).collect())
    }

    /// Builds filters from names that are known here.
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        self.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        Self::new(self.0.iter().filter(|(known, _)| known != name).cloned())
    }

    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut filters = self.without(name);
        filters.0.push((name.to_owned(), value.to_owned()));
        filters
    }

    /// Returns the address of the list with these filters.
    pub(crate) fn list(&self) -> String {
        self.at(LIST)
    }

    /// Returns the address of the export of the same records.
    pub(crate) fn export(&self, format: &str, with_payloads: bool) -> String {
        let filters = self.with("format", format);
        if with_payloads { filters.with("payloads", "true").at(EXPORT) } else { filters.at(EXPORT) }
    }

    fn at(&self, path: &str) -> String {
        let pairs: Vec<String> =
            self.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }

    /// Returns the query, as the parser of parameters reads it.
    pub(crate) fn query(&self) -> String {
        self.at("").trim_start_matches('?').to_owned()
    }
}

/// Percent-encodes everything but letters, digits and four signs.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_and_read_back() {
        let filters = Filters::of(&[("agent", "a&b=\"<script>"), ("q", "100% süß +")]);
        let path = filters.list();
        assert_eq!(path, "/ui/activity?agent=a%26b%3D%22%3Cscript%3E&q=100%25%20s%C3%BC%C3%9F%20%2B");
        assert_eq!(Filters::new(crate::query::pairs(&filters.query()).unwrap()), filters);
    }

    #[test]
    fn a_filter_is_set_once_and_removed() {
        let filters = Filters::of(&[("since", "1h"), ("agent", "a")]);
        assert_eq!(filters.with("since", "7d").list(), "/ui/activity?agent=a&since=7d");
        assert_eq!(filters.without("since").without("agent").list(), "/ui/activity");
        assert_eq!(filters.export("csv", true), "/api/v1/activity/export?since=1h&agent=a&format=csv&payloads=true");
    }
}
