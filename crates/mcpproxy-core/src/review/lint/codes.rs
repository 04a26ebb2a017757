//! The codes of lint findings, with title and severity.

/// The severity of a finding. An error is a mistake for certain.
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

/// One kind of finding. A code is never used for anything else, even after its check is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    pub severity: Severity,
    pub title: &'static str,
}

const fn code(code: &'static str, severity: Severity, title: &'static str) -> Code {
    Code { code, severity, title }
}

/// All codes, in order. C0 is about files, C1 about operator against server, C2 about names, C3 about missing fields,
/// C4 about arguments, C5 about failure modes.
pub const CODES: [Code; 29] = [
    code("C001", Severity::Warning, "the contract is for a server that is not connected"),
    code("C002", Severity::Warning, "the contract is for a tool that the server does not have"),
    code("C003", Severity::Warning, "the tool has a contract, but no risk level"),
    code("C004", Severity::Hint, "a server has tools without a risk level"),
    code("C019", Severity::Hint, "the file is still marked as a draft"),
    code("C101", Severity::Warning, "the operator's contract is weaker than the server's"),
    code("C102", Severity::Warning, "the operator's operation is weaker than the server's annotations"),
    code("C103", Severity::Warning, "the server's contract is weaker than its annotations"),
    code("C104", Severity::Hint, "the server's contract is weaker than its risk level"),
    code("C105", Severity::Warning, "a field has no effect, because the risk level is stricter"),
    code("C106", Severity::Warning, "critical without a second factor"),
    code("C201", Severity::Hint, "the name suggests that the tool should be forbidden"),
    code("C202", Severity::Warning, "the name suggests a change, but the tool is marked as reading"),
    code("C203", Severity::Warning, "the risk level is lower than its definition"),
    code("C204", Severity::Warning, "low, although the tool changes things outside of its server"),
    code("C205", Severity::Warning, "low, although the tool reads from outside of its server"),
    code("C301", Severity::Warning, "high or critical without side effects"),
    code("C302", Severity::Hint, "high or critical without an audit event"),
    code("C303", Severity::Hint, "high or critical without failure modes"),
    code("C304", Severity::Warning, "high or critical without permissions"),
    code("C305", Severity::Warning, "a bulk operation without a dry run"),
    code("C306", Severity::Warning, "a repeatable tool whose side effects do not mention repetition"),
    code("C307", Severity::Warning, "fields of the contract standard are missing"),
    code("C401", Severity::Error, "the dry-run parameter is not an argument of the tool"),
    code("C402", Severity::Error, "the idempotency key or `validUntil` uses a name that the tool does not have"),
    code("C403", Severity::Warning, "a sensitive pointer matches no argument or result of the tool"),
    code("C404", Severity::Warning, "the contract's schema names an argument that the tool does not have"),
    code("C405", Severity::Hint, "a pattern in the tool's own schema is not checked"),
    code("C501", Severity::Hint, "the failure modes leave out error codes of the gateway"),
];
