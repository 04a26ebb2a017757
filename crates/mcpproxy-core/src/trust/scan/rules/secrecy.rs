//! Secrecy: what the user must not learn, and what the answer leaves out.

use super::{Rule, any, near, rule, then};
use crate::trust::scan::concept::Concept::*;

pub(super) const RULES: &[Rule] = &[
    rule(
        "hides-from-user",
        5,
        any(&[Negation]),
        &[then(25, &[Tell]), then(45, &[User])],
        "keeps something from the user",
    )
    .unless(&[Detection]),
    rule(
        "hides-from-user",
        5,
        any(&[User]),
        &[then(25, &[Negation]), then(25, &[Learn])],
        "says that the user must not learn of something",
    )
    .unless(&[Detection]),
    rule("hides-from-user", 5, any(&[Hide]), &[near(50, &[User])], "hides something from the user")
        .positive()
        .unless(&[Detection]),
    rule("hides", 3, any(&[Hide]), &[], "hides something").positive().unless(&[Detection]),
    rule("acts-secretly", 4, any(&[Secretly]), &[], "asks for something to happen unseen").unless(&[Detection]),
    rule("omits-from-answer", 4, any(&[Omit]), &[near(40, &[Answer])], "leaves something out of what the user reads"),
    rule(
        "answer-steering",
        4,
        any(&[Answer]),
        &[near(50, &[Hide, Omit, Pretend, Secretly])],
        "changes what the user reads",
    ),
    rule("answer-steering", 2, any(&[Answer]), &[near(50, &[Forbid, Always])], "changes what the user reads"),
    rule("not-mentioned", 4, any(&[Forbid]), &[then(15, &[Tell])], "asks the model not to mention something")
        .unless(&[Detection]),
    rule("pretends", 4, any(&[IfAsked]), &[then(60, &[Pretend])], "gives the model an excuse"),
    rule("pretends", 2, any(&[Pretend]), &[], "asks the model to pretend"),
    rule(
        "pretends",
        4,
        any(&[Pretend]),
        &[near(60, &[User]), near(60, &[Answer, Negation, Capture, Send, You])],
        "asks the model to mislead the user",
    ),
];
