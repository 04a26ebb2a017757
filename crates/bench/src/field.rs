//! The processes under test. Each is started when a case first needs it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::case::{Agent, Case, Operation, Server, Setup};
use crate::child::{Child, Stdout};
use crate::gateway::{self, Beside, Gateway, Servers};
use crate::leg::Leg;
use crate::nginx::Nginx;
use crate::payload::Payload;
use crate::peer::Peer;
use crate::postgres::Postgres;
use crate::report::Memory;
use crate::request::{Call, Target, wrapped};
use crate::tools;

const QUERY: &str = "find the invoices of a customer";

/// A gateway that a case needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Setup(Setup),
    ManyTools,
}

/// Dropping it stops all processes, the proxies before the servers they call.
pub(crate) struct Field {
    program: PathBuf,
    peer_program: Option<PathBuf>,
    gateways: Vec<(Which, Gateway)>,
    nginx: Vec<(SocketAddr, Nginx)>,
    peers: Vec<(Server, Peer)>,
    postgres: Option<Postgres>,
    sessions: Echo,
    stateless: Echo,
    many: Option<Echo>,
    memory: Memory,
}

impl Field {
    pub(crate) fn start(program: Option<PathBuf>, peer_program: Option<PathBuf>) -> Result<Self> {
        Ok(Field {
            program: program.map_or_else(gateway::beside_this_program, Ok)?,
            peer_program,
            gateways: Vec::new(),
            nginx: Vec::new(),
            peers: Vec::new(),
            postgres: None,
            sessions: Echo::start(Server::Sessions, 0)?,
            stateless: Echo::start(Server::Stateless, 0)?,
            many: None,
            memory: Memory::default(),
        })
    }

    /// Returns the legs among `asked` that exist for this case.
    pub(crate) fn legs(&self, case: &Case, asked: &[Leg]) -> Vec<Leg> {
        let here = |leg: Leg| leg.fits(case) && (leg != Leg::Peer || self.peer_program.is_some());
        asked.iter().copied().filter(|leg| here(*leg)).collect()
    }

    /// Starts what this leg of the case needs, and returns the call to send.
    pub(crate) async fn prepare(&mut self, case: &Case, leg: Leg) -> Result<Call> {
        let own_tool = match case.operation {
            Operation::Read | Operation::Search => tools::ECHO,
            Operation::Write => tools::KEEP,
        };
        let payload = match case.operation {
            Operation::Read | Operation::Write => Payload::new(case.content, case.payload),
            Operation::Search => Payload::query(QUERY),
        };
        let (tool, arguments): (String, Value) = match (leg, case.operation) {
            (Leg::Mcp, Operation::Search) => ("retrieve_tools".to_owned(), payload.arguments.clone()),
            (Leg::Mcp, Operation::Read | Operation::Write) => {
                let variant = if case.operation == Operation::Read { "call_tool_read" } else { "call_tool_write" };
                let name = format!("{}:{own_tool}", case.server.name());
                (variant.to_owned(), wrapped(&name, &payload.arguments))
            }
            (Leg::Peer, _) => (format!("{}_{own_tool}", case.server.name()), payload.arguments.clone()),
            (Leg::Direct | Leg::Nginx | Leg::Server, _) => (own_tool.to_owned(), payload.arguments.clone()),
        };
        Call::new(self.target(case, leg).await?, &tool, &arguments, payload)
    }

    async fn target(&mut self, case: &Case, leg: Leg) -> Result<Target> {
        // Without a gateway, the agent must speak what the server speaks.
        let (echo, native) = match case.server {
            Server::Sessions | Server::Stdio => (self.sessions.address, Agent::Sessions),
            Server::Stateless => (self.stateless.address, Agent::Stateless),
        };
        let plain = |address, speaks| Target { address, path: "/mcp", token: None, speaks };
        Ok(match leg {
            Leg::Direct => plain(echo, native),
            Leg::Nginx => plain(self.nginx(echo).await?.address, native),
            Leg::Peer => Target { path: "/", ..plain(self.peer(case.server).await?.address, Agent::Sessions) },
            Leg::Mcp | Leg::Server => {
                let path = match (leg, case.server) {
                    (Leg::Direct | Leg::Nginx | Leg::Peer | Leg::Mcp, _) => "/mcp",
                    (Leg::Server, Server::Sessions) => "/mcp/s/sessions",
                    (Leg::Server, Server::Stateless) => "/mcp/s/stateless",
                    (Leg::Server, Server::Stdio) => "/mcp/s/stdio",
                };
                let gateway = self.gateway(which(case)).await?;
                Target { address: gateway.address, path, token: Some(gateway.token.clone()), speaks: case.agent }
            }
        })
    }

    /// Returns the process whose CPU time is measured, after [`Field::prepare`] started it.
    pub(crate) fn middle(&self, case: &Case, leg: Leg) -> Option<&Child> {
        match leg {
            Leg::Direct => None,
            Leg::Nginx => {
                let echo = if case.server == Server::Stateless { &self.stateless } else { &self.sessions };
                self.nginx.iter().find(|(each, _)| *each == echo.address).map(|(_, nginx)| &nginx.child)
            }
            Leg::Peer => self.peers.iter().find(|(server, _)| *server == case.server).map(|(_, peer)| &peer.child),
            Leg::Mcp | Leg::Server => {
                let which = which(case);
                self.gateways.iter().find(|(each, _)| *each == which).map(|(_, gateway)| &gateway.child)
            }
        }
    }

    /// Returns the database server behind [`Field::middle`], if it has one.
    pub(crate) fn database(&self, case: &Case, leg: Leg) -> Option<&Child> {
        match (leg, which(case)) {
            (Leg::Mcp | Leg::Server, Which::Setup(Setup::Postgres)) => {
                self.postgres.as_ref().map(|server| &server.child)
            }
            (Leg::Mcp | Leg::Server, Which::Setup(Setup::Plain | Setup::Rules) | Which::ManyTools) => None,
            (Leg::Direct | Leg::Nginx | Leg::Peer, _) => None,
        }
    }

    pub(crate) fn memory(&mut self) -> Result<Memory> {
        if let Some((_, gateway)) = self.gateways.iter().find(|(each, _)| *each == Which::Setup(Setup::Plain)) {
            self.memory.after_load_kib = Some(gateway.child.rss_kib()?);
        }
        Ok(self.memory)
    }

    async fn nginx(&mut self, echo: SocketAddr) -> Result<&Nginx> {
        if !self.nginx.iter().any(|(each, _)| *each == echo) {
            self.nginx.push((echo, Nginx::start(echo).await?));
        }
        self.nginx.iter().find(|(each, _)| *each == echo).map(|(_, nginx)| nginx).context("nginx was not started")
    }

    async fn peer(&mut self, server: Server) -> Result<&Peer> {
        if !self.peers.iter().any(|(each, _)| *each == server) {
            let program = self.peer_program.as_ref().context("--mcp-proxy is missing")?;
            let echo = if server == Server::Stateless { self.stateless.address } else { self.sessions.address };
            self.peers.push((server, Peer::start(program, server, echo).await?));
        }
        self.peers.iter().find(|(each, _)| *each == server).map(|(_, peer)| peer).context("mcp-proxy was not started")
    }

    async fn gateway(&mut self, which: Which) -> Result<&Gateway> {
        if !self.gateways.iter().any(|(each, _)| *each == which) {
            let gateway = self.start_gateway(which).await?;
            self.gateways.push((which, gateway));
        }
        self.gateways.iter().find(|(each, _)| *each == which).map(|(_, gateway)| gateway).context("no gateway")
    }

    async fn start_gateway(&mut self, which: Which) -> Result<Gateway> {
        let all =
            Servers { sessions: self.sessions.address, stateless: Some(self.stateless.address), tools: tools::OWN };
        let program = &self.program;
        match which {
            Which::ManyTools => {
                let echo = Echo::start(Server::Sessions, tools::MANY)?;
                let servers = Servers { sessions: echo.address, stateless: None, tools: tools::OWN + tools::MANY };
                self.many = Some(echo);
                let gateway = Gateway::start(program, &servers, Setup::Plain, Beside::default()).await?;
                self.memory.many_tools_kib = Some(gateway.idle_rss_kib().await?);
                Ok(gateway)
            }
            Which::Setup(Setup::Plain) => {
                let gateway = Gateway::start(program, &all, Setup::Plain, Beside::default()).await?;
                self.memory.idle_kib = Some(gateway.idle_rss_kib().await?);
                Ok(gateway)
            }
            Which::Setup(Setup::Rules) => Gateway::start(program, &all, Setup::Rules, Beside::default()).await,
            Which::Setup(Setup::Postgres) => {
                let postgres = Postgres::start().await?;
                let beside = Beside { storage: Some(&postgres.url), ..Beside::default() };
                let gateway = Gateway::start(program, &all, Setup::Postgres, beside).await?;
                self.postgres = Some(postgres);
                Ok(gateway)
            }
        }
    }
}

fn which(case: &Case) -> Which {
    match case.operation {
        Operation::Search => Which::ManyTools,
        Operation::Read | Operation::Write => Which::Setup(case.setup),
    }
}

/// The echo server in a process of its own, so that it does not share a thread with the load.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    _child: Child,
}

impl Echo {
    pub(crate) fn start(speaks: Server, tools: usize) -> Result<Self> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["echo", "--server", speaks.name(), "--tools", &tools.to_string()]);
        let mut child = Child::start("the echo server", command, Stdout::Pipe)?;
        let line = child.first_line()?;
        let address = line.trim().trim_start_matches("http://").trim_end_matches("/mcp").parse();
        Ok(Echo { address: address.with_context(|| format!("no address in `{}`", line.trim()))?, _child: child })
    }
}
