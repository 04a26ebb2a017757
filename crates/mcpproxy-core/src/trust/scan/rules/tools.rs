//! Other tools: to come before them, to take their place, to change how they are used.

use super::{Rule, any, near, rule, then};
use crate::trust::scan::concept::Concept::*;

pub(super) const RULES: &[Rule] = &[
    rule("comes-first", 3, any(&[Call]), &[then(20, &[ThisTool]), then(40, &[First])], "wants to be called first")
        .unless(&[OwnServer]),
    rule(
        "comes-first",
        4,
        any(&[Always, Whatever, EachTurn]),
        &[then(30, &[Call]), then(20, &[ThisTool]), then(40, &[First])],
        "wants to be called first",
    )
    .unless(&[OwnServer]),
    rule("comes-first", 4, any(&[ThisTool]), &[near(60, &[BeforeAll])], "wants to be called before all others")
        .unless(&[OwnServer]),
    rule("every-turn", 4, any(&[EachTurn, Whatever]), &[near(60, &[ThisTool])], "wants to be called in every turn"),
    rule(
        "call-pressure",
        4,
        any(&[EachTurn, Whatever, BeforeAll]),
        &[near(50, &[Call, ThisTool, Model])],
        "presses to be called",
    )
    .unless(&[OwnServer]),
    rule("outranks", 4, any(&[Precedence, Exclusive]), &[near(70, &[OtherTools])], "places itself above other tools"),
    rule(
        "other-tools",
        4,
        any(&[OtherTools]),
        &[near(60, &[Whatever, Broken, Forbid, Recipient, Precedence, Exclusive, EachTurn, Mail, Url, NoAsk])],
        "speaks about other tools",
    )
    .unless(&[OwnServer]),
    rule(
        "other-tools",
        2,
        any(&[OtherTools]),
        &[near(50, &[You, Send, Alter, Call, ThisTool])],
        "speaks about other tools",
    )
    .unless(&[OwnServer]),
    rule(
        "steers-tool",
        4,
        any(&[WhenUsing]),
        &[near(30, &[ToolName, Neighbour, OtherTools]), near(80, &[Alter]), near(110, &[Always, Mail, Url, Recipient])],
        "changes how another tool is used",
    ),
    rule(
        "steers-tool",
        4,
        any(&[ToolName, Neighbour]),
        &[near(40, &[WhenUsing]), near(100, &[Alter, Send]), near(100, &[ThisTool, Mail, Url, Recipient, Always])],
        "changes how another tool is used",
    ),
    rule(
        "steers-tool",
        4,
        any(&[ToolName, Neighbour]),
        &[near(60, &[Broken]), near(100, &[Alter, Call, ThisTool])],
        "calls another tool broken and changes how it is used",
    ),
    rule(
        "steers-tool",
        4,
        any(&[OtherTools]),
        &[near(70, &[Send, Alter]), near(100, &[Mail, Url, Recipient, Conversation])],
        "changes what other tools do",
    ),
    rule(
        "tool-side",
        3,
        any(&[ToolName, Neighbour]),
        &[near(30, &[WhenUsing, Regarding]), near(70, &[Alter, Send, Recipient])],
        "changes how another tool is used",
    ),
    rule(
        "tool-address",
        4,
        any(&[ToolName, Neighbour]),
        &[near(90, &[Url, Mail]), near(60, &[WhenUsing, Regarding])],
        "sends what another tool handles to an address",
    ),
    rule(
        "replaces-tool",
        4,
        any(&[Instead, Broken]),
        &[near(40, &[ToolName, Neighbour, OtherTools]), near(80, &[ThisTool])],
        "takes the place of another tool",
    ),
    rule("names-neighbour", 4, any(&[Neighbour]), &[], "refers to a tool of another server"),
];
