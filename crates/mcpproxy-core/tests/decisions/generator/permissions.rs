//! Table rows for the permissions that a token must have.

use mcpproxy_core::contract::Contract;
use mcpproxy_core::{Hints, Scope, Variant};

use super::Section;
use super::stage::{Author, Stage, written};

const COLUMNS: &[&str] = &["variant", "readOnly", "wanted", "grants", "operations", "outcome"];
const WANTED: [&str; 3] = ["-", "mail:send", "mail:send files:read"];
const GRANTS: [&str; 6] = ["-", "mail:send", "mail:*", "files:read", "mail:* files:read", "*"];
const OPERATIONS: [&str; 3] = ["read", "read write", "read write destructive"];

pub(crate) fn section() -> Section {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        for read_only in [None, Some(true)] {
            for wanted in WANTED {
                for grants in GRANTS {
                    for operations in OPERATIONS {
                        let scope = Scope {
                            grants: words(grants),
                            operations: operations.split(' ').filter_map(Variant::from_operation).collect(),
                            ..Scope::everything()
                        };
                        let hints = Hints { read_only, destructive: None };
                        let mut stage = Stage { variant, hints, scope, ..Stage::default() };
                        let permissions = written(words(wanted)).filter(|written| !written.value.is_empty());
                        stage.write(Author::Server, Contract { permissions, ..Contract::default() });
                        let hint = super::hint_word(read_only);
                        let outcome = stage.outcome();
                        let cells = [variant.operation(), hint, wanted, grants, operations, &outcome];
                        rows.push(cells.map(str::to_owned).to_vec());
                    }
                }
            }
        }
    }
    let title = "permissions that a contract requires, and those of the token";
    Section { name: "permissions", title, columns: COLUMNS, rows }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| *word != "-").map(str::to_owned).collect()
}
