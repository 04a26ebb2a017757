//! Strangers who connect: half requests, and more connections than there is room for.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Fixture, PATIENCE};
use crate::{ConnectionLimits, HttpServer, Listeners};

/// Serves the routes on a port, with room for 16 connections, and 8 of each address.
async fn serve(fixture: &Fixture) -> (String, tokio::task::JoinHandle<()>) {
    serve_with(fixture, |server| server).await
}

async fn serve_with(fixture: &Fixture, change: fn(HttpServer) -> HttpServer) -> (String, tokio::task::JoinHandle<()>) {
    let main = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = main.local_addr().unwrap().to_string();
    let limits = ConnectionLimits::for_open_files(32);
    let server = change(HttpServer::new(Listeners { main, twin: None }, fixture.app.clone(), limits, None));
    (address, tokio::spawn(async move { server.run().await }))
}

async fn send(address: &str, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Reads until the gateway closes the connection. A reset counts as closed.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("not closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

const HALF: &str = "POST /api/v1/login HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: 100\r\n\r\n{";
const WHOLE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost:8080\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn half_requests_keep_nobody_out() {
    let fixture = Fixture::new().await;
    let (address, server) = serve(&fixture).await;
    let mut halves = Vec::new();
    for _ in 0..100 {
        halves.push(send(&address, HALF).await);
    }
    let answer = rest(send(&address, WHOLE).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(rest(halves.swap_remove(0)).await, "", "the oldest was closed to make room");
    server.abort();
    fixture.stop().await;
}

/// A connection whose request is complete is not closed for a new one.
#[tokio::test]
async fn connections_of_busy_users_stay() {
    let fixture = Fixture::new().await;
    let (address, server) = serve(&fixture).await;
    let head = format!("Host: localhost:8080\r\nX-API-Key: {}\r\n", super::KEY);
    let mut stream = send(&address, &format!("GET /api/v1/events HTTP/1.1\r\n{head}\r\n")).await;
    let mut first = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut halves = Vec::new();
    for _ in 0..50 {
        halves.push(send(&address, HALF).await);
    }
    assert_eq!(rest(halves.swap_remove(0)).await, "");
    let mut more = vec![0; 65_536];
    // An open stream without news ends the loop.
    while let Ok(read) = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut more)).await {
        assert_ne!(read.unwrap(), 0, "the stream was closed");
    }
    server.abort();
    fixture.stop().await;
}

#[tokio::test]
async fn a_request_with_two_lengths_is_refused_and_closed() {
    let fixture = Fixture::new().await;
    let (address, server) = serve(&fixture).await;
    for lengths in
        ["Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"]
    {
        let head = format!("POST /api/v1/login HTTP/1.1\r\nHost: localhost:8080\r\n{lengths}\r\n");
        let answer = rest(send(&address, &format!("{head}0\r\n\r\n{WHOLE}")).await).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.contains("\"ambiguous_length\""), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "the rest is not a request: {answer}");
    }
    server.abort();
    fixture.stop().await;
}

/// Requests go on until the gateway closes the connection. Without a deadline, both sides wait for each other.
#[tokio::test]
async fn a_peer_that_reads_no_answer_is_closed() {
    let fixture = Fixture::new().await;
    let (address, server) = serve_with(&fixture, HttpServer::impatient).await;
    let request = format!("GET /api/v1/docs HTTP/1.1\r\nHost: localhost:8080\r\nX-API-Key: {}\r\n\r\n", super::KEY);
    let mut stream = send(&address, &request).await;
    let closed = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, closed).await.expect("not closed");
    server.abort();
    fixture.stop().await;
}
