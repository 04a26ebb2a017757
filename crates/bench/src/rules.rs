//! Contracts and policies as a team has them. None of them refuses a call of the benchmark, so every one is evaluated.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::case::Server;
use crate::tools;

const POLICIES: &str = r#"
@id("laptop-stays-below-high")
forbid (principal == Agent::"laptop", action, resource)
when { resource.riskRank >= 3 };

@id("reason-required")
@message("Say why: set intent_reason.")
forbid (principal, action == Action::"destructive", resource)
unless { context.hasReason };

@id("no-mail")
forbid (principal, action, resource in Server::"mail");

@id("bench-reads-and-writes")
forbid (principal == Agent::"bench", action == Action::"destructive", resource);

@id("nothing-critical")
forbid (principal, action, resource)
when { resource.riskRank >= 4 };
"#;

/// The permission that the contracts ask for.
pub(crate) const PERMISSION: &str = "notes:*";

/// Writes 10 contracts and 5 policies into a data folder.
pub(crate) fn write(home: &Path) -> Result<()> {
    let mut contracts = String::new();
    for server in [Server::Sessions, Server::Stateless, Server::Stdio] {
        for (tool, operation) in [(tools::ECHO, "read"), (tools::KEEP, "write")] {
            // Writing to a string cannot fail.
            let _ = write!(
                contracts,
                "- tool: {}:{tool}\n  riskLevel: low\n  operation: {operation}\n  permissions: [notes:{operation}]\n  \
                 rateLimit: {{ calls: 100000, per: 1s }}\n",
                server.name()
            );
        }
    }
    for tool in ["delete_user", "send_mail", "export_table", "restart"] {
        let _ = write!(contracts, "- tool: other:{tool}\n  riskLevel: critical\n  operation: destructive\n");
    }
    std::fs::create_dir_all(home.join("contracts"))?;
    std::fs::write(home.join("contracts/bench.yaml"), contracts)?;
    std::fs::create_dir_all(home.join("policies"))?;
    std::fs::write(home.join("policies/bench.cedar"), POLICIES)?;
    Ok(())
}
