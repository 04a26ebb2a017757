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

struct Shared {
    /// When the server sends these bytes, cut and do not forward them.
    cut_at: watch::Sender<Option<&'static [u8]>>,
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

    /// Cuts all connections the next time the server sends these bytes, and drops the answer.
    pub(crate) fn cut_at(&self, words: &'static [u8]) {
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
                if server.write_all(asked.get(..length).unwrap()).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                let answer = answered.get(..length).unwrap();
                let cut_at = *shared.cut_at.borrow();
                if cut_at.is_some_and(|words| answer.windows(words.len()).any(|window| window == words)) {
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
