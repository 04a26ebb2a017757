//! Endpoint modes: four tools for everything, one server as it is, or all tools of all servers.

use std::borrow::Cow;

use mcpproxy_core::{Denial, ParameterPlace, ServerName, ToolName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointMode {
    /// `/mcp`: `retrieve_tools` and the three variants.
    Four,
    /// `/mcp/s/NAME`: one server under its own names.
    Server(ServerName),
    /// `/mcp/direct`: all servers, tools as `server__tool`.
    Direct,
}

/// Stands between a server's name and the name of its tool or prompt.
const SEPARATOR: &str = "__";
const SCHEME: &str = "mcpproxy://";

impl EndpointMode {
    /// Returns the word for records: `four`, `server` or `direct`.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Four => "four",
            Self::Server(_) => "server",
            Self::Direct => "direct",
        }
    }

    /// Returns where a call of this mode has the gateway's own parameters.
    pub(crate) fn parameters(&self) -> ParameterPlace {
        match self {
            Self::Four => ParameterPlace::Arguments,
            Self::Server(_) | Self::Direct => ParameterPlace::Meta,
        }
    }

    pub(crate) fn shows(&self, server: &ServerName) -> bool {
        match self {
            Self::Four | Self::Direct => true,
            Self::Server(name) => name == server,
        }
    }

    /// Returns the name under which this mode offers a tool or prompt.
    pub(crate) fn name_out(&self, server: &ServerName, name: &str) -> String {
        match self {
            Self::Server(_) => name.to_owned(),
            Self::Four | Self::Direct => format!("{server}{SEPARATOR}{name}"),
        }
    }

    /// Names the tools that a refusal suggests as this mode offers them. Tools that it does not offer are left out.
    pub(crate) fn named<'d>(&self, denial: &'d Denial) -> Cow<'d, Denial> {
        let Denial::NoSuchTool { name, missing, suggestions } = denial else { return Cow::Borrowed(denial) };
        match self {
            Self::Four => Cow::Borrowed(denial),
            Self::Server(_) | Self::Direct => {
                let tools = suggestions.iter().filter_map(|suggested| ToolName::parse(suggested).ok());
                let tools = tools.filter(|tool| self.shows(tool.server()));
                let suggestions = tools.map(|tool| self.name_out(tool.server(), tool.tool())).collect();
                Cow::Owned(Denial::NoSuchTool { name: name.clone(), missing: *missing, suggestions })
            }
        }
    }

    /// Splits a name of this mode into the server and the server's own name.
    pub(crate) fn name_in<'n>(&self, name: &'n str) -> Option<(ServerName, &'n str)> {
        match self {
            Self::Server(server) => Some((server.clone(), name)),
            Self::Four | Self::Direct => {
                let (server, name) = name.split_once(SEPARATOR)?;
                Some((ServerName::parse(server).ok()?, name))
            }
        }
    }

    pub(crate) fn tool_in(&self, name: &str) -> Option<ToolName> {
        let (server, tool) = self.name_in(name)?;
        ToolName::of(&server, tool).ok()
    }

    /// Returns the URI under which this mode offers a resource.
    pub(crate) fn uri_out(&self, server: &ServerName, uri: &str) -> String {
        match self {
            Self::Server(_) => uri.to_owned(),
            Self::Four | Self::Direct => format!("{SCHEME}{server}/{uri}"),
        }
    }

    pub(crate) fn uri_in<'u>(&self, uri: &'u str) -> Option<(ServerName, &'u str)> {
        match self {
            Self::Server(server) => Some((server.clone(), uri)),
            Self::Four | Self::Direct => {
                let (server, uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
                Some((ServerName::parse(server).ok()?, uri))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_find_their_way_back() {
        let server = ServerName::parse("my-server_2").unwrap();
        for endpoint_mode in [EndpointMode::Four, EndpointMode::Direct, EndpointMode::Server(server.clone())] {
            for name in ["tool", "_tool", "a__b"] {
                assert_eq!(
                    endpoint_mode.name_in(&endpoint_mode.name_out(&server, name)),
                    Some((server.clone(), name)),
                    "{endpoint_mode:?}"
                );
            }
            for uri in ["file:///a/b?c#d", "memo://x", "plain"] {
                assert_eq!(
                    endpoint_mode.uri_in(&endpoint_mode.uri_out(&server, uri)),
                    Some((server.clone(), uri)),
                    "{endpoint_mode:?}"
                );
            }
        }
        assert_eq!(EndpointMode::Direct.name_out(&server, "tool"), "my-server_2__tool");
        assert_eq!(EndpointMode::Four.uri_out(&server, "file:///a"), "mcpproxy://my-server_2/file:///a");
        assert_eq!(EndpointMode::Direct.name_in("tool"), None);
    }
}
