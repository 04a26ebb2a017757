//! Carries MCP messages between a client on standard input and output and the running gateway.
//!
//! Several clients can share one gateway this way: each one starts `mcpproxy stdio`, and each bridge sends the client's
//! messages to `/mcp` over HTTP with the token in `agent.token`.
//!
//! - One line is one message. The bridge reads only the fields that it needs for HTTP headers and forwards every
//!   message unchanged.
//! - Requests run in parallel, each on its own HTTP request. Notifications keep their order.
//! - Clients with a handshake get an MCP session, and its id is added to every request. If the gateway restarts, the
//!   bridge finds it again through `gateway.lock`, repeats the client's `initialize`, and retries what was certainly
//!   not processed ([`session`]). Stateless clients need none of this.
//! - A cancelled stateless request is cancelled by closing its HTTP request.
//! - When the client closes standard input, running requests get ten seconds to finish.
//!
//! The bridge makes no decisions. Everything that checks a call happens in the gateway, so a client cannot avoid it.

mod session;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::client::jsonrpc::Envelope;
use crate::home::Home;
use crate::home::lock::Running;
use session::Session;

const LINE_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of answers that wait to be written.
const QUEUE_MAX: usize = 64;
/// Time for running calls after the client has closed standard input.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

const PARSE_ERROR: i64 = -32700;
const INTERNAL_ERROR: i64 = -32603;

/// Runs until the client closes standard input.
pub(crate) async fn run<R, W>(home: &Home, running: &Running, reader: R, writer: W) -> anyhow::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (out, messages) = mpsc::channel(QUEUE_MAX);
    let writer = tokio::spawn(write_lines(messages, writer));
    let mut bridge = Bridge {
        session: Arc::new(Session::new(home.clone(), running, Out(out))?),
        calls: JoinSet::new(),
        streams: JoinSet::new(),
        cancellable: Arc::default(),
    };
    let outcome = bridge.read_all(BufReader::new(reader)).await;
    bridge.finish().await;
    writer.await.context("the writing task failed")?;
    outcome
}

struct Bridge {
    session: Arc<Session>,
    calls: JoinSet<()>,
    /// Streams that stay open until the client disconnects.
    streams: JoinSet<()>,
    /// Running stateless requests by id. Closing the connection of one cancels it.
    cancellable: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

impl Bridge {
    async fn read_all<R: AsyncRead + Unpin>(&mut self, mut reader: BufReader<R>) -> anyhow::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut reader).take(LINE_MAX_BYTES).read_until(b'\n', &mut line).await;
            if read.context("could not read from the client")? == 0 {
                return Ok(());
            }
            anyhow::ensure!(line.len() as u64 != LINE_MAX_BYTES, "the client sent a line of more than 64 MiB");
            match std::str::from_utf8(&line).map(str::trim) {
                Ok("") => {}
                Ok(text) => self.take(text).await,
                Err(_) => self.session.out.error(None, PARSE_ERROR, "not UTF-8").await,
            }
            while self.calls.try_join_next().is_some() {}
        }
    }

    /// Handles one message of the client. Requests run in parallel, and all other messages keep their order.
    async fn take(&mut self, text: &str) {
        let envelope = match Envelope::parse(text) {
            Ok(envelope) => envelope,
            Err(_) if text.starts_with('[') => return self.start(text, None),
            Err(error) => return self.session.out.error(None, PARSE_ERROR, &error.to_string()).await,
        };
        match (envelope.method.as_deref(), &envelope.id) {
            (Some("initialize"), Some(_)) => self.session.initialize(text, &envelope).await,
            (Some(_), Some(_)) => self.start(text, Some(envelope)),
            (Some("notifications/cancelled"), None) if self.cancel(&envelope) => {}
            (method, _) => {
                self.session.exchange(text, Some(&envelope)).await;
                if method == Some("notifications/initialized") {
                    let session = Arc::clone(&self.session);
                    self.streams.spawn(async move { session.listen().await });
                }
            }
        }
    }

    fn start(&mut self, text: &str, envelope: Option<Envelope>) {
        let session = Arc::clone(&self.session);
        let text = text.to_owned();
        let id = envelope
            .as_ref()
            .filter(|envelope| envelope.revision().is_some())
            .and_then(|envelope| envelope.id.as_ref());
        let id = id.map(|id| id.get().to_owned());
        let is_stream =
            envelope.as_ref().is_some_and(|envelope| envelope.method.as_deref() == Some("subscriptions/listen"));
        let cancellable = Arc::clone(&self.cancellable);
        let done = id.clone();
        let work = async move {
            session.exchange(&text, envelope.as_ref()).await;
            if let Some(id) = done {
                lock(&cancellable).remove(&id);
            }
        };
        // The lock is held until the handle is stored, so that the request cannot finish before.
        let mut known = lock(&self.cancellable);
        let handle = if is_stream { self.streams.spawn(work) } else { self.calls.spawn(work) };
        if let Some(id) = id {
            known.insert(id, handle);
        }
    }

    /// Cancels a stateless request by closing its connection. Returns false for any other request, whose cancellation
    /// must be forwarded to the gateway.
    fn cancel(&self, envelope: &Envelope) -> bool {
        let handle = envelope.cancelled_id().and_then(|id| lock(&self.cancellable).remove(id));
        if let Some(handle) = &handle {
            handle.abort();
        }
        handle.is_some()
    }

    async fn finish(mut self) {
        self.streams.shutdown().await;
        let drain = async { while self.calls.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, drain).await.is_err() {
            self.calls.shutdown().await;
        }
        self.session.end().await;
    }
}

/// The queue of messages to the client.
#[derive(Clone)]
struct Out(mpsc::Sender<String>);

impl Out {
    async fn message(&self, text: &str) {
        // In JSON a line break can only stand between tokens, where a space means the same.
        let line = if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text.to_owned() };
        // A client that stopped reading has closed its input too, or soon will.
        let _client_is_gone = self.0.send(line).await;
    }

    async fn error(&self, id: Option<&RawValue>, code: i64, message: &str) {
        let id = id.map_or("null", RawValue::get);
        let error = json!({ "code": code, "message": message });
        self.message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await;
    }
}

async fn write_lines<W: AsyncWrite + Unpin>(mut messages: mpsc::Receiver<String>, mut writer: W) {
    while let Some(mut line) = messages.recv().await {
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    /// Connects a test client to a bridge in front of `gateway`.
    async fn client(
        gateway: &TcpListener,
    ) -> (tempfile::TempDir, tokio::io::DuplexStream, tokio::task::JoinHandle<()>) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
        crate::home::secret::write_secret(&home.agent_token(), "mcp_test").unwrap();
        let running = Running { address: gateway.local_addr().unwrap().to_string(), ..Running::default() };
        let (client, ours) = tokio::io::duplex(1024);
        let (reader, writer) = tokio::io::split(ours);
        let bridge = tokio::spawn(async move { run(&home, &running, reader, writer).await.unwrap() });
        (folder, client, bridge)
    }

    async fn request(gateway: &TcpListener) -> (TcpStream, String) {
        let (mut stream, _) = gateway.accept().await.unwrap();
        let mut text = String::new();
        while !text.ends_with('}') {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).await.unwrap();
            text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        (stream, text)
    }

    #[tokio::test]
    async fn a_cancelled_stateless_request_closes_its_connection() {
        let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_folder, mut client, bridge) = client(&gateway).await;
        let call = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"x",{META}}}}}"#);
        client.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        let (mut stream, text) = request(&gateway).await;
        assert!(text.ends_with(&call), "{text}");
        for header in [
            "authorization: Bearer mcp_test",
            "mcp-method: tools/call",
            "mcp-name: x",
            "mcp-protocol-version: 2026-07-28",
        ] {
            assert!(text.contains(&format!("{header}\r\n")), "{header} in {text}");
        }
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        client.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        client.shutdown().await.unwrap();
        bridge.await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "");
    }

    #[tokio::test]
    async fn an_answer_that_never_comes_is_an_error() {
        let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_folder, mut client, bridge) = client(&gateway).await;
        let call = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"x",{META}}}}}"#);
        client.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        let (mut stream, _) = request(&gateway).await;
        let event = "data: {\"method\":\"notifications/progress\"}\n\n";
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", event.len());
        stream.write_all(format!("{head}{event}").as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        bridge.await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(
            said,
            "{\"method\":\"notifications/progress\"}\n{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\
             \"message\":\"the gateway ended the stream before it answered\"}}\n"
        );
    }
}
