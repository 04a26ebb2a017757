//! The result of a dry run that the user made on the page of a tool.

use std::borrow::Cow;

use mcpproxy_core::{ErrorCode, ServerName, Untrusted};
use mcpproxy_gateway::{DryRunReport, DryRunResult};
use mcpproxy_store::StoredDryRun;

use crate::ui::pages::activity::advice;
use crate::ui::pages::activity::bounded::line;
use crate::ui::pages::confirm::{Preview, ShownValue, preview_text};
use crate::visible::Visible;

const MESSAGE_CHARS: usize = 1_200;
const CODE_CHARS: usize = 120;

pub(crate) struct Ran {
    /// The agent in whose name it was made.
    pub(crate) agent: Visible,
    /// The id of its record.
    pub(crate) record: Option<String>,
    /// In the form in which approval requests show a dry run.
    pub(crate) preview: Option<Preview>,
    /// The reason why there is no result.
    pub(crate) failure: Option<RunFailure>,
}

pub(crate) struct RunFailure {
    pub(crate) word: &'static str,
    pub(crate) sentence: Visible,
    /// The code of an error that the server made.
    pub(crate) code: Option<Visible>,
    /// Names and commands are between backticks.
    pub(crate) next_step: Option<Cow<'static, str>>,
    /// The answer of the server.
    pub(crate) answer: Option<ShownValue>,
}

impl Ran {
    pub(crate) fn new(report: &DryRunReport, agent: &str, server: &ServerName) -> Self {
        let (preview, failure) = match &report.result {
            DryRunResult::Made { dry_run, said_by } => (Some(Preview::new(dry_run, *said_by, dry_run.at_ms)), None),
            DryRunResult::Failed { code, message, answer } => {
                (None, Some(failed(code.as_ref(), message.as_ref(), answer.as_ref(), server)))
            }
            DryRunResult::Refused { code, message } => {
                (None, Some(refused(code.for_json(), message.for_json(), server)))
            }
        };
        Self { agent: Visible::of(agent), record: report.record.map(|id| id.to_string()), preview, failure }
    }
}

/// Says what to do next about a code of the gateway.
fn next_step(code: &str, server: &ServerName) -> Option<Cow<'static, str>> {
    let step = advice::next_step_of_dry_run(ErrorCode::parse(code)?);
    Some(advice::at_server(step, Some(server.as_str())))
}

fn failed(
    code: Option<&Untrusted>,
    message: Option<&Untrusted>,
    answer: Option<&Untrusted>,
    server: &ServerName,
) -> RunFailure {
    let message = message.map(Untrusted::for_json).unwrap_or_default();
    let Some(answer) = answer else {
        // Without an answer, the code is the gateway's.
        let known = code.map(Untrusted::for_json).unwrap_or_default();
        let next_step = next_step(known, server);
        return RunFailure { sentence: ended(message), code: None, next_step, word: "failed", answer: None };
    };
    let sentence = match message {
        "" => Visible::of("The server answered the dry run with an error. A real call may fail too."),
        message => line(&format!("The server answered the dry run with an error: {message}"), MESSAGE_CHARS),
    };
    let answer = StoredDryRun { preview: answer.clone(), is_native: true, at_ms: 0 };
    RunFailure {
        word: "failed",
        sentence,
        code: code.map(|code| line(code.for_json(), CODE_CHARS)),
        next_step: Some(Cow::Borrowed("Read the answer of the server. Correct the arguments, and run it again.")),
        answer: Some(ShownValue::lines(&preview_text(&answer))),
    }
}

fn refused(code: &str, message: &str, server: &ServerName) -> RunFailure {
    let next_step = next_step(code, server);
    let sentence = ended(&format!("{} Nothing was sent to the server.", full_stop(&advice::in_a_line(code, message))));
    RunFailure { word: "refused", sentence, code: None, next_step, answer: None }
}

fn ended(text: &str) -> Visible {
    line(&full_stop(text), MESSAGE_CHARS)
}

/// Makes a sentence of an error, which has neither a capital letter nor a full stop.
fn full_stop(text: &str) -> String {
    let text = text.trim();
    let mut letters = text.chars();
    let begin = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.is_empty() || text.ends_with(['.', '!', '?', '”']) { "" } else { "." };
    format!("{begin}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(result: DryRunResult) -> RunFailure {
        let server = ServerName::parse("fx").unwrap();
        Ran::new(&DryRunReport { record: None, result }, "ci", &server).failure.unwrap()
    }

    #[test]
    fn failures_say_what_to_do_next() {
        let text = |text: &str| Some(Untrusted::new(text));
        let check = |result: DryRunResult, sentence: &str, step: &str| {
            let failure = failure(result);
            assert_eq!((failure.sentence.to_string().as_str(), failure.next_step.as_deref()), (sentence, Some(step)));
        };
        check(
            DryRunResult::Refused {
                code: Untrusted::new("permission_denied"),
                message: Untrusted::new("Agent 'ci' has no permission. Tell the user that it is missing."),
            },
            "Agent &#39;ci&#39; has no permission. Nothing was sent to the server.",
            "Choose another agent, or change the token of this one on the page Agents.",
        );
        check(
            DryRunResult::Failed { code: text("upstream_busy"), message: text("the server is busy"), answer: None },
            "The server is busy.",
            "Run it again later.",
        );
        let answer = text(r#"{"content":[{"type":"text","text":"<script>alert(1)</script>\u202e"}],"isError":true}"#);
        let of_server = DryRunResult::Failed { code: text("<b>"), message: None, answer };
        let failed = failure(of_server);
        assert_eq!(failed.code.unwrap().to_string(), "&lt;b&gt;");
        let answer = failed.answer.unwrap().short.to_string();
        assert!(answer.contains("&lt;script&gt;") && answer.contains("U+202E"), "{answer}");
    }
}
