//! The decision on a call that was not made, in sentences.

use mcpproxy_core::decision::{Explanation, Ruling, Verdict};
use mcpproxy_core::policy::Outcome;
use mcpproxy_core::{Denial, Variant};
use mcpproxy_gateway::PolicyResult;

use crate::ui::pages::activity::advice;
use crate::visible::Visible;

pub(crate) struct Explained {
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) checks: Vec<CheckRow>,
    pub(crate) policies: Vec<PolicyRow>,
    pub(crate) remarks: Vec<String>,
}

pub(crate) struct CheckRow {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) word: &'static str,
    pub(crate) why: Visible,
    pub(crate) has_decided: bool,
}

pub(crate) struct PolicyRow {
    pub(crate) id: Visible,
    pub(crate) place: Visible,
    pub(crate) words: Visible,
}

impl Explained {
    pub(crate) fn new(
        explanation: Explanation,
        policies: Vec<PolicyResult>,
        variant: Variant,
        is_dry_run: bool,
        is_forbidden: bool,
    ) -> Self {
        let ruling = explanation.denial().map_or(Ruling::Allow, ruling);
        let (class, icon, heading) = outcome(&ruling, is_dry_run);
        let decided = explanation.findings.iter().find(|finding| matches!(finding.verdict, Verdict::Failed(_)));
        let decided = decided.map(|finding| format!("The check “{}” decided.", finding.check));
        let mut remarks: Vec<String> = decided.into_iter().collect();
        if is_forbidden {
            let sentence = "The tool is forbidden. Agents get the same answer as for a tool that does not exist.";
            remarks.push(sentence.to_owned());
        }
        if let Some(right) = explanation.call_with.filter(|right| *right != variant && ruling != Ruling::Allow) {
            remarks.push(format!("Agents call this tool with {}.", right.tool()));
        }
        if explanation.is_verified == Some(false) {
            let sentence = "The server’s annotations do not confirm the variant. The record of the call would say so.";
            remarks.push(sentence.to_owned());
        }
        Self {
            class,
            icon,
            heading,
            checks: explanation.findings.into_iter().map(|finding| check(finding.check, finding.verdict)).collect(),
            policies: policies.into_iter().map(policy).collect(),
            remarks,
        }
    }
}

/// Returns the ruling of a refusal. A call that needs an approval is refused only here, where no user is asked.
fn ruling(denial: &Denial) -> Ruling {
    match denial {
        Denial::ConfirmationRequired { needs_step_up: true, .. } => Ruling::StepUp,
        Denial::ConfirmationRequired { .. } => Ruling::Ask,
        other => Ruling::of_denial(other),
    }
}

fn outcome(ruling: &Ruling, is_dry_run: bool) -> (&'static str, &'static str, &'static str) {
    match ruling {
        Ruling::Allow if is_dry_run => ("good", "check", "This dry run would be made."),
        Ruling::Allow => ("good", "check", "This call would run without asking anyone."),
        Ruling::Ask => ("warn", "clock", "This call would wait until a user approves it."),
        Ruling::StepUp => ("warn", "key", "This call would wait until a user approves it with a second factor."),
        Ruling::DryRunRequired => ("bad", "x", "This call would be refused. The agent has to make a dry run first."),
        Ruling::NotFound => ("bad", "x", "This call would be refused. The agent cannot see such a tool."),
        Ruling::Deny(_) => ("bad", "x", "This call would be refused."),
    }
}

fn check(name: &'static str, verdict: Verdict) -> CheckRow {
    let (class, icon, word, why, has_decided) = match verdict {
        Verdict::Passed(why) => ("ok", "check", "Passed", why, false),
        Verdict::Warned(warnings) => {
            let messages: Vec<String> = warnings.into_iter().map(|warning| warning.message).collect();
            ("waiting", "medium", "Warned", messages.join("; "), false)
        }
        Verdict::Failed(denial) if ruling(&denial).is_refusal() => {
            ("refused", "x", "Refused here", advice::why(&denial), true)
        }
        Verdict::Failed(denial) => ("waiting", "clock", "Asks a user", advice::why(&denial), true),
        Verdict::NotReached => ("later", "clock", "Not reached", String::new(), false),
    };
    CheckRow { name, class, icon, word, why: Visible::of(&why), has_decided }
}

fn policy(result: PolicyResult) -> PolicyRow {
    let PolicyResult { policy, file, line, message, outcome } = result;
    let words = match outcome {
        Outcome::Forbids => "It forbids the call.".to_owned(),
        Outcome::Failed(reason) => format!("It could not be evaluated, so it forbids the call: {reason}"),
        Outcome::NotMet => "Its condition is not met.".to_owned(),
        Outcome::OtherAgent => "It is about another agent.".to_owned(),
        Outcome::OtherVariant => "It is about another variant.".to_owned(),
    };
    let message = message.map(|message| format!(" “{message}”")).unwrap_or_default();
    PolicyRow {
        id: Visible::of(&policy),
        place: Visible::of(&format!("{file}:{line}")),
        words: Visible::of(&format!("{words}{message}")),
    }
}
