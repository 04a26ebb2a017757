//! The text that `serve` prints when it is ready: address, connection settings, and commands to try.

use std::path::Path;

use mcpproxy_core::settings::TransportSettings;
use serde_json::json;

use crate::home::Home;
use crate::runtime::Runtime;
use crate::runtime::first_user::SetupLink;
use crate::terminal::output::{counted, counted_as};

/// Maximum number of server names in the banner.
const SERVERS_SHOWN_MAX: usize = 12;

/// Formats the banner. `setup` is the setup link, if no user exists yet.
pub(crate) async fn banner(home: &Home, runtime: &Runtime, setup: Option<&SetupLink>) -> String {
    let address = runtime.address;
    // A certificate is for names, so that clients get the address of links for users.
    let (scheme, url) = match runtime.settings.tls {
        Some(_) => ("https", format!("{}/mcp", runtime.base_url)),
        None => ("http", format!("http://{address}/mcp")),
    };
    let token = &runtime.local.token;
    let settings = home.settings();
    let settings = match runtime.has_settings_file {
        true => format!("{}{}", settings.display(), version(runtime.gateway.version())),
        false => format!("none, so the demo server runs. `mcpproxy servers add` creates {}", settings.display()),
    };
    let http =
        json!({"mcpServers": {"mcpproxy": {"url": url, "headers": {"Authorization": format!("Bearer {token}")}}}});
    let revoked = if runtime.local.agent.is_none() { "  (revoked)" } else { "" };
    let program = program();
    format!(
        "mcpproxy {version} listens on {scheme}://{address}

  Settings     {settings}
  Servers      {servers}
  Agent token  {token}{revoked}
  Approvals    {approvals}
{reviews}
Connect a client. This lists those on this machine:
  {connect}
Or paste one of these into its settings, for HTTP or stdio:
  {http}
  {stdio}

Try in another terminal:
{tries}
",
        version = env!("CARGO_PKG_VERSION"),
        servers = servers(runtime),
        approvals = approvals(runtime, setup),
        reviews = reviews(home, &program, &waiting(runtime).await),
        connect = home.command(&program, "connect"),
        stdio = stdio_definition(home),
        tries = tries(runtime)
            .iter()
            .map(|rest| format!("  {}", home.command(&program, rest)))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// Words the published version in force.
fn version(number: Option<i64>) -> String {
    match number {
        None => String::new(),
        Some(0) => {
            ", and nothing is published in the database yet. Run `mcpproxy config apply --from FOLDER`".to_owned()
        }
        Some(number) => format!(", and version {number} in the database"),
    }
}

/// Returns the address of the approval page or, if no user exists yet, the setup link.
fn approvals(runtime: &Runtime, setup: Option<&SetupLink>) -> String {
    let base = &runtime.base_url;
    match setup {
        None => format!("{base}/ui/"),
        Some(setup) => format!("{}\n               {}", setup.sentence(), setup.url),
    }
}

/// Counts the definitions that wait for a review since the last run, for each enabled server. The servers are not
/// connected yet, so there may be more soon.
async fn waiting(runtime: &Runtime) -> Vec<(String, u64)> {
    // The store logs its own errors, and `status` shows the number later.
    let counts = runtime.store.waiting_counts().await.unwrap_or_default();
    let enabled = runtime.settings.servers.iter().filter(|server| server.enabled);
    let count = |identity: &str| counts.iter().find(|(other, _)| other == identity).map_or(0, |(_, count)| *count);
    let all = enabled.map(|server| (server.name.to_string(), count(server.identity.key())));
    all.filter(|(_, count)| *count > 0).collect()
}

/// Formats the line about reviews. Nothing, if nothing waits.
fn reviews(home: &Home, program: &str, waiting: &[(String, u64)]) -> String {
    let Some((first, _)) = waiting.first() else { return String::new() };
    let total = usize::try_from(waiting.iter().map(|(_, count)| count).sum::<u64>()).unwrap_or(usize::MAX);
    let wait = counted_as(total, "definition waits", "definitions wait");
    let more = match waiting.len() - 1 {
        0 => String::new(),
        more => format!(", at {first} and {}", counted(more, "other server")),
    };
    let command = home.command(program, &format!("servers review {first}"));
    format!("  Reviews      {wait}{more}:\n               {command}\n")
}

fn servers(runtime: &Runtime) -> String {
    let servers = &runtime.settings.servers;
    let enabled: Vec<&str> =
        servers.iter().filter(|server| server.enabled).map(|server| server.name.as_str()).collect();
    let shown = enabled.iter().take(SERVERS_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    match enabled.len() {
        0 => "none enabled".to_owned(),
        count if count > SERVERS_SHOWN_MAX => format!("{shown} and {} more", count - SERVERS_SHOWN_MAX),
        _ => shown,
    }
}

fn stdio_definition(home: &Home) -> String {
    let program = std::env::current_exe().map_or_else(|_| "mcpproxy".to_owned(), |path| path.display().to_string());
    let mut args = vec!["stdio".to_owned()];
    if !home.is_default() {
        args.extend(["--home".to_owned(), home.folder().display().to_string()]);
    }
    json!({"mcpServers": {"mcpproxy": {"command": program, "args": args}}}).to_string()
}

/// Returns three commands that work as printed.
fn tries(runtime: &Runtime) -> [&'static str; 3] {
    let has_demo = runtime
        .settings
        .servers
        .iter()
        .any(|s| s.enabled && s.transport == TransportSettings::Demo && s.name.as_str() == "demo");
    if has_demo {
        ["tools search \"find a contact\"", "call tool-read demo:list_projects", "activity list"]
    } else {
        ["servers list", "tools list", "activity list"]
    }
}

/// Returns the name that this program was started with, so that the commands can be pasted.
fn program() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    if program.contains('/') { program } else { name.unwrap_or_else(|| "mcpproxy".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_are_counted() {
        let home = Home::resolve(Some("/data".into())).unwrap();
        let check = |waiting: &[(&str, u64)], expected: &str| {
            let waiting: Vec<(String, u64)> =
                waiting.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            assert_eq!(reviews(&home, "mcpproxy", &waiting), expected);
        };
        let command = home.command("mcpproxy", "servers review fx");
        check(&[], "");
        check(&[("fx", 1)], &format!("  Reviews      1 definition waits:\n               {command}\n"));
        check(
            &[("fx", 2), ("gh", 3)],
            &format!("  Reviews      5 definitions wait, at fx and 1 other server:\n               {command}\n"),
        );
    }
}
