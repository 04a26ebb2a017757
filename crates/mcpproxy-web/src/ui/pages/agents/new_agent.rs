//! The form that creates an agent, or changes what its token may do.

use mcpproxy_core::{Scope, ServerName, Variant};

use crate::ui::form::Form;

/// With more servers than this, the form has one field for their names instead of one box for each.
const BOXES_MAX: usize = 16;

/// The servers of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServersOf {
    /// The user has not chosen yet. A form that starts with all servers would grant them to users who do not look.
    Unchosen,
    All,
    Some,
}

/// The values of the form.
#[derive(Clone, Debug)]
pub(crate) struct NewAgent {
    pub(crate) name: String,
    pub(crate) servers_of: ServersOf,
    /// Each server, and whether it is chosen. Empty if there are too many.
    pub(crate) boxes: Vec<(String, bool)>,
    /// Names of servers, separated by commas.
    pub(crate) servers: String,
    pub(crate) operations: [(&'static str, bool); 3],
    pub(crate) grants: String,
    pub(crate) is_headless: bool,
}

/// A new token may do nothing until the user chooses.
impl Default for NewAgent {
    fn default() -> Self {
        Self {
            name: String::new(),
            servers_of: ServersOf::Unchosen,
            boxes: Vec::new(),
            servers: String::new(),
            operations: Variant::ALL.map(|variant| (variant.operation(), false)),
            grants: String::new(),
            is_headless: false,
        }
    }
}

impl NewAgent {
    pub(crate) fn of(form: &Form, known: &[String]) -> Self {
        let is_on = |name: &str| form.text(name).is_some();
        let boxes = (0..BOXES_MAX).filter_map(|number| form.filled(&format!("server-{number}")));
        let chosen: Vec<String> = boxes.map(str::to_owned).collect();
        let is_chosen = |name: &String| chosen.contains(name);
        Self {
            name: form.or_empty("name").trim().to_owned(),
            servers_of: match form.or_empty("servers_of") {
                "all" => ServersOf::All,
                "some" => ServersOf::Some,
                _ => ServersOf::Unchosen,
            },
            boxes: known.iter().take(BOXES_MAX).map(|name| (name.clone(), is_chosen(name))).collect(),
            servers: form.or_empty("servers").to_owned(),
            operations: Variant::ALL.map(|variant| (variant.operation(), is_on(variant.operation()))),
            grants: form.or_empty("grants").to_owned(),
            is_headless: is_on("headless"),
        }
    }

    /// Fills the form with the scope of a token.
    pub(crate) fn of_scope(name: &str, scope: &Scope, known: &[String]) -> Self {
        let chosen: Vec<String> = scope.servers.iter().flatten().map(ToString::to_string).collect();
        Self {
            name: name.to_owned(),
            servers_of: if scope.servers.is_some() { ServersOf::Some } else { ServersOf::All },
            boxes: known.iter().take(BOXES_MAX).map(|name| (name.clone(), chosen.contains(name))).collect(),
            servers: if known.len() > BOXES_MAX { chosen.join(", ") } else { String::new() },
            operations: Variant::ALL.map(|variant| (variant.operation(), scope.may(variant))),
            grants: scope.grants.join(", "),
            is_headless: scope.headless,
        }
    }

    /// Returns true if the token is for all servers.
    pub(crate) fn is_for_all(&self) -> bool {
        self.servers_of == ServersOf::All
    }

    /// Returns true if the token is for the chosen servers only.
    pub(crate) fn is_limited(&self) -> bool {
        self.servers_of == ServersOf::Some
    }

    /// Adds the boxes for the servers of the gateway.
    pub(super) fn beside(self, known: &[String]) -> Self {
        let was = |name: &String| self.boxes.iter().any(|(known, is_chosen)| known == name && *is_chosen);
        let boxes = if known.len() > BOXES_MAX {
            Vec::new()
        } else {
            known.iter().map(|name| (name.clone(), was(name))).collect()
        };
        Self { boxes, ..self }
    }

    /// Returns the scope of the token, or what to correct.
    pub(crate) fn scope(&self, known: &[String]) -> Result<Scope, String> {
        if self.name.is_empty() {
            return Err("Give the agent a name, such as cursor.".to_owned());
        }
        let operations: Vec<Variant> =
            Variant::ALL.into_iter().filter(|variant| self.operations.contains(&(variant.operation(), true))).collect();
        if operations.is_empty() {
            return Err("Choose at least one operation.".to_owned());
        }
        let grants: Vec<String> = self
            .grants
            .split([',', ' ', '\n', '\r', '\t'])
            .filter(|grant| !grant.is_empty())
            .map(str::to_owned)
            .collect();
        for grant in &grants {
            Scope::check_permission(grant)
                .map_err(|reason| format!("The permission {grant} is not valid: {reason}."))?;
        }
        let servers = match self.servers_of {
            ServersOf::Unchosen => return Err("Choose the servers of the agent: all servers, or only some.".to_owned()),
            ServersOf::All => None,
            ServersOf::Some => Some(self.chosen(known)?),
        };
        Ok(Scope { grants, servers, operations, headless: self.is_headless })
    }

    fn chosen(&self, known: &[String]) -> Result<Vec<ServerName>, String> {
        let boxes = self.boxes.iter().filter(|(_, is_chosen)| *is_chosen).map(|(name, _)| name.as_str());
        let typed = self.servers.split([',', ' ', '\n', '\r']).filter(|name| !name.is_empty());
        let mut names: Vec<ServerName> = Vec::new();
        for name in boxes.chain(typed) {
            let parsed = ServerName::parse(name).ok().filter(|_| known.iter().any(|one| one == name));
            let parsed = parsed.ok_or_else(|| format!("There is no server with the name {name}."))?;
            if !names.contains(&parsed) {
                names.push(parsed);
            }
        }
        if names.is_empty() {
            return Err("Choose at least one server, or all servers.".to_owned());
        }
        Ok(names)
    }
}
