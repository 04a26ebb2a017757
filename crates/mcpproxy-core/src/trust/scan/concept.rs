//! Concepts: meanings that words of any language stand for. Rules combine concepts, so that another wording or another
//! language needs new words in `data/scan/*.txt` and no new rule.

/// Defines the concepts, and their names in the lists of words.
macro_rules! concepts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One meaning, such as "to send" or "the user".
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Concept {
            $($(#[$doc])* $name,)*
        }

        impl Concept {
            /// Returns the concept with this name.
            pub(super) fn parse(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

concepts! {
    /// To ignore, forget or bypass.
    Ignore,
    /// Previous, earlier, above.
    Prior,
    /// Instructions, rules, safety checks.
    Rules,
    /// No longer applies, is void.
    Void,
    /// The system prompt, hidden instructions, chain of thought.
    SystemPrompt,
    /// Gives the model another role or mode.
    Role,
    /// Markup and headings that imitate the system.
    Frame,
    /// Markup that is also used in honest documentation, such as `<important>`.
    SoftFrame,
    /// A form of address: "note to the model".
    Address,
    /// The model, assistant or agent.
    Model,
    /// You, your.
    You,
    /// The user, the customer, anyone.
    User,
    /// Not, never, without.
    Negation,
    /// Do not, never, avoid: a negation that commands.
    Forbid,
    /// To tell, mention, inform.
    Tell,
    /// To learn, notice, see.
    Learn,
    /// To hide or conceal.
    Hide,
    /// Secretly, quietly, unaware.
    Secretly,
    /// To leave out or omit.
    Omit,
    /// Your answer, your summary, the chat.
    Answer,
    /// As if, pretend, deny.
    Pretend,
    /// If asked, should someone ask.
    IfAsked,
    /// To send, forward, upload.
    Send,
    /// To pass, include, fill in.
    Supply,
    /// Carries, expects, must contain.
    Carry,
    /// To read, open, fetch, print.
    Read,
    /// A password, token or key.
    Secret,
    /// A well-known path of secrets.
    SecretPath,
    /// A shell command that prints secrets.
    SecretCommand,
    /// The conversation between the user and the model.
    Conversation,
    /// A conversation or prompt, perhaps one that the tool works with.
    Talk,
    /// The environment variables.
    Environment,
    /// Results of other tools, or the list of tools.
    ToolData,
    /// Personal data, open documents, the clipboard.
    Personal,
    /// All, every, whole, verbatim.
    All,
    /// First, at the start.
    First,
    /// Before any other tool, before you answer.
    BeforeAll,
    /// Before, prior to.
    Before,
    /// In every turn, for each message.
    EachTurn,
    /// Whatever the user asked, regardless of the task.
    Whatever,
    /// Always, whenever, must.
    Always,
    /// To call, use or run.
    Call,
    /// This tool.
    ThisTool,
    /// Other tools, another server.
    OtherTools,
    /// Takes precedence, outranks, replaces.
    Precedence,
    /// Exclusively, only this one.
    Exclusive,
    /// Instead of, rather than.
    Instead,
    /// Deprecated, broken, unreliable.
    Broken,
    /// When calling, whenever it is used.
    WhenUsing,
    /// The results, arguments or use of a tool.
    Regarding,
    /// To add, set or change something.
    Alter,
    /// The blind copy, recipients, payee.
    Recipient,
    /// A command that runs code from the network or destroys files.
    Shell,
    /// To approve or accept.
    Approve,
    /// Without asking, already approved.
    NoAsk,
    /// To switch off.
    Disable,
    /// A protection, such as the firewall.
    Protection,
    /// To log, record or collect.
    Capture,
    /// Input that nobody logs without reason: key strokes, passwords.
    Sensitive,
    /// Remote, external, third party.
    Remote,
    /// To recommend or promote.
    Promote,
    /// Otherwise it fails, not complete until.
    Coercion,
    /// Gives the model another task: "your next step".
    Task,
    /// To obey what a result or page says.
    Obey,
    /// A result, page or answer of a tool.
    Outcome,
    /// Makes something public, or gives rights away.
    Expose,
    /// Words between people, of obedience and deceit, that documentation has no use for.
    Manner,
    /// The sentence speaks of texts or attacks that a tool detects or removes.
    Detection,
    /// The sentence gives an example, or says that something does not happen.
    Example,
    /// "Of this server": the speaker means its own tools.
    OwnServer,
    /// An address of mail.
    Mail,
    /// A URL.
    Url,
    /// A name in code style that is neither the tool nor one of its parameters.
    ToolName,
    /// A tool or server of another server that is connected.
    Neighbour,
    /// A parameter: its name, or a name in backticks.
    Parameter,
    /// A file.
    File,
    /// A word written backwards.
    Backwards,
    /// A word in ROT13.
    Rot13,
}

/// A set of concepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Concepts(u128);

impl Concepts {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn one(concept: Concept) -> Self {
        Self(1 << concept as u8)
    }

    pub(super) const fn of(concepts: &[Concept]) -> Self {
        let mut bits = 0;
        let mut rest = concepts;
        while let [first, tail @ ..] = rest {
            bits |= 1 << *first as u8;
            rest = tail;
        }
        Self(bits)
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn has(self, concept: Concept) -> bool {
        self.0 & (1 << concept as u8) != 0
    }

    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn len(self) -> u32 {
        self.0.count_ones()
    }
}
