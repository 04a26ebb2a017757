//! Answers that are too large to be kept for repeated calls.
//!
//! Only the fact that the call was made is kept, with the size of the answer and whether it was an error. A repeat must
//! not run again, so it is told that the call is done, and which record has the details. It is no error: a model that
//! reads an error would try again with another key.

use std::borrow::Cow;

use mcpproxy_core::json::quote;
use mcpproxy_store::{RecordId, Step};

use super::claims::NOT_FOR_REPEATS;
use crate::kept_answers::KeptAnswers;
use crate::message::{member, with_members};

/// Member of a stored answer that was cut: its size in bytes.
const CUT: &str = "cut";

/// Cuts the answer of a finished call if it is too large, or if its agent has no room left.
pub(super) async fn bounded(kept: &KeptAnswers, step: Step) -> Step {
    match step {
        Step::FinishClaim { agent, tool, key, answer, expires_ms } => {
            let answer = if kept.take(&agent, answer.len()).await { answer } else { cut(&answer) };
            Step::FinishClaim { agent, tool, key, answer, expires_ms }
        }
        other => other,
    }
}

/// Returns the result in a stored answer. `first` is the record of the call that was made.
pub(super) fn result_of(answer: &str, first: RecordId) -> Option<Cow<'_, str>> {
    let Some(bytes) = member(answer, CUT) else { return member(answer, "result").map(Cow::Borrowed) };
    let is_error = member(answer, "isError") == Some("true");
    let outcome = if is_error { "and failed" } else { "and succeeded" };
    let text = format!(
        "Already done: a call with the same idempotency key was made {outcome}. It was not sent again. Its answer of {bytes} \
         bytes was too large to be kept for repeats. The call is record {first} of the activity log."
    );
    Some(Cow::Owned(format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":{is_error}}}",
        quote(&text)
    )))
}

fn cut(answer: &str) -> String {
    let is_error = match member(answer, "result") {
        Some(result) => member(result, "isError") == Some("true"),
        None => true,
    };
    let text = format!("{{\"{CUT}\":{},\"isError\":{is_error}}}", answer.len());
    match member(answer, NOT_FOR_REPEATS) {
        Some(_) => with_members(&text, &[(NOT_FOR_REPEATS, "true")]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> RecordId {
        RecordId::parse("01HF7YAT00000000000000007Z").unwrap()
    }

    #[test]
    fn a_cut_answer_says_what_happened() {
        for (answer, kept, words) in [
            (r#"{"result":{"content":[]},"own":{}}"#, r#"{"cut":34,"isError":false}"#, "and succeeded"),
            (r#"{"result":{"isError":true},"own":{}}"#, r#"{"cut":36,"isError":true}"#, "and failed"),
            (r#"{"error":{"code":1,"message":""}}"#, r#"{"cut":33,"isError":true}"#, "and failed"),
        ] {
            assert_eq!(cut(answer), kept);
            let told = result_of(&cut(answer), first()).unwrap().into_owned();
            assert!(told.contains(words) && told.contains(&first().to_string()), "{told}");
        }
        let waited = cut(r#"{"result":{},"not_for_repeats":true}"#);
        assert!(member(&waited, NOT_FOR_REPEATS).is_some(), "{waited}");
    }

    #[test]
    fn a_whole_answer_stays() {
        assert_eq!(result_of(r#"{"result":{"content":[]}}"#, first()).as_deref(), Some(r#"{"content":[]}"#));
    }
}
