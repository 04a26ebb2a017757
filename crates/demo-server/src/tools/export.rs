//! Tools for bulk export: one kind of record with a dry run, or the whole database.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::File;
use super::preview::{Outcome, Preview, about};
use super::{DemoTool, NoArguments, tool};
use crate::contract::{Contract, DryRun, Operation, Risk, StepUp};
use crate::failure::{Code, Failure};
use crate::tools::data::Data;

const SAMPLES: usize = 2;
const ROWS_PER_MS: usize = 10;

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("bulk_export", BULK_EXPORT, |data, export: BulkExport, _now| {
            let plan = data.plan_export(&export)?;
            Ok(if export.dry_run {
                Outcome::Preview(data.preview_export(&plan))
            } else {
                Outcome::Done(data.export(plan))
            })
        }),
        tool("export_full_database_without_approval", EXPORT_ALL, |data, _none: NoArguments, _now| {
            Ok(data.export_all())
        }),
    ]
}

const BULK_EXPORT: Contract = Contract {
    description: "Exports all records of one kind to a file.",
    category: "data",
    risk: Risk::Critical,
    operation: Operation::Write,
    step_up: StepUp::Always,
    permissions: &["data:export", "contacts:read", "projects:read"],
    side_effects: &["A file with all records of that kind is created.", "Repeating the call creates a second file."],
    audit_event: "data.exported",
    failures: &[Code::EmptyDataset],
    dry_run: DryRun::Supported,
    ..Contract::PLAIN
};

const EXPORT_ALL: Contract = Contract {
    description: "Exports the whole database to a file without a dry run.",
    category: "data",
    risk: Risk::Forbidden,
    operation: Operation::Write,
    step_up: StepUp::Always,
    permissions: &["database:export"],
    side_effects: &["A file with every record is created."],
    audit_event: "database.exported",
    ..Contract::PLAIN
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Dataset {
    Contacts,
    Projects,
    Users,
    Emails,
}

const DATASETS: [Dataset; 4] = [Dataset::Contacts, Dataset::Projects, Dataset::Users, Dataset::Emails];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Json,
    Jsonl,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BulkExport {
    /// Data to export.
    dataset: Dataset,
    /// One JSON array, or one JSON object on each line.
    #[serde(default)]
    format: Format,
    /// Set to true to preview the call without running it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Exported {
    /// The file that was made.
    file_id: String,
    /// Number of records in the file.
    row_count: usize,
    /// Size of the file in bytes.
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Rows {
    /// Number of records to be exported.
    row_count: usize,
    /// The first few of them.
    sample_rows: Vec<serde_json::Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExportedAll {
    /// The file that was made.
    file_id: String,
    /// Number of records of each kind in the file.
    tables: Vec<Table>,
    /// Size of the file in bytes.
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Table {
    /// Kind of record.
    dataset: Dataset,
    /// Number of records.
    row_count: usize,
}

/// The records to export, and the file they become.
struct Plan {
    rows: Vec<Value>,
    personal: usize,
    name: String,
    bytes: u64,
}

impl Data {
    fn rows(&self, dataset: Dataset) -> Vec<Value> {
        match dataset {
            Dataset::Contacts => self.contacts.iter().map(|row| json!(row)).collect(),
            Dataset::Projects => self.projects.iter().map(|row| json!(row)).collect(),
            Dataset::Users => self.users.iter().map(|row| json!(row)).collect(),
            Dataset::Emails => self.sent.iter().map(|row| json!(row)).collect(),
        }
    }

    fn plan_export(&self, export: &BulkExport) -> Result<Plan, Failure> {
        let rows = self.rows(export.dataset);
        if rows.is_empty() {
            return Err(Failure::new(Code::EmptyDataset, "there is nothing of this kind to export"));
        }
        let text = export.format.write(&rows);
        let personal = match export.dataset {
            Dataset::Contacts | Dataset::Users | Dataset::Emails => rows.len(),
            Dataset::Projects => 0,
        };
        Ok(Plan { personal, name: format!("export.{}", export.format.extension()), bytes: size(&text), rows })
    }

    fn preview_export(&self, plan: &Plan) -> Preview<Rows> {
        let count = plan.rows.len();
        let personal = about(
            plan.personal,
            "record has an email address, which is personal data.",
            "records have email addresses, which are personal data.",
        );
        let effects = [
            format!("A file of {count} records and {} bytes will be created.", plan.bytes),
            format!("1 audit event of type {} will be created.", BULK_EXPORT.audit_event),
        ];
        let sample_rows = plan.rows.iter().filter_map(Value::as_object).take(SAMPLES).cloned().collect();
        Preview::of(Rows { row_count: count, sample_rows })
            .warnings(personal)
            .missing_permissions(self.missing_permissions(BULK_EXPORT.permissions))
            .side_effects(effects)
            .duration_ms(u64::try_from(count.div_ceil(ROWS_PER_MS)).unwrap_or(u64::MAX))
    }

    fn export(&mut self, plan: Plan) -> Exported {
        let file_id = self.next_id("f");
        self.files.push(File::new(file_id.clone(), plan.name, plan.bytes).confidential());
        Exported { file_id, row_count: plan.rows.len(), bytes: plan.bytes }
    }

    fn export_all(&mut self) -> ExportedAll {
        let mut tables = Vec::new();
        let mut rows = Vec::new();
        for dataset in DATASETS {
            let found = self.rows(dataset);
            tables.push(Table { dataset, row_count: found.len() });
            rows.extend(found);
        }
        let bytes = size(&Format::Json.write(&rows));
        let file_id = self.next_id("f");
        self.files.push(File::new(file_id.clone(), "database.json", bytes).confidential());
        ExportedAll { file_id, tables, bytes }
    }
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Jsonl => "jsonl",
        }
    }

    fn write(self, rows: &[Value]) -> String {
        match self {
            Self::Json => json!(rows).to_string(),
            Self::Jsonl => rows.iter().map(|row| format!("{row}\n")).collect(),
        }
    }
}

fn size(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
