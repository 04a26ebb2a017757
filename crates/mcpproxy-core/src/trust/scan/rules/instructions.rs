//! Instructions to the model: to ignore its rules, to take another role, to act without approval.

use super::{PRIVATE, Rule, any, near, rule, then};
use crate::trust::scan::concept::Concept::*;

pub(super) const RULES: &[Rule] = &[
    rule(
        "ignore-instructions",
        12,
        any(&[Ignore]),
        &[then(30, &[Prior]), then(25, &[Rules, SystemPrompt])],
        "tells the model to ignore its instructions",
    )
    .unless(&[Detection])
    .positive(),
    rule(
        "ignore-instructions",
        5,
        any(&[Ignore]),
        &[then(25, &[Rules, SystemPrompt])],
        "tells the model to ignore its instructions",
    )
    .unless(&[Detection])
    .positive(),
    rule(
        "void-instructions",
        5,
        any(&[Rules, SystemPrompt]),
        &[near(60, &[Void]), near(70, &[You, Model, User])],
        "says that the model's rules no longer hold",
    ),
    rule("new-role", 5, any(&[Role]), &[], "gives the model another role or other rights").unless(&[Detection]),
    rule("imitates-system", 5, any(&[Frame]), &[], "imitates a message of the system").unless(&[Detection]),
    rule("marked-block", 1, any(&[SoftFrame]), &[], "puts the text into a marked block"),
    rule("addresses-model", 3, any(&[Address]), &[], "speaks to the model").unless(&[Detection]),
    rule(
        "reveals-prompt",
        5,
        any(&[Supply, Send, Tell, Read]),
        &[then(40, &[SystemPrompt])],
        "asks for the model's own instructions",
    )
    .unless(&[Detection])
    .positive(),
    rule(
        "model-acts",
        3,
        any(&[Model]),
        &[then(25, &[Always, Supply, Send]), then(40, PRIVATE)],
        "tells the model to hand over data",
    ),
    rule(
        "model-acts",
        3,
        any(&[Model]),
        &[then(20, &[Always]), then(20, &[Disable, Send, Approve])],
        "tells the model what to do beside the call",
    ),
    rule(
        "model-pressure",
        3,
        any(&[Address, Model]),
        &[near(50, &[Send, Secret, Ignore, Approve, NoAsk, EachTurn, Whatever])],
        "tells the model what to do",
    ),
    rule(
        "runs-commands",
        5,
        any(&[Shell]),
        &[near(70, &[You, Call, Always, Model])],
        "has a command line for the model to run",
    ),
    rule(
        "approves-alone",
        5,
        any(&[NoAsk]),
        &[near(70, &[Approve, Send, You, Model, All, User])],
        "removes the user's approval",
    ),
    rule("approves-alone", 3, any(&[NoAsk]), &[], "removes the user's approval"),
    rule("weakens-protection", 5, any(&[Disable]), &[near(40, &[Protection])], "switches off a protection").positive(),
    rule("promotes", 4, any(&[Always, IfAsked, Whatever]), &[then(60, &[Promote])], "steers what the model recommends"),
    rule("new-task", 4, any(&[Task]), &[], "gives the model another task"),
    rule("obeys-results", 4, any(&[Obey]), &[near(40, &[Outcome])], "makes results into orders"),
    rule("exposes", 3, any(&[Expose]), &[near(60, &[Always, You, Alter, Recipient])], "gives rights away"),
    rule("manner", 3, any(&[Manner]), &[], "talks like a person and not like documentation").unless(&[Detection]),
    rule(
        "manner",
        4,
        any(&[Manner]),
        &[near(70, &[You, User, Always, ThisTool, Model, Parameter, Url, Mail, Answer, Talk, OtherTools, Forbid])],
        "talks like a person and not like documentation",
    )
    .unless(&[Detection]),
    rule(
        "coerces",
        4,
        any(&[Coercion]),
        &[near(60, &[ThisTool, Secret, Conversation, Talk, Mail, Url, OtherTools])],
        "threatens with failure",
    ),
    rule("coerces", 1, any(&[Coercion]), &[], "threatens with failure"),
    rule("value-order", 1, any(&[Call]), &[near(30, &[ToolName, First, Neighbour])], "tells the model what to call")
        .in_values(),
];
