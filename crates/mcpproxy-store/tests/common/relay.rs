//! A TCP relay between the store and PostgreSQL that a test can cut at the worst moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards everything until it is told to cut.
pub(crate) struct Relay {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

/// Bytes at which the relay cuts. It does not forward them.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every test file uses both")]
pub(crate) enum Words {
    FromServer(&'static [u8]),
    ToServer(&'static [u8]),
}

struct Shared {
    cut_at: watch::Sender<Option<Words>>,
    is_cut: AtomicBool,
}

impl Relay {
    pub(crate) async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { cut_at: watch::Sender::new(None), is_cut: AtomicBool::new(false) });
        let passing = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !passing.is_cut.load(Ordering::SeqCst) {
                    tokio::spawn(pass(client, server_port, Arc::clone(&passing)));
                }
            }
        });
        Self { port, shared }
    }

    /// Cuts all connections the next time one side sends these bytes.
    pub(crate) fn cut_at(&self, words: Words) {
        self.shared.cut_at.send_replace(Some(words));
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.shared.is_cut.load(Ordering::SeqCst)
    }

    pub(crate) fn mend(&self) {
        self.shared.cut_at.send_replace(None);
        self.shared.is_cut.store(false, Ordering::SeqCst);
    }
}

async fn pass(mut client: TcpStream, server_port: u16, shared: Arc<Shared>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    let (mut asked, mut answered) = ([0; 64 * 1024], [0; 64 * 1024]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let question = asked.get(..length).unwrap();
                if let Some(Words::ToServer(words)) = *shared.cut_at.borrow()
                    && contains(question, words)
                {
                    shared.is_cut.store(true, Ordering::SeqCst);
                    return;
                }
                if server.write_all(question).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                let answer = answered.get(..length).unwrap();
                if let Some(Words::FromServer(words)) = *shared.cut_at.borrow()
                    && contains(answer, words)
                {
                    shared.is_cut.store(true, Ordering::SeqCst);
                    return;
                }
                if client.write_all(answer).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn contains(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}
