//! A server that stops: a connection that was used a moment ago, or waits to be accepted, gets an answer.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Fixture, PATIENCE};
use crate::{ConnectionLimits, HttpServer, Listeners};

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";

async fn server(fixture: &Fixture) -> (HttpServer, String) {
    let main = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = main.local_addr().unwrap().to_string();
    let listeners = Listeners { main, twin: None };
    let limits = ConnectionLimits::for_open_files(32);
    (HttpServer::new(listeners, fixture.app.clone(), limits, None), address)
}

/// Reads an answer of `/healthz`, whose body ends with `}`.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.expect("no answer").unwrap();
        assert_ne!(read, 0, "closed without an answer");
    }
    String::from_utf8(bytes).unwrap()
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await.expect("not closed").is_ok_and(|read| read == 0)
}

/// nginx sends its next request on such a connection, and does not repeat it if the connection ends.
#[tokio::test]
async fn a_connection_used_a_moment_ago_gets_one_more_answer() {
    let fixture = Fixture::new().await;
    let (server, address) = server(&fixture).await;
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let first = tokio::select! {
        first = answer(&mut stream) => first,
        () = server.run() => unreachable!("it serves until dropped"),
    };
    assert!(!first.contains("connection: close"), "{first}");
    let finished = tokio::spawn(server.finish());
    let stopped = async { while TcpStream::connect(&address).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, stopped).await.expect("it accepts connections");
    stream.write_all(REQUEST).await.unwrap();
    let last = answer(&mut stream).await;
    assert!(last.starts_with("HTTP/1.1 200 OK\r\n") && last.contains("connection: close\r\n"), "{last}");
    assert!(is_closed(&mut stream).await);
    tokio::time::timeout(PATIENCE, finished).await.expect("it does not end").unwrap();
    TcpStream::connect(&address).await.unwrap_err();
    fixture.stop().await;
}

#[tokio::test]
async fn a_connection_that_waits_to_be_accepted_is_served() {
    let fixture = Fixture::new().await;
    let (server, address) = server(&fixture).await;
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let finished = tokio::spawn(server.finish());
    let last = answer(&mut stream).await;
    assert!(last.starts_with("HTTP/1.1 200 OK\r\n") && last.contains("connection: close\r\n"), "{last}");
    assert!(is_closed(&mut stream).await);
    tokio::time::timeout(PATIENCE, finished).await.expect("it does not end").unwrap();
    fixture.stop().await;
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_it_up() {
    let fixture = Fixture::new().await;
    let (server, address) = server(&fixture).await;
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let finished = tokio::spawn(server.finish());
    assert!(is_closed(&mut stream).await);
    tokio::time::timeout(PATIENCE, finished).await.expect("it does not end").unwrap();
    fixture.stop().await;
}
