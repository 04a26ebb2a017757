//! Tools for users and customers: the signed-in user, search, change and deletion.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::preview::{Outcome, Preview, about};
use super::workspace::Reminder;
use super::{DemoTool, NoArguments, tool};
use crate::contract::{Contract, DryRun, Idempotency, Operation, Risk, StepUp};
use crate::failure::{Code, Failure};
use crate::tools::data::{CURRENT_USER, Data, is_address};

const CONTACTS_DEFAULT_LIMIT: usize = 10;
const CONTACTS_MAX_LIMIT: usize = 50;
const DELETE_DURATION_MS: u64 = 40;

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("get_current_user", CURRENT, |data, _none: NoArguments, _now| data.current_user()),
        tool("search_contacts", SEARCH, |data, search: SearchContacts, _now| data.search_contacts(&search)),
        tool("update_customer_data", UPDATE, |data, change: ChangeCustomer, _now| data.change_customer(change)),
        tool("delete_user", DELETE, |data, delete: DeleteUser, _now| {
            if delete.dry_run {
                data.preview_deletion(&delete.user_id).map(Outcome::Preview)
            } else {
                data.delete_user(delete.user_id).map(Outcome::Done)
            }
        }),
    ]
}

const CURRENT: Contract = Contract {
    description: "Returns the signed-in user and their reminders.",
    category: "people",
    permissions: &["profile:read"],
    audit_event: "user.read",
    ..Contract::PLAIN
};

const SEARCH: Contract = Contract {
    description: "Finds contacts by name, e-mail address or company.",
    category: "people",
    permissions: &["contacts:read"],
    audit_event: "contact.searched",
    failures: &[Code::InvalidQuery, Code::InvalidLimit],
    ..Contract::PLAIN
};

const UPDATE: Contract = Contract {
    description: "Changes the name, e-mail address or company of a customer.",
    category: "people",
    risk: Risk::High,
    operation: Operation::Write,
    permissions: &["contacts:read", "customers:write"],
    side_effects: &[
        "The customer's data changes for all users.",
        "The previous values stay in the customer's history.",
        "Repeating the call changes nothing more.",
    ],
    audit_event: "customer.updated",
    failures: &[Code::NotFound, Code::InvalidEmail, Code::NothingToChange],
    idempotency: Idempotency::Settles,
    sensitive: &["/changes/name", "/changes/email"],
    ..Contract::PLAIN
};

const DELETE: Contract = Contract {
    description: "Deletes a user and leaves their tasks without an assignee.",
    category: "people",
    risk: Risk::Critical,
    operation: Operation::Destructive,
    step_up: StepUp::Always,
    permissions: &["users:delete"],
    side_effects: &[
        "The user is deleted and cannot be restored.",
        "The user's tasks no longer have an assignee.",
        "Repeating the call answers not_found.",
    ],
    audit_event: "user.deleted",
    failures: &[Code::NotFound, Code::PolicyViolation],
    dry_run: DryRun::Supported,
    ..Contract::PLAIN
};

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    /// Such as `u_anna`.
    pub(crate) id: String,
    /// First and last name.
    pub(crate) name: String,
    /// An address within the company.
    pub(crate) email: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contact {
    /// The contact's id, such as `c_1`. It is also the customer's id.
    pub(crate) id: String,
    /// First and last name.
    pub(crate) name: String,
    /// E-mail address.
    pub(crate) email: String,
    /// Company.
    pub(crate) company: String,
}

/// A customer before a change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Revision {
    pub(crate) before: Contact,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CurrentUser {
    /// The signed-in user.
    user: User,
    /// Their reminders, oldest first.
    reminders: Vec<Reminder>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchContacts {
    /// Part of a name, an e-mail address or a company. Case is ignored.
    query: String,
    /// Maximum number of contacts to return.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Contacts {
    /// The contacts that match, up to the limit.
    contacts: Vec<Contact>,
    /// Number of contacts that match, including those beyond the limit.
    total: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChangeCustomer {
    /// The customer to change, such as `c_1`.
    customer_id: String,
    /// Fields to change. Omitted fields keep their value.
    changes: Changes,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
struct Changes {
    /// The new first and last name.
    #[serde(default)]
    name: Option<String>,
    /// The new address.
    #[serde(default)]
    email: Option<String>,
    /// The new company.
    #[serde(default)]
    company: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangedCustomer {
    /// The customer after the change.
    customer: Contact,
    /// Names of the fields that have a new value.
    changed: Vec<&'static str>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteUser {
    /// The user to delete, such as `u_max`.
    user_id: String,
    /// Set to true to preview the call without running it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeletedUser {
    /// The deleted user.
    deleted_user_id: String,
    /// Tasks that have no assignee now.
    unassigned_task_ids: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    /// The user to be deleted.
    user: User,
    /// Tasks that would have no assignee.
    unassigned_task_ids: Vec<String>,
}

impl Data {
    fn current_user(&self) -> Result<CurrentUser, Failure> {
        // Users cannot delete themselves, so a missing user is a bug in this server.
        let gone = || Failure::new(Code::InternalError, "the signed-in user is gone");
        let user = self.users.iter().find(|user| user.id == CURRENT_USER).cloned().ok_or_else(gone)?;
        Ok(CurrentUser { user, reminders: self.reminders.clone() })
    }

    fn search_contacts(&self, search: &SearchContacts) -> Result<Contacts, Failure> {
        let query = search.query.trim().to_lowercase();
        if query.is_empty() {
            return Err(Failure::new(Code::InvalidQuery, "`query` must not be empty"));
        }
        let limit = search.limit.unwrap_or(CONTACTS_DEFAULT_LIMIT);
        if !(1..=CONTACTS_MAX_LIMIT).contains(&limit) {
            return Err(Failure::new(Code::InvalidLimit, format!("`limit` must be 1 to {CONTACTS_MAX_LIMIT}")));
        }
        let matches = |contact: &&Contact| {
            [&contact.name, &contact.email, &contact.company].iter().any(|text| text.to_lowercase().contains(&query))
        };
        let found: Vec<&Contact> = self.contacts.iter().filter(matches).collect();
        Ok(Contacts { total: found.len(), contacts: found.into_iter().take(limit).cloned().collect() })
    }

    fn change_customer(&mut self, change: ChangeCustomer) -> Result<ChangedCustomer, Failure> {
        let Changes { name, email, company } = change.changes;
        if let Some(wrong) = email.as_ref().filter(|email| !is_address(email)) {
            return Err(Failure::new(Code::InvalidEmail, format!("`{wrong}` is not an e-mail address")));
        }
        if name.is_none() && email.is_none() && company.is_none() {
            return Err(Failure::new(Code::NothingToChange, "`changes` must name at least one field"));
        }
        let customer = self.contacts.iter_mut().find(|contact| contact.id == change.customer_id);
        let customer = customer.ok_or_else(|| Failure::not_found("customer", &change.customer_id))?;
        let before = customer.clone();
        let mut changed = Vec::new();
        let fields = [
            ("name", &mut customer.name, name),
            ("email", &mut customer.email, email),
            ("company", &mut customer.company, company),
        ];
        for (field, place, new) in fields {
            if let Some(new) = new.filter(|new| new != place) {
                *place = new;
                changed.push(field);
            }
        }
        let customer = customer.clone();
        if !changed.is_empty() {
            self.revisions.push(Revision { before });
        }
        Ok(ChangedCustomer { customer, changed })
    }

    fn preview_deletion(&self, id: &str) -> Result<Preview<Deletion>, Failure> {
        let user = self.find_deletable(id)?.clone();
        let unassigned_task_ids: Vec<String> = self
            .projects
            .iter()
            .flat_map(|project| &project.tasks)
            .filter(|task| task.assignee_id.as_deref() == Some(id))
            .map(|task| task.id.clone())
            .collect();
        let tasks = about(unassigned_task_ids.len(), "task will have no assignee.", "tasks will have no assignee.");
        let effects = [
            format!("{} will be deleted and cannot be restored.", user.name),
            format!("1 audit event of type {} will be created.", DELETE.audit_event),
        ];
        Ok(Preview::of(Deletion { user, unassigned_task_ids })
            .warnings(tasks)
            .missing_permissions(self.missing_permissions(DELETE.permissions))
            .side_effects(effects)
            .duration_ms(DELETE_DURATION_MS))
    }

    fn delete_user(&mut self, id: String) -> Result<DeletedUser, Failure> {
        self.find_deletable(&id)?;
        self.users.retain(|user| user.id != id);
        let mut unassigned_task_ids = Vec::new();
        for task in self.projects.iter_mut().flat_map(|project| &mut project.tasks) {
            if task.assignee_id.as_ref() == Some(&id) {
                task.assignee_id = None;
                unassigned_task_ids.push(task.id.clone());
            }
        }
        Ok(DeletedUser { deleted_user_id: id, unassigned_task_ids })
    }

    fn find_deletable(&self, id: &str) -> Result<&User, Failure> {
        if id == CURRENT_USER {
            return Err(Failure::new(Code::PolicyViolation, "you cannot delete yourself"));
        }
        self.users.iter().find(|user| user.id == id).ok_or_else(|| Failure::not_found("user", id))
    }
}
