//! Every code of a finding, what it means and how much it matters.

/// How much a finding matters. Errors are mistakes for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Hint,
    Warning,
    Error,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One kind of finding. Codes are never given to anything else, also when one is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    pub severity: Severity,
    pub title: &'static str,
}

const fn code(code: &'static str, severity: Severity, title: &'static str) -> Code {
    Code { code, severity, title }
}

/// In their order. C0 is about the file as such, C1 about who says what, C2 about names, C3 about what is missing, C4
/// about arguments, C5 about failures.
pub const CODES: [Code; 24] = [
    code("C001", Severity::Warning, "the contract is for a server that is not connected"),
    code("C002", Severity::Warning, "the contract is for a tool that the server does not have"),
    code("C003", Severity::Warning, "there is a contract, but no risk level"),
    code("C004", Severity::Hint, "a server has tools without a risk level"),
    code("C019", Severity::Hint, "the file is still marked as a draft"),
    code("C101", Severity::Warning, "the operator asks for less than the server's contract"),
    code("C102", Severity::Warning, "the operator says less than the server's annotations"),
    code("C103", Severity::Warning, "the server's contract says less than its annotations"),
    code("C104", Severity::Hint, "the server's contract asks for less than its risk level"),
    code("C105", Severity::Warning, "a field has no effect, because the risk level asks for more"),
    code("C106", Severity::Warning, "critical without a fresh factor"),
    code("C201", Severity::Hint, "the name suggests that the tool should be forbidden"),
    code("C202", Severity::Warning, "the name does not sound like reading, but the tool counts as reading"),
    code("C301", Severity::Warning, "high or critical without side effects"),
    code("C302", Severity::Hint, "high or critical without an audit event"),
    code("C303", Severity::Hint, "high or critical without failure modes"),
    code("C304", Severity::Warning, "high or critical without permissions"),
    code("C305", Severity::Warning, "one call reaches many things, and there is no dry run"),
    code("C401", Severity::Error, "the dry run's parameter is no argument of the tool"),
    code("C402", Severity::Error, "the idempotency key is made from something that is no argument of the tool"),
    code("C403", Severity::Warning, "a sensitive place is in no argument or result of the tool"),
    code("C404", Severity::Warning, "the contract's schema names an argument that the tool does not have"),
    code("C405", Severity::Hint, "a pattern in the tool's own schema is not checked"),
    code("C501", Severity::Hint, "the failure modes leave out what the gateway itself answers"),
];
