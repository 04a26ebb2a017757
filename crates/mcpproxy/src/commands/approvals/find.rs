//! Finds an approval request by its id or a prefix of it.

use http::Method;
use mcpproxy_core::ApprovalId;

use super::view::View;
use super::words::{array, query};
use crate::client::Rest;
use crate::exit::{Exit, Failure};
use crate::terminal::output::line;

/// Returns an approval request with all its fields.
pub(super) async fn approval(rest: &Rest, given: &str) -> anyhow::Result<View> {
    let id = id(rest, given).await?;
    let (value, text) = rest.ask_for_text(Method::GET, &format!("/api/v1/approvals/{id}")).await?;
    Ok(View { value, text })
}

/// Returns the one id with this prefix. Ids sort by time, so the page that ends at the greatest possible id with this
/// prefix contains it.
pub(super) async fn id(rest: &Rest, given: &str) -> anyhow::Result<ApprovalId> {
    if let Some(id) = ApprovalId::parse(given) {
        return Ok(id);
    }
    let after = last_with(given).ok_or_else(|| none(given))?;
    let path = query("/api/v1/approvals", &[("limit", Some("2")), ("cursor", Some(after.as_str()))]);
    let page = rest.ask(Method::GET, &path).await?;
    let ids = array(&page, "approvals").iter().filter_map(|one| one.get("id")?.as_str());
    let id = only_one(given, ids, none)?;
    Ok(ApprovalId::parse(id).ok_or_else(|| none(given))?)
}

/// Returns the greatest id that can start with this prefix.
fn last_with(beginning: &str) -> Option<ApprovalId> {
    (!beginning.is_empty()).then(|| ApprovalId::parse(&format!("{beginning:Z<0$}", ApprovalId::CHARS)))?
}

/// Returns the only id that starts with the prefix, ignoring case.
pub(super) fn only_one<T: AsRef<str>>(
    beginning: &str,
    ids: impl IntoIterator<Item = T>,
    none: fn(&str) -> Failure,
) -> Result<T, Failure> {
    let wanted = beginning.to_ascii_uppercase();
    let mut fitting = ids.into_iter().filter(|id| id.as_ref().to_ascii_uppercase().starts_with(&wanted));
    match (fitting.next(), fitting.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => Err(none(beginning)),
        (Some(one), Some(other)) => Err(Failure::new(
            Exit::Failed,
            format!("More than one id starts with `{}`: {}, {}, …", line(beginning), one.as_ref(), other.as_ref()),
        )
        .hint("type more characters of the id")),
    }
}

fn none(given: &str) -> Failure {
    Failure::new(Exit::Failed, format!("No approval request starts with `{}`.", line(given)))
        .hint("list all ids with `mcpproxy approvals list --state all`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        let all = ["01HF7YAT00", "01HF7YAT01", "01HG000000"];
        let check = |given: &str, expected: Result<&str, &str>| {
            let found = only_one(given, all, none).map_err(|failure| failure.to_string());
            assert_eq!(found.as_ref().map(|id| &**id).map_err(String::as_str), expected, "{given}");
        };
        check("01HG", Ok("01HG000000"));
        check("01hg", Ok("01HG000000"));
        check("01HF7YAT01", Ok("01HF7YAT01"));
        check("01HF", Err("More than one id starts with `01HF`: 01HF7YAT00, 01HF7YAT01, …"));
        check("02\u{1b}", Err("No approval request starts with `02\\u{1b}`."));
    }

    #[test]
    fn the_last_that_begins_so() {
        let check = |given: &str, expected: Option<&str>| {
            assert_eq!(last_with(given).as_ref().map(ApprovalId::as_str), expected, "{given}");
        };
        check("01hf", Some("01HFZZZZZZZZZZZZZZZZZZZZZZ"));
        check("", None);
        check("01-", None);
        check("01HF7YAT00000000000000000000", None);
    }
}
