//! The cases of the benchmark: the protocols of agent and server, the operation and the payload.
//!
//! A case is one combination of the axes below. Without options, the benchmark measures [`typical`]: sessions and stdio
//! first, because that is what most agents and servers use. Any option for an axis replaces that list by all
//! combinations of the values given.

use clap::ValueEnum;

/// The protocol that the agent speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Agent {
    /// MCP 2025-11-25: `initialize` first, then a session
    Sessions,
    /// MCP 2026-07-28: everything in each request
    Stateless,
}

/// The protocol that the server speaks, and the way to reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Server {
    /// MCP 2025-11-25 over HTTP, with sessions
    Sessions,
    /// MCP 2026-07-28 over HTTP
    Stateless,
    /// MCP 2025-11-25 over standard input and output
    Stdio,
}

impl Server {
    /// The name of the server in the gateway's settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Server::Sessions => "sessions",
            Server::Stateless => "stateless",
            Server::Stdio => "stdio",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Operation {
    /// `call_tool_read`
    Read,
    /// `call_tool_write`: the record is on the disk before the call is sent, and the outcome before it is answered
    Write,
    /// `retrieve_tools` among 1,001 tools
    Search,
}

/// The form of the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Content {
    /// One string of words
    Words,
    /// One string of base64
    Base64,
    /// Objects in arrays in objects
    Nested,
}

/// The settings of the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Setup {
    /// As installed
    Plain,
    /// With 10 contracts, and 5 policies in Cedar
    Rules,
    /// As installed, with PostgreSQL for storage
    Postgres,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) agent: Agent,
    pub(crate) server: Server,
    pub(crate) operation: Operation,
    pub(crate) payload: u32,
    pub(crate) content: Content,
    pub(crate) setup: Setup,
    pub(crate) connections: Vec<u16>,
}

/// The case of most users. The others differ from it in one or two axes.
const COMMON: Case = Case {
    agent: Agent::Sessions,
    server: Server::Sessions,
    operation: Operation::Read,
    payload: 100,
    content: Content::Words,
    setup: Setup::Plain,
    connections: Vec::new(),
};

impl Case {
    fn over(self, connections: &[u16]) -> Self {
        Case { connections: connections.to_vec(), ..self }
    }

    pub(crate) fn label(&self) -> String {
        let agent = match self.agent {
            Agent::Sessions => "2025-11-25",
            Agent::Stateless => "2026-07-28",
        };
        let operation = match self.operation {
            Operation::Search => return format!("agent {agent}, retrieve_tools among 1,001 tools"),
            Operation::Read => "read",
            Operation::Write => "durable write",
        };
        let server = match self.server {
            Server::Sessions => "HTTP server 2025-11-25",
            Server::Stateless => "HTTP server 2026-07-28",
            Server::Stdio => "stdio server",
        };
        let content = match self.content {
            Content::Words => "words",
            Content::Base64 => "base64",
            Content::Nested => "nested JSON",
        };
        let setup = match self.setup {
            Setup::Plain => "",
            Setup::Rules => ", 10 contracts and 5 policies",
            Setup::Postgres => ", PostgreSQL",
        };
        format!("agent {agent}, {server}, {operation}, {} of {content}{setup}", size(self.payload))
    }
}

/// Returns the case of most users, and cases that differ from it in one respect.
pub(crate) fn typical() -> Vec<Case> {
    let large = |payload, content| Case { payload, content, ..COMMON }.over(&[1]);
    vec![
        COMMON.over(&[1, 8, 32, 64]),
        Case { server: Server::Stdio, ..COMMON }.over(&[1, 8]),
        Case { agent: Agent::Stateless, ..COMMON }.over(&[1]),
        Case { agent: Agent::Stateless, server: Server::Stateless, ..COMMON }.over(&[1, 8, 32]),
        Case { operation: Operation::Write, ..COMMON }.over(&[1, 8, 64]),
        large(10_000, Content::Words),
        large(10_000, Content::Nested),
        large(1_000_000, Content::Words),
        large(1_000_000, Content::Base64),
        large(1_000_000, Content::Nested),
        Case { setup: Setup::Rules, ..COMMON }.over(&[1, 8]),
        Case { setup: Setup::Postgres, ..COMMON }.over(&[1, 8]),
        Case { setup: Setup::Postgres, operation: Operation::Write, ..COMMON }.over(&[1, 8, 64]),
        Case { operation: Operation::Search, ..COMMON }.over(&[1]),
    ]
}

/// Returns a few cases that take half a minute, for everyday use.
pub(crate) fn quick() -> Vec<Case> {
    vec![
        COMMON.over(&[1, 8]),
        Case { server: Server::Stdio, ..COMMON }.over(&[1]),
        Case { operation: Operation::Write, ..COMMON }.over(&[64]),
        Case { payload: 10_000, ..COMMON }.over(&[1]),
        Case { payload: 1_000_000, ..COMMON }.over(&[1]),
    ]
}

/// The values given for each axis. An empty list stands for the value of the common case.
#[derive(clap::Args, Debug)]
pub(crate) struct Axes {
    /// Protocols that the agent speaks
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) agents: Vec<Agent>,
    /// Servers to call
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) servers: Vec<Server>,
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) operations: Vec<Operation>,
    /// Bytes in each call and in its answer
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=8_000_000))]
    pub(crate) payloads: Vec<u32>,
    /// Forms of the payload
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) contents: Vec<Content>,
    /// Settings of the gateway
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) setups: Vec<Setup>,
    /// Numbers of concurrent agents
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) connections: Vec<u16>,
}

impl Axes {
    pub(crate) fn is_empty(&self) -> bool {
        let Axes { agents, servers, operations, payloads, contents, setups, connections } = self;
        agents.is_empty()
            && servers.is_empty()
            && operations.is_empty()
            && payloads.is_empty()
            && contents.is_empty()
            && setups.is_empty()
            && connections.is_empty()
    }

    /// Returns all combinations of the values given.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let connections = or(&self.connections, 1);
        let mut cases = vec![COMMON.over(&connections)];
        cases = vary(cases, &or(&self.setups, COMMON.setup), |case, setup| case.setup = setup);
        cases = vary(cases, &or(&self.agents, COMMON.agent), |case, agent| case.agent = agent);
        cases = vary(cases, &or(&self.servers, COMMON.server), |case, server| case.server = server);
        cases = vary(cases, &or(&self.operations, COMMON.operation), |case, operation| case.operation = operation);
        cases = vary(cases, &or(&self.payloads, COMMON.payload), |case, payload| case.payload = payload);
        vary(cases, &or(&self.contents, COMMON.content), |case, content| case.content = content)
    }
}

fn or<T: Copy>(given: &[T], common: T) -> Vec<T> {
    if given.is_empty() { vec![common] } else { given.to_vec() }
}

fn vary<T: Copy>(cases: Vec<Case>, values: &[T], set: fn(&mut Case, T)) -> Vec<Case> {
    let one = |case: Case| {
        values.iter().map(move |&value| {
            let mut case = case.clone();
            set(&mut case, value);
            case
        })
    };
    cases.into_iter().flat_map(one).collect()
}

fn size(bytes: u32) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} KB", f64::from(bytes) / 1e3),
        1_000_000.. => format!("{} MB", f64::from(bytes) / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_combined() {
        let axes = Axes {
            agents: vec![Agent::Sessions, Agent::Stateless],
            servers: vec![],
            operations: vec![Operation::Read, Operation::Write],
            payloads: vec![100, 10_000, 1_000_000],
            contents: vec![],
            setups: vec![],
            connections: vec![1, 8],
        };
        let cases = axes.cases();
        assert_eq!(cases.len(), 12);
        assert!(cases.iter().all(|case| case.connections == [1, 8] && case.server == Server::Sessions));
        assert_eq!(cases.iter().filter(|case| case.payload == 100 && case.operation == Operation::Write).count(), 2);
    }

    #[test]
    fn the_first_case_is_the_common_one() {
        let label = "agent 2025-11-25, HTTP server 2025-11-25, read, 100 B of words";
        assert_eq!(typical()[0].label(), label);
        assert_eq!(quick()[0].label(), label);
        assert_eq!(size(1_000_000), "1 MB");
        assert_eq!(size(10_500), "10.5 KB");
    }
}
