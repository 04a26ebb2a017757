//! The rules about wording: which concepts, close to each other, are a sign of an instruction to the model.
//!
//! A lone word is no sign: hundreds of honest tools say "must" and "always". Each rule has a weight. The weights of the
//! rules that match in three consecutive sentences add up, and the sum is the severity.

use super::concept::Concept::{self, *};
use super::concept::Concepts;

/// A sum of at least this is severity low, medium or high.
pub(super) const LOW: u16 = 2;
pub(super) const MEDIUM: u16 = 4;
pub(super) const HIGH: u16 = 12;

/// A concept that must follow, or stand near, the first one.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) any: Concepts,
    /// Bytes between this word and the previous one, or the first one.
    pub(super) gap: usize,
    /// May also stand before the first word.
    pub(super) is_around: bool,
}

pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) weight: u16,
    pub(super) first: Concepts,
    pub(super) steps: &'static [Step],
    /// Does not match in a sentence with one of these.
    pub(super) unless: Concepts,
    /// Does not match right after a negation: "never reads ~/.ssh".
    pub(super) is_positive: bool,
    /// Continues "The text …".
    pub(super) reason: &'static str,
}

const fn any(concepts: &'static [Concept]) -> Concepts {
    Concepts::of(concepts)
}

/// The concept follows within this many bytes.
const fn then(gap: usize, concepts: &'static [Concept]) -> Step {
    Step { any: Concepts::of(concepts), gap, is_around: false }
}

/// The concept stands within this many bytes before or after the first word.
const fn near(gap: usize, concepts: &'static [Concept]) -> Step {
    Step { any: Concepts::of(concepts), gap, is_around: true }
}

const fn rule(id: &'static str, weight: u16, first: Concepts, steps: &'static [Step], reason: &'static str) -> Rule {
    Rule { id, weight, first, steps, unless: Concepts::NONE, is_positive: false, reason }
}

impl Rule {
    const fn unless(mut self, concepts: &'static [Concept]) -> Self {
        self.unless = Concepts::of(concepts);
        self
    }

    const fn positive(mut self) -> Self {
        self.is_positive = true;
        self
    }
}

/// What nobody hands to a tool without reason.
const PRIVATE: &[Concept] = &[Conversation, SystemPrompt, Secret, SecretPath, Environment, ToolData, Personal, SecretCommand];

/// Private data that no honest tool has a parameter for.
const LEAKS: &[Concept] = &[Conversation, SystemPrompt, ToolData, Personal, SecretPath, SecretCommand];

pub(super) const RULES: &[Rule] = &[
    // Instructions to the model.
    rule("ignore-instructions", 12, any(&[Ignore]), &[then(30, &[Prior]), then(25, &[Rules, SystemPrompt])], "tells the model to ignore its instructions").unless(&[Detection]).positive(),
    rule("ignore-instructions", 5, any(&[Ignore]), &[then(25, &[Rules, SystemPrompt])], "tells the model to ignore its instructions").unless(&[Detection]).positive(),
    rule("void-instructions", 5, any(&[Rules, SystemPrompt]), &[near(60, &[Void]), near(70, &[You, Model, User])], "says that the model's rules no longer hold"),
    rule("new-role", 5, any(&[Role]), &[], "gives the model another role or other rights").unless(&[Detection]),
    rule("imitates-system", 5, any(&[Frame]), &[], "imitates a message of the system").unless(&[Detection]),
    rule("marked-block", 1, any(&[SoftFrame]), &[], "puts the text into a marked block"),
    rule("addresses-model", 3, any(&[Address]), &[], "speaks to the model").unless(&[Detection]),
    rule("reveals-prompt", 5, any(&[Supply, Send, Tell, Read]), &[then(40, &[SystemPrompt])], "asks for the model's own instructions").unless(&[Detection]).positive(),
    rule("model-acts", 3, any(&[Model]), &[then(25, &[Always, Supply, Send]), then(40, PRIVATE)], "tells the model to hand over data"),
    rule("model-acts", 3, any(&[Model]), &[then(20, &[Always]), then(20, &[Disable, Send, Approve])], "tells the model what to do beside the call"),
    rule("runs-commands", 5, any(&[Shell]), &[near(70, &[You, Call, Always, Model])], "has a command line for the model to run"),
    rule("approves-alone", 5, any(&[NoAsk]), &[near(70, &[Approve, Send, You, Model, All, User])], "removes the user's approval"),
    rule("weakens-protection", 5, any(&[Disable]), &[near(40, &[Protection])], "switches off a protection").positive(),
    rule("promotes", 4, any(&[Always, IfAsked, Whatever]), &[then(60, &[Promote])], "steers what the model recommends"),
    // Secrecy.
    rule("hides-from-user", 5, any(&[Negation]), &[then(25, &[Tell]), then(45, &[User])], "keeps something from the user"),
    rule("hides-from-user", 5, any(&[User]), &[then(25, &[Negation]), then(25, &[Learn])], "says that the user must not learn of something"),
    rule("hides-from-user", 5, any(&[Hide]), &[near(50, &[User])], "hides something from the user").positive(),
    rule("acts-secretly", 4, any(&[Secretly]), &[], "asks for something to happen unseen"),
    rule("omits-from-answer", 4, any(&[Omit]), &[near(40, &[Answer])], "leaves something out of what the user reads"),
    rule("not-mentioned", 4, any(&[Forbid]), &[then(15, &[Tell])], "asks the model not to mention something"),
    rule("pretends", 4, any(&[IfAsked]), &[then(60, &[Pretend])], "gives the model an excuse"),
    rule("pretends", 2, any(&[Pretend]), &[], "asks the model to pretend"),
    // Data that leaves.
    rule("collects-private", 4, any(&[Supply, Carry]), &[then(30, &[All]), then(40, &[Conversation, ToolData, Personal, Environment])], "asks for data that the call does not need").positive(),
    rule("collects-private", 4, any(&[Supply, Carry]), &[then(60, &[SecretPath, SecretCommand])], "asks for secrets of the machine").positive(),
    rule("collects-private", 4, any(&[Parameter]), &[near(80, LEAKS), near(80, &[Supply, Carry, All, Always])], "fills a parameter with private data").positive(),
    rule("collects-private", 4, any(&[Supply, Carry, Send]), &[then(50, LEAKS), near(90, &[Parameter, User, You])], "asks for data that the call does not need").positive(),
    rule("collects-private", 4, any(&[Secret]), &[near(80, &[Supply, Send, Carry, Read]), near(80, &[Parameter]), near(90, &[You, All, Prior, OtherTools, ToolData])], "fills a parameter with a secret"),
    rule("reads-secrets", 4, any(&[Read]), &[then(40, &[Secret]), then(80, &[Send, Supply])], "asks to read secrets and to pass them on").positive().unless(&[Detection]),
    rule("collects-secret", 3, any(&[Supply, Carry]), &[then(50, &[Secret])], "asks for a secret").positive(),
    rule("sends-private", 4, any(&[Send]), &[then(40, PRIVATE)], "sends private data").positive(),
    rule("sends-out", 2, any(&[Send, Supply]), &[then(70, &[Url, Mail])], "sends data to an address"),
    rule("adds-recipient", 4, any(&[Always, All, Supply, Alter]), &[then(60, &[Mail]), near(90, &[Recipient])], "adds a recipient"),
    rule("reads-secrets", 5, any(&[Read]), &[then(50, &[SecretPath, SecretCommand])], "asks to read files with secrets").positive().unless(&[Detection]),
    rule("secret-path", 2, any(&[SecretPath, SecretCommand]), &[], "names a place of secrets"),
    rule("captures", 4, any(&[Capture]), &[near(70, &[Sensitive]), near(140, &[Remote])], "records sensitive data elsewhere").positive(),
    // Order and preference.
    rule("comes-first", 3, any(&[Call]), &[then(20, &[ThisTool]), then(40, &[First])], "wants to be called first").unless(&[OwnServer]),
    rule("comes-first", 4, any(&[Always, Whatever, EachTurn]), &[then(30, &[Call]), then(20, &[ThisTool]), then(40, &[First])], "wants to be called first").unless(&[OwnServer]),
    rule("comes-first", 4, any(&[ThisTool]), &[near(60, &[BeforeAll])], "wants to be called before all others").unless(&[OwnServer]),
    rule("every-turn", 4, any(&[EachTurn, Whatever]), &[near(60, &[ThisTool])], "wants to be called in every turn"),
    rule("outranks", 4, any(&[Precedence, Exclusive]), &[near(70, &[OtherTools])], "places itself above other tools"),
    // Pairs that honest tools hardly ever have in one sentence.
    rule("other-tools", 4, any(&[OtherTools]), &[near(60, &[Whatever, Broken, Forbid, Recipient, Precedence, Exclusive, EachTurn, Mail, Url, NoAsk])], "speaks about other tools").unless(&[OwnServer]),
    rule("other-tools", 2, any(&[OtherTools]), &[near(50, &[You, Send, Alter, Call, ThisTool])], "speaks about other tools").unless(&[OwnServer]),
    rule("wants-conversation", 4, any(&[Conversation, ToolData]), &[near(60, &[Supply, Send, Carry, Parameter])], "asks for the conversation").positive(),
    rule("wants-conversation", 4, any(&[Talk]), &[near(25, &[All]), near(60, &[Supply, Send, Carry]), near(90, &[Parameter, You, User, Url, Mail, ThisTool])], "asks for the conversation").positive(),
    rule("wants-conversation", 4, any(&[Send]), &[then(30, &[Talk]), near(80, &[ThisTool, Url, Mail, Model])], "sends the conversation").positive(),
    rule("secret-use", 4, any(&[SecretPath, SecretCommand]), &[near(60, &[Read, Send, Supply, Call, Carry])], "works with a place of secrets").unless(&[Detection]),
    rule("secret-out", 4, any(&[Secret]), &[near(50, &[Send])], "moves a secret").unless(&[Detection]),
    rule("secret-out", 4, any(&[Secret]), &[near(60, &[Parameter]), near(60, &[Supply, Carry]), near(80, &[User, You, Prior, Model, All])], "moves a secret"),
    rule("secret-out", 2, any(&[Secret]), &[near(40, &[You, Prior, Model])], "moves a secret"),
    rule("contacts", 4, any(&[Send]), &[near(70, &[Url, Mail])], "contacts an address"),
    rule("planted-address", 4, any(&[Mail]), &[], "has a mail address in its text").unless(&[Detection]),
    rule("call-pressure", 4, any(&[EachTurn, Whatever, BeforeAll]), &[near(50, &[Call, ThisTool, Model])], "presses to be called").unless(&[OwnServer]),
    rule("answer-steering", 4, any(&[Answer]), &[near(50, &[Hide, Omit, Pretend, Secretly])], "changes what the user reads"),
    rule("answer-steering", 2, any(&[Answer]), &[near(50, &[Forbid, Always])], "changes what the user reads"),
    rule("model-pressure", 3, any(&[Address, Model]), &[near(50, &[Send, Secret, Ignore, Approve, NoAsk, EachTurn, Whatever])], "tells the model what to do"),
    rule("approves-alone", 3, any(&[NoAsk]), &[], "removes the user's approval"),
    rule("new-task", 4, any(&[Task]), &[], "gives the model another task"),
    rule("obeys-results", 4, any(&[Obey]), &[near(40, &[Outcome])], "makes results into orders"),
    rule("exposes", 3, any(&[Expose]), &[near(60, &[Always, You, Alter, Recipient])], "gives rights away"),
    rule("sensitive-flow", 4, any(&[Sensitive]), &[near(60, &[Capture, Send])], "records sensitive data"),
    rule("personal-flow", 4, any(&[Personal]), &[near(60, &[Supply, Send, Parameter, Carry, Capture])], "asks for personal data"),
    rule("tool-side", 3, any(&[ToolName, Neighbour]), &[near(30, &[WhenUsing, Regarding]), near(70, &[Alter, Send, Recipient])], "changes how another tool is used"),
    rule("manner", 3, any(&[Manner]), &[], "talks like a person and not like documentation").unless(&[Detection]),
    rule("manner", 4, any(&[Manner]), &[near(70, &[You, User, Always, ThisTool, Model, Parameter, Url, Mail, Answer, Talk, OtherTools, Forbid])], "talks like a person and not like documentation").unless(&[Detection]),
    rule("hides", 3, any(&[Hide]), &[], "hides something").positive(),
    rule("coerces", 4, any(&[Coercion]), &[near(60, &[ThisTool, Secret, Conversation, Talk, Mail, Url, OtherTools])], "threatens with failure"),
    // Other tools.
    rule("steers-tool", 4, any(&[WhenUsing]), &[near(30, &[ToolName, Neighbour, OtherTools]), near(80, &[Alter]), near(110, &[Always, Mail, Url, Recipient])], "changes how another tool is used"),
    rule("steers-tool", 4, any(&[ToolName, Neighbour]), &[near(40, &[WhenUsing]), near(100, &[Alter, Send]), near(100, &[ThisTool, Mail, Url, Recipient, Always])], "changes how another tool is used"),
    rule("steers-tool", 4, any(&[ToolName, Neighbour]), &[near(60, &[Broken]), near(100, &[Alter, Call, ThisTool])], "calls another tool broken and changes how it is used"),
    rule("steers-tool", 4, any(&[OtherTools]), &[near(70, &[Send, Alter]), near(100, &[Mail, Url, Recipient, Conversation])], "changes what other tools do"),
    rule("replaces-tool", 4, any(&[Instead, Broken]), &[near(40, &[ToolName, Neighbour, OtherTools]), near(80, &[ThisTool])], "takes the place of another tool"),
    rule("names-neighbour", 4, any(&[Neighbour]), &[], "refers to a tool of another server"),
    rule("coerces", 1, any(&[Coercion]), &[], "threatens with failure"),
];

/// Concepts that, in one sentence of another language than English, are a sign. Word order differs, so only their
/// company counts.
pub(super) const FOREIGN: &[(&str, u16, Concepts, &str)] = &[
    ("ignore-instructions", 12, any(&[Ignore, Prior, Rules]), "tells the model to ignore its instructions"),
    ("ignore-instructions", 5, any(&[Ignore, Rules]), "tells the model to ignore its instructions"),
    ("hides-from-user", 5, any(&[Negation, Tell, User]), "keeps something from the user"),
    ("hides-from-user", 5, any(&[Hide, User]), "hides something from the user"),
    ("acts-secretly", 4, any(&[Hide, Send]), "asks for something to happen unseen"),
    ("not-mentioned", 4, any(&[Negation, Tell]), "asks the model not to mention something"),
    ("reads-secrets", 5, any(&[Read, SecretPath]), "asks to read files with secrets"),
    ("reads-secrets", 4, any(&[Read, Secret]), "asks to read secrets"),
    ("sends-private", 5, any(&[Send, Secret]), "sends private data"),
    ("sends-private", 5, any(&[Send, Conversation]), "sends the conversation"),
    ("sends-private", 4, any(&[Supply, Conversation, Always]), "asks for the conversation"),
    ("sends-private", 4, any(&[Supply, Secret]), "asks for a secret"),
    ("collects-private", 4, any(&[Before, Read, File]), "asks to read a file before the call"),
    ("comes-first", 5, any(&[Call, ThisTool, First]), "wants to be called before all others"),
    ("comes-first", 5, any(&[Call, OtherTools, Before]), "wants to be called before all others"),
    ("comes-first", 4, any(&[Call, ThisTool, Always]), "wants to be called always"),
    ("adds-recipient", 5, any(&[Recipient, Supply]), "adds a recipient"),
];
