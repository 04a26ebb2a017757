//! Data that leaves: secrets, the conversation, personal data, and the addresses they go to.

use super::{LEAKS, PRIVATE, Rule, any, near, rule, then};
use crate::trust::scan::concept::Concept::*;

pub(super) const RULES: &[Rule] = &[
    rule(
        "collects-private",
        4,
        any(&[Supply, Carry]),
        &[then(30, &[All]), then(40, &[Conversation, ToolData, Personal, Environment])],
        "asks for data that the call does not need",
    )
    .positive(),
    rule(
        "collects-private",
        4,
        any(&[Supply, Carry]),
        &[then(60, &[SecretPath, SecretCommand])],
        "asks for secrets of the machine",
    )
    .positive(),
    rule(
        "collects-private",
        4,
        any(&[Parameter]),
        &[near(80, LEAKS), near(80, &[Supply, Carry, All, Always])],
        "fills a parameter with private data",
    )
    .positive(),
    rule(
        "collects-private",
        4,
        any(&[Supply, Carry, Send]),
        &[then(50, LEAKS), near(90, &[Parameter, User, You])],
        "asks for data that the call does not need",
    )
    .positive(),
    rule(
        "collects-private",
        4,
        any(&[Secret]),
        &[
            near(80, &[Supply, Send, Carry, Read]),
            near(80, &[Parameter]),
            near(90, &[You, All, Prior, OtherTools, ToolData]),
        ],
        "fills a parameter with a secret",
    ),
    rule("collects-secret", 3, any(&[Supply, Carry]), &[then(50, &[Secret])], "asks for a secret").positive(),
    rule(
        "reads-secrets",
        4,
        any(&[Read]),
        &[then(40, &[Secret]), then(80, &[Send, Supply])],
        "asks to read secrets and to pass them on",
    )
    .positive()
    .unless(&[Detection, Example]),
    rule(
        "reads-secrets",
        5,
        any(&[Read]),
        &[then(50, &[SecretPath, SecretCommand])],
        "asks to read files with secrets",
    )
    .positive()
    .unless(&[Detection, Example]),
    rule("secret-path", 2, any(&[SecretPath, SecretCommand]), &[], "names a place of secrets"),
    rule(
        "secret-use",
        4,
        any(&[SecretPath, SecretCommand]),
        &[near(60, &[Read, Send, Supply, Call, Carry])],
        "works with a place of secrets",
    )
    .unless(&[Detection, Example]),
    rule("secret-out", 4, any(&[Secret]), &[near(50, &[Send])], "moves a secret").unless(&[Detection, Example]),
    rule(
        "secret-out",
        4,
        any(&[Secret]),
        &[near(60, &[Parameter]), near(60, &[Supply, Carry]), near(80, &[User, You, Prior, Model, All])],
        "moves a secret",
    ),
    rule("secret-out", 2, any(&[Secret]), &[near(40, &[You, Prior, Model])], "moves a secret"),
    rule("sends-private", 4, any(&[Send]), &[then(40, PRIVATE)], "sends private data").positive(),
    rule("sends-out", 2, any(&[Send, Supply]), &[then(70, &[Url, Mail])], "sends data to an address"),
    rule("contacts", 4, any(&[Send]), &[near(70, &[Url, Mail])], "contacts an address"),
    rule("planted-address", 4, any(&[Mail]), &[], "has a mail address in its text").unless(&[Detection, Example]),
    rule(
        "adds-recipient",
        4,
        any(&[Always, All, Supply, Alter]),
        &[then(60, &[Mail]), near(90, &[Recipient])],
        "adds a recipient",
    ),
    rule(
        "captures",
        4,
        any(&[Capture]),
        &[near(70, &[Sensitive]), near(140, &[Remote])],
        "records sensitive data elsewhere",
    )
    .positive(),
    rule("sensitive-flow", 4, any(&[Sensitive]), &[near(60, &[Capture, Send])], "records sensitive data")
        .unless(&[Detection]),
    rule(
        "personal-flow",
        4,
        any(&[Personal]),
        &[near(60, &[Supply, Send, Parameter, Carry, Capture])],
        "asks for personal data",
    ),
    rule(
        "wants-conversation",
        4,
        any(&[Conversation, ToolData]),
        &[near(60, &[Supply, Send, Carry, Parameter])],
        "asks for the conversation",
    )
    .positive(),
    rule(
        "wants-conversation",
        4,
        any(&[Talk]),
        &[near(25, &[All]), near(60, &[Supply, Send, Carry]), near(90, &[Parameter, You, User, Url, Mail, ThisTool])],
        "asks for the conversation",
    )
    .positive(),
    rule(
        "wants-conversation",
        4,
        any(&[Send]),
        &[then(30, &[Talk]), near(80, &[ThisTool, Url, Mail, Model])],
        "sends the conversation",
    )
    .positive(),
];
