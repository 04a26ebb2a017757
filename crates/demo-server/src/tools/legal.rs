//! Tools that bind the company: the permissions of a user, and contracts with others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mail::check_addresses;
use super::{DemoTool, tool};
use crate::contract::{Contract, Idempotency, Operation, Risk, StepUp, World};
use crate::failure::{Code, Failure};
use crate::tools::data::{CURRENT_USER, Data};

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("change_permissions", CHANGE, |data, new: NewRole, _now| data.change_role(new)),
        tool("send_contract", SEND, |data, new: SendContract, _now| data.send_contract(new)),
    ]
}

const CHANGE: Contract = Contract {
    description: "Changes what a user may do, by a role.",
    category: "security",
    risk: Risk::Critical,
    operation: Operation::Destructive,
    step_up: StepUp::Always,
    permissions: &["permissions:write"],
    side_effects: &["The user can do more or less from now on.", "Repeating the call changes nothing more."],
    audit_event: "permissions.changed",
    failures: &[Code::NotFound, Code::PolicyViolation],
    idempotency: Idempotency::Settles,
    ..Contract::PLAIN
};

const SEND: Contract = Contract {
    description: "Sends a contract to one person for signature.",
    category: "legal",
    risk: Risk::Critical,
    operation: Operation::Destructive,
    world: World::Open,
    step_up: StepUp::Always,
    permissions: &["contracts:send"],
    side_effects: &[
        "The contract leaves the company and cannot be recalled.",
        "Repeating the call sends it again, unless it has the same idempotency key within 24 hours.",
    ],
    audit_event: "contract.sent",
    failures: &[Code::NotFound, Code::InvalidRecipient],
    idempotency: Idempotency::Key("24h"),
    sensitive: &["/email"],
    ..Contract::PLAIN
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    #[default]
    Editor,
    Viewer,
    Admin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    id: String,
    title: String,
    /// The addresses that it was sent to.
    sent_to: Vec<String>,
}

impl Document {
    pub(crate) fn new(id: &str, title: &str) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), sent_to: Vec::new() }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewRole {
    /// The user to change, such as `u_max`.
    user_id: String,
    /// The new role.
    role: Role,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangedRole {
    /// The user.
    user_id: String,
    /// Their role now.
    role: Role,
    /// Their role before.
    previous: Role,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SendContract {
    /// The contract, such as `ct_nda`.
    contract_id: String,
    /// The address of the person who signs it.
    email: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SentContract {
    /// The contract.
    contract_id: String,
    /// The contract's title.
    title: String,
    /// The number of times that it was sent.
    sent_count: usize,
}

impl Data {
    fn change_role(&mut self, new: NewRole) -> Result<ChangedRole, Failure> {
        if !self.users.iter().any(|user| user.id == new.user_id) {
            return Err(Failure::not_found("user", &new.user_id));
        }
        if new.user_id == CURRENT_USER {
            return Err(Failure::new(Code::PolicyViolation, "nobody can change their own permissions"));
        }
        let previous = self.roles.insert(new.user_id.clone(), new.role).unwrap_or_default();
        Ok(ChangedRole { user_id: new.user_id, role: new.role, previous })
    }

    fn send_contract(&mut self, new: SendContract) -> Result<SentContract, Failure> {
        check_addresses(std::slice::from_ref(&new.email))?;
        let document = self.documents.iter_mut().find(|document| document.id == new.contract_id);
        let document = document.ok_or_else(|| Failure::not_found("contract", &new.contract_id))?;
        document.sent_to.push(new.email);
        let (title, sent_count) = (document.title.clone(), document.sent_to.len());
        Ok(SentContract { contract_id: new.contract_id, title, sent_count })
    }
}
