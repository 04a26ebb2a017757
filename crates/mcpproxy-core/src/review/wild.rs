//! Reads what some servers put into `_meta` in formats of their own, for drafts.

use serde_json::Value;

use crate::catalog::Offered;
use crate::{RiskLevel, Variant};

/// Maximum number of drafted permissions. Nobody reads more.
const PERMISSIONS_MAX: usize = 32;
const PERMISSION_MAX_CHARS: usize = 128;

/// Facts about a tool beyond its annotations and contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wild {
    /// The operation, and the key in `_meta` that states it.
    pub(super) operation: Option<(Variant, &'static str)>,
    pub(super) risk: Option<(RiskLevel, &'static str)>,
    pub(super) permissions: Vec<String>,
    pub(super) category: Option<String>,
    /// True if the results contain secrets.
    pub(super) is_secret: bool,
}

const DIGITAL_OCEAN: &str = "mcp.digitalocean.com/registry";
const GRAFANA: &str = "grafana.com/requiredPermissions";
const KUBERNETES: &str = "io.kubernetes-mcp-server/rbac";
const AZURE_SECRET: &str = "SecretHint";

impl Wild {
    pub(super) fn of(offered: &Offered) -> Self {
        let parsed = |field: &str| offered.field(field).and_then(|text| serde_json::from_str(text).ok());
        let meta: Value = parsed("_meta").unwrap_or_default();
        let annotations: Value = parsed("annotations").unwrap_or_default();
        let mut wild = Self::default();
        if let Some(registry) = meta.get(DIGITAL_OCEAN) {
            wild.digital_ocean(registry);
        }
        if let Some(Value::Array(permissions)) = meta.get(GRAFANA) {
            wild.permissions.extend(permissions.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        if let Some(rbac) = meta.get(KUBERNETES) {
            wild.kubernetes(rbac);
        }
        wild.is_secret = meta.get(AZURE_SECRET) == Some(&Value::Bool(true));
        let category = annotations.get("category").and_then(Value::as_str);
        wild.category = category.filter(|word| is_word(word)).map(str::to_owned);
        wild.permissions.retain(|permission| is_permission(permission));
        wild.permissions.truncate(PERMISSIONS_MAX);
        wild
    }

    fn digital_ocean(&mut self, registry: &Value) {
        let word = |name: &str| registry.get(name).and_then(Value::as_str);
        let operation = word("operation").and_then(|word| match word {
            "read" => Some(Variant::Read),
            "create" | "update" => Some(Variant::Write),
            "delete" => Some(Variant::Destructive),
            _ => None,
        });
        self.operation = operation.map(|operation| (operation, DIGITAL_OCEAN));
        self.risk = word("risk").and_then(RiskLevel::parse).map(|risk| (risk, DIGITAL_OCEAN));
        self.permissions.extend(word("permission").map(str::to_owned));
    }

    /// Reads Kubernetes requirements, which are verbs on resources. A resource that depends on an argument gives no
    /// permission.
    fn kubernetes(&mut self, rbac: &Value) {
        let requirements = rbac.pointer("/bounded/requirements").and_then(Value::as_array);
        for requirement in requirements.into_iter().flatten() {
            let verbs = requirement.get("verbs").and_then(Value::as_array);
            for verb in verbs.into_iter().flatten().filter_map(Value::as_str) {
                let operation = match verb {
                    "get" | "list" | "watch" => Variant::Read,
                    "delete" | "deletecollection" => Variant::Destructive,
                    _ => Variant::Write,
                };
                let strictest = self.operation.map_or(operation, |(known, _)| known.max(operation));
                self.operation = Some((strictest, KUBERNETES));
                let permission = requirement.pointer("/target/resource").and_then(|target| permission(target, verb));
                self.permissions.extend(permission.filter(|permission| !self.permissions.contains(permission)));
            }
        }
    }
}

/// Formats a permission such as `pods:list`, `pods/exec:create` or `metrics.k8s.io/pods:get`.
fn permission(target: &Value, verb: &str) -> Option<String> {
    let word = |name: &str| target.get(name).and_then(Value::as_str);
    let group = word("apiGroup").map(|group| format!("{group}/")).unwrap_or_default();
    let part = word("subresource").map(|part| format!("/{part}")).unwrap_or_default();
    Some(format!("{group}{}{part}:{verb}", word("resource")?))
}

/// Returns true for a permission name. Patterns and sentences are not names.
fn is_permission(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/' | b':');
    !text.is_empty() && text.len() <= PERMISSION_MAX_CHARS && text.bytes().all(fits)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 40 && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerName;

    fn wild(rest: &str) -> String {
        let json = format!("{{\"name\":\"tool\",\"inputSchema\":{{}},{rest}}}");
        let wild = Wild::of(&Offered::parse(&ServerName::parse("fx").unwrap(), &json).unwrap());
        let operation = wild.operation.map_or("-", |(operation, _)| operation.operation());
        let risk = wild.risk.map_or("-", |(risk, _)| risk.as_str());
        let rest = format!("{} {}", wild.category.unwrap_or_default(), if wild.is_secret { "secret" } else { "" });
        format!("{operation} {risk} [{}] {rest}", wild.permissions.join(" ")).trim_end().to_owned()
    }

    #[test]
    fn shapes_as_servers_write_them() {
        let check = |json: &str, expected: &str| assert_eq!(wild(json), expected, "{json}");
        check(
            r#""_meta":{"mcp.digitalocean.com/registry":{"operation":"delete","parallelizable":false,"permission":"tools.digitalocean.alert_policy_delete","risk":"medium"}}"#,
            "destructive medium [tools.digitalocean.alert_policy_delete]",
        );
        check(
            r#""_meta":{"grafana.com/requiredPermissions":["plugins.app:access","a b",7]}"#,
            "- - [plugins.app:access]",
        );
        check(
            r#""_meta":{"io.kubernetes-mcp-server/rbac":{"bounded":{"requirements":[
                {"verbs":["get","create"],"target":{"resource":{"resource":"pods","subresource":"exec"}}},
                {"verbs":["list"],"target":{"resource":{"apiGroup":"metrics.k8s.io","resource":"pods"}}},
                {"verbs":["get"],"target":{"gvk":{"kindArgument":"kind"}}}]}}}"#,
            "write - [pods/exec:get pods/exec:create metrics.k8s.io/pods:list]",
        );
        check(r#""_meta":{"io.kubernetes-mcp-server/rbac":{"unbounded":{"reason":"x"}}}"#, "- - []");
        check(r#""_meta":{"SecretHint":true},"annotations":{"category":"input"}"#, "- - [] input secret");
        check(r#""_meta":{"mcp.digitalocean.com/registry":"x","grafana.com/requiredPermissions":{}}"#, "- - []");
        check(
            r#""_meta":{"mcp.digitalocean.com/registry":{"operation":7,"risk":"huge","permission":"a: b"}}"#,
            "- - []",
        );
        check(r#""annotations":{"category":"x: y"}"#, "- - []");
    }
}
