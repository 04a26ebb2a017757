//! The JSON types of contracts.

use std::sync::Arc;

use mcpproxy_core::contract::{Need, Source};
use mcpproxy_core::decision::needs_contract;
use mcpproxy_core::review::coverage::{self, Classifier};
use mcpproxy_core::review::docs;
use mcpproxy_core::review::lint::{self, Severity};
use mcpproxy_core::settings::ContractSettings;
use mcpproxy_core::{RiskLevel, Tool, Variant};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

/// The effective contract of a tool, with the source of each field.
#[derive(Serialize, ToSchema)]
pub(crate) struct Contract {
    /// `server:tool`.
    tool: String,
    /// True if the tool is forbidden. Agents cannot see it.
    hidden_from_agents: bool,
    /// True if a contract exists. Without one, only the server's annotations count.
    written: bool,
    /// The `call_tool_*` variant that the tool requires.
    call_with: &'static str,
    #[schema(schema_with = super::risks_or_null)]
    risk_level: Option<&'static str>,
    /// The requirements of a call: `confirmation`, `step_up`, `dry_run`. Only `contract` if the setting
    /// `contracts.unclassified` refuses every call until you classify the tool.
    needs: Vec<&'static str>,
    /// The contract in the format of contract files.
    #[schema(value_type = Object)]
    contract: Value,
    /// True if a change of this contract waits for a user. The fields have the values that are in force.
    change_waits: bool,
    /// Every field with a value.
    fields: Vec<ContractField>,
    /// The digest of the effective contract. The record of each call has it.
    digest: String,
    /// The JSON Schema that arguments must match: the server's, the contract's, or both.
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    /// The JSON Schema that structured results must match: the server's, the contract's, or both.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Value>,
}

#[derive(Serialize, ToSchema)]
struct ContractField {
    field: &'static str,
    value: Value,
    /// The source of the value: the operator with file and line, a draft that nobody has reviewed, the server, or the
    /// risk level.
    source: String,
}

impl Contract {
    /// `waits` returns true for a field of which a new value waits for a user.
    pub(crate) fn new(tool: &Tool, settings: ContractSettings, waits: impl Fn(&str) -> bool) -> Self {
        let contract = &tool.contract;
        let needs = if needs_contract(settings, tool) {
            vec!["contract"]
        } else {
            contract.needs().into_iter().map(Need::as_str).collect()
        };
        let source = |field: &str, source: &Source| match source {
            // The line is one of the previous file. The file has another value there now.
            Source::Operator { file, is_draft, .. } if waits(field) => {
                let previous = Source::Operator { file: Arc::clone(file), line: 0, is_draft: *is_draft };
                format!("{previous}, before the change that waits")
            }
            Source::Operator { .. } | Source::Server | Source::Hints | Source::Level | Source::Default => {
                source.to_string()
            }
        };
        let fields = contract.fields().into_iter();
        Self {
            change_waits: contract.fields().iter().any(|(field, _, _)| waits(field)),
            tool: tool.name.to_string(),
            hidden_from_agents: contract.risk() == Some(RiskLevel::Forbidden),
            written: contract.is_written,
            call_with: tool.call_with().tool(),
            risk_level: contract.risk().map(RiskLevel::as_str),
            needs,
            contract: contract.to_json(),
            fields: fields
                .map(|(field, value, from)| ContractField { field, value, source: source(field, from) })
                .collect(),
            digest: tool.contract_digest().to_string(),
            input_schema: tool.whole_input_schema(),
            output_schema: tool.whole_output_schema(),
        }
    }
}

/// All tools, and who classified them.
#[derive(Serialize, ToSchema)]
pub(crate) struct Contracts {
    /// Sorted by name.
    tools: Vec<CoveredTool>,
    /// The totals of each server.
    totals: Vec<CoverageTotal>,
    /// The share of the contract fields that are set, for all tools together, rounded down. Null without tools.
    fields_percent: Option<usize>,
}

#[derive(Serialize, ToSchema)]
struct CoveredTool {
    /// `server:tool`.
    name: String,
    server: String,
    #[schema(schema_with = super::risks_or_null)]
    risk_level: Option<&'static str>,
    #[schema(schema_with = operations_or_null)]
    operation: Option<&'static str>,
    #[schema(schema_with = classifiers)]
    classified_by: &'static str,
    /// The operator's contract file.
    file: Option<String>,
    line: Option<usize>,
    /// True if the file is still marked as a draft: in force, but not reviewed.
    draft: bool,
    /// The number of the 13 fields of the contract standard that are set.
    fields: usize,
    /// The names of the other fields.
    missing_fields: Vec<&'static str>,
    /// True if the tool is forbidden. Agents cannot see it.
    hidden_from_agents: bool,
}

/// The number of tools of a server by classifier.
#[derive(Serialize, ToSchema)]
struct CoverageTotal {
    server: String,
    tools: usize,
    by_operator: usize,
    by_server: usize,
    by_nobody: usize,
    /// The number of contract fields that are set, of at most 13 for each tool.
    fields: usize,
    fields_max: usize,
}

impl From<coverage::Coverage> for Contracts {
    fn from(coverage: coverage::Coverage) -> Self {
        Self {
            fields_percent: coverage.percent(),
            tools: coverage.tools.into_iter().map(Into::into).collect(),
            totals: coverage.totals.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<coverage::Covered> for CoveredTool {
    fn from(tool: coverage::Covered) -> Self {
        let fields = tool.fields();
        let (classified_by, place, draft) = match tool.classified_by {
            Classifier::Operator { file, line, is_draft } => {
                // Nobody has reviewed a draft, so the operator has not classified the tool yet.
                (if is_draft { "draft" } else { "operator" }, Some((file.to_string(), line)), is_draft)
            }
            Classifier::Server => ("server", None, false),
            Classifier::Nobody => ("nobody", None, false),
        };
        let (file, line) = place.unzip();
        Self {
            fields,
            server: tool.name.server().to_string(),
            name: tool.name.to_string(),
            risk_level: tool.risk.map(RiskLevel::as_str),
            operation: tool.operation.map(Variant::operation),
            classified_by,
            file,
            line,
            draft,
            missing_fields: tool.missing,
            hidden_from_agents: tool.risk == Some(RiskLevel::Forbidden),
        }
    }
}

impl From<coverage::Total> for CoverageTotal {
    fn from(total: coverage::Total) -> Self {
        let coverage::Total { server, tools, by_operator, by_server, by_nobody, fields, fields_max } = total;
        Self { server: server.to_string(), tools, by_operator, by_server, by_nobody, fields, fields_max }
    }
}

/// The findings about the active contracts.
#[derive(Serialize, ToSchema)]
pub(crate) struct Lint {
    /// Sorted by subject.
    findings: Vec<LintFinding>,
    errors: usize,
    warnings: usize,
    hints: usize,
    /// A hash of the operator's contracts.
    version: String,
}

/// A finding and its fix.
#[derive(Serialize, ToSchema)]
struct LintFinding {
    /// A stable code.
    code: &'static str,
    #[schema(schema_with = severities)]
    severity: &'static str,
    /// The tool, the pattern, the server or the file.
    subject: String,
    /// The position in the operator's contract file.
    file: Option<String>,
    line: Option<usize>,
    message: String,
    fix: String,
}

impl From<mcpproxy_gateway::Lint> for Lint {
    fn from(lint: mcpproxy_gateway::Lint) -> Self {
        let count = |severity| lint.findings.iter().filter(|finding| finding.severity == severity).count();
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            hints: count(Severity::Hint),
            version: lint.version,
            findings: lint.findings.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<lint::Finding> for LintFinding {
    fn from(finding: lint::Finding) -> Self {
        let (file, line) = finding.place.map(|(file, line)| (file.to_string(), line)).unzip();
        Self {
            code: finding.code,
            severity: finding.severity.as_str(),
            subject: finding.subject,
            file,
            line: line.filter(|line| *line > 0),
            message: finding.message,
            fix: finding.fix,
        }
    }
}

/// Contract cards as Markdown.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContractDocs {
    /// The page with all tools first, then one page for each server.
    pages: Vec<DocsPage>,
}

#[derive(Serialize, ToSchema)]
struct DocsPage {
    /// The name of the file.
    file: String,
    /// Markdown.
    text: String,
}

impl From<Vec<docs::DocsPage>> for ContractDocs {
    fn from(pages: Vec<docs::DocsPage>) -> Self {
        Self { pages: pages.into_iter().map(|page| DocsPage { file: page.file, text: page.text }).collect() }
    }
}

/// A draft of a contract file for a server.
#[derive(Serialize, ToSchema)]
pub(crate) struct Draft {
    pub(crate) server: String,
    /// YAML. Review it before you save it in `contracts/`.
    pub(crate) text: String,
    /// The number of tools that are left out, because they wait for a review.
    pub(crate) waiting: usize,
}

fn operations_or_null() -> Object {
    super::words_or_null("The operation type of the tool, if known.", Variant::ALL.map(Variant::operation))
}

fn classifiers() -> Object {
    super::words("The source of the risk level.", ["operator", "draft", "server", "nobody"])
}

fn severities() -> Object {
    let all = [Severity::Error, Severity::Warning, Severity::Hint].map(Severity::as_str);
    super::words("The severity. An `error` is certainly a mistake.", all)
}
