//! Turns the text of one statement into a policy that can be evaluated.

use std::str::FromStr;
use std::sync::Arc;

use cedar_policy::{Expression, PolicyId, PolicySet, ValidationMode};

use super::Policy;
use super::mistake::{Fault, of_syntax, of_validation};
use super::scan::{Kind, Statement, Token};
use super::scope::Scope;
use super::vocabulary::Vocabulary;
use super::words;
use crate::{Untrusted, nearest};

const ID_MAX_CHARS: usize = 64;
const MESSAGE_MAX_CHARS: usize = 300;
const ANNOTATIONS: [&str; 2] = ["id", "message"];
/// Depth of attribute access: attributes of the four variables are allowed, those of other entities are not.
const LEVEL: u32 = 1;

/// The inputs that a condition reads. Others are not built for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    pub(super) principal: bool,
    pub(super) now: bool,
    pub(super) time: bool,
}

impl Mentions {
    pub(super) fn and(self, other: Self) -> Self {
        Self { principal: self.principal || other.principal, now: self.now || other.now, time: self.time || other.time }
    }
}

/// A statement whose annotations and `forbid` have been read.
struct Head<'s, 't> {
    /// Byte offset of the value of `@id`. `message_at` is that of `@message`.
    id_at: Option<usize>,
    message_at: usize,
    body: &'s [Token<'t>],
}

/// Reads one policy. Also returns the byte offset of its `@id`, if it has one.
pub(super) fn policy(
    file: &Arc<str>,
    statement: &Statement<'_>,
    vocabulary: &Vocabulary,
) -> Result<(Policy, Option<usize>), Vec<Fault>> {
    let head = head(statement).map_err(|fault| vec![fault])?;
    let faults = words::check(statement);
    if !faults.is_empty() {
        // Some of these are expensive to evaluate, so Cedar does not get them.
        return Err(faults);
    }
    let policy = cedar_policy::Policy::parse(Some(PolicyId::new("policy")), statement.text);
    let policy = policy.map_err(|errors| of_syntax(&errors, statement.at))?;
    let id = policy.annotation("id").map_or_else(|| place(file, statement.line), str::to_owned);
    let message = policy.annotation("message").map(|text| Untrusted::new(text).for_terminal().into_owned());
    let mut faults = annotation_faults(&head, &id, message.as_deref());
    faults.extend(validation_faults(&policy, statement.at, vocabulary));
    if !faults.is_empty() {
        return Err(faults);
    }
    let broken = |message: &str| vec![Fault { at: statement.at, message: message.to_owned() }];
    let scope = Scope::of(&policy, vocabulary).ok_or_else(|| broken("this policy applies to no tool"))?;
    let condition = conditions(&head, statement).as_deref().map(Expression::from_str).transpose();
    let condition = condition.map_err(|_| broken("the condition of this policy cannot be read"))?;
    let mentions = mentions(head.body);
    let (file, line, text) = (Arc::clone(file), statement.line, statement.text.to_owned());
    Ok((Policy { id, file, line, message, text, order: 0, scope, condition, mentions }, head.id_at))
}

/// Returns the name of a policy without an `@id`. Agents can read it.
fn place(file: &str, line: usize) -> String {
    format!("{}:{line}", Untrusted::shortened(file, ID_MAX_CHARS).for_terminal())
}

fn annotation_faults(head: &Head<'_, '_>, id: &str, message: Option<&str>) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(at) = head.id_at
        && !is_id(id)
    {
        let message = format!("@id takes 1 to {ID_MAX_CHARS} letters, digits, `_`, `.` and `-`");
        faults.push(Fault { at, message });
    }
    if message.is_some_and(|text| text.is_empty() || text.chars().count() > MESSAGE_MAX_CHARS) {
        let message = format!("@message takes 1 to {MESSAGE_MAX_CHARS} characters");
        faults.push(Fault { at: head.message_at, message });
    }
    faults
}

fn validation_faults(policy: &cedar_policy::Policy, start: usize, vocabulary: &Vocabulary) -> Vec<Fault> {
    match PolicySet::from_policies([policy.clone()]) {
        Ok(alone) => {
            let result = vocabulary.validator.validate_with_level(&alone, ValidationMode::Strict, LEVEL);
            of_validation(&result, start)
        }
        Err(error) => vec![Fault { at: start, message: error.to_string() }],
    }
}

fn is_id(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    !text.is_empty() && text.chars().count() <= ID_MAX_CHARS && text.chars().all(fits)
}

fn head<'s, 't>(statement: &'s Statement<'t>) -> Result<Head<'s, 't>, Fault> {
    let mut rest = statement.tokens.as_slice();
    let mut seen: Vec<&str> = Vec::new();
    let (mut id_at, mut message_at) = (None, statement.at);
    while let [at, name, after @ ..] = rest
        && at.is_sign("@")
    {
        let known = ANNOTATIONS.into_iter().find(|known| name.is_word(known));
        let Some(known) = known else { return Err(unknown_annotation(name)) };
        let [open, value, close, after @ ..] = after else { return Err(annotation_without_text(name)) };
        if !(open.is_sign("(") && value.kind == Kind::Text && close.is_sign(")")) {
            return Err(annotation_without_text(name));
        }
        if seen.contains(&known) {
            return Err(Fault { at: at.at, message: format!("@{known} is given twice") });
        }
        seen.push(known);
        match known {
            "id" => id_at = Some(value.at),
            _ => message_at = value.at,
        }
        rest = after;
    }
    let [effect, body @ ..] = rest else {
        return Err(Fault { at: statement.at, message: "expected forbid (principal, action, resource)".to_owned() });
    };
    if effect.is_word("permit") {
        let message =
            "permit has no effect: mcpproxy allows every call that no policy forbids; write forbid (…) unless { … }";
        return Err(Fault { at: effect.at, message: message.to_owned() });
    }
    if !effect.is_word("forbid") {
        let found = Untrusted::shortened(effect.text, 64);
        let message = format!("expected forbid (principal, action, resource), found `{}`", found.for_terminal());
        return Err(Fault { at: effect.at, message });
    }
    body_is_sound(body)?;
    Ok(Head { id_at, message_at, body })
}

fn body_is_sound(body: &[Token<'_>]) -> Result<(), Fault> {
    let starts_again = |token: &&Token<'_>| {
        token.depth == 0 && (token.is_sign("@") || token.is_word("forbid") || token.is_word("permit"))
    };
    if let Some(next) = body.iter().find(starts_again) {
        let message = "a new policy begins here, but the previous one has no end: add a `;`";
        return Err(Fault { at: next.at, message: message.to_owned() });
    }
    if let Some(slot) = body.iter().find(|token| token.is_sign("?")) {
        let message = "templates are not supported: name the agent or tool itself";
        return Err(Fault { at: slot.at, message: message.to_owned() });
    }
    Ok(())
}

fn unknown_annotation(name: &Token<'_>) -> Fault {
    let hint = nearest(name.text, ANNOTATIONS).map(|near| format!("; did you mean @{near}?")).unwrap_or_default();
    let shown = Untrusted::shortened(name.text, 64);
    let message = format!("unknown annotation @{}: only @id and @message are supported{hint}", shown.for_terminal());
    Fault { at: name.at, message }
}

fn annotation_without_text(name: &Token<'_>) -> Fault {
    Fault { at: name.at, message: format!("@{} needs text: @{}(\"…\")", name.text, name.text) }
}

/// Joins all `when` and `unless` clauses into one expression. Returns `None` if there are none.
fn conditions(head: &Head<'_, '_>, statement: &Statement<'_>) -> Option<String> {
    let mut text = String::new();
    let mut clauses = head.body.iter().filter(|token| token.depth == 0 || token.depth == 1 && token.is_sign("}"));
    while let Some(keyword) = clauses.by_ref().find(|token| token.is_word("when") || token.is_word("unless")) {
        let (open, close) = (clauses.next()?, clauses.next()?);
        let inner = statement.text.get(open.end() - statement.at..close.at - statement.at)?;
        let sign = if keyword.is_word("when") { "" } else { "!" };
        let joint = if text.is_empty() { "" } else { " && " };
        // The line break ends a comment at the end of the clause.
        text.push_str(&format!("{joint}{sign}({inner}\n)"));
    }
    (!text.is_empty()).then_some(text)
}

/// Finds the inputs that a condition reads. Attributes can also be named by a string, and an escaped string may name
/// any.
fn mentions(body: &[Token<'_>]) -> Mentions {
    let names = |word: &str| {
        body.iter().any(|token| match token.kind {
            Kind::Word => token.text == word,
            Kind::Text => token.text.contains('\\') || token.plain_text() == Some(word),
            Kind::Number | Kind::Sign => false,
        })
    };
    // The scope itself contains the word once.
    let principal = body.iter().filter(|token| token.is_word("principal")).count() > 1;
    Mentions { principal, now: names("now"), time: names("time") }
}
