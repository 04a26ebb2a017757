//! Invariants of reading any bytes as HTTP requests.
//!
//! `framing.rs` reads beside hyper, and must not lose track of where hyper's next request begins. So hyper itself reads
//! the same bytes here. A request with two lengths is placed behind the input, and around it. Whenever hyper takes that
//! request for one, the reader must have found it before.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::framing::{Finding, Requests};

/// As in `server.rs`.
const BUFFER_MAX_BYTES: usize = 64 * 1024;
/// Far more than any input needs. hyper gives way to others after a few steps.
const POLLS_MAX: usize = 100_000;
/// The address of the request with two lengths. An input that contains it says nothing.
const MARK: &str = "/two-lengths";
const HEAD: &str = "POST /two-lengths HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n";
const REST: &str = "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

pub(crate) fn check(bytes: &[u8]) {
    let whole = find(bytes, bytes.len().max(1));
    for size in [1, 7] {
        assert_eq!(find(bytes, size), whole, "in pieces of {size}: {:?}", bytes.escape_ascii().to_string());
    }
    if bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
        return;
    }
    let behind = [bytes, HEAD.as_bytes(), REST.as_bytes()].concat();
    let around = [HEAD.as_bytes(), bytes, b"\r\n", REST.as_bytes()].concat();
    for size in [1, 50, usize::MAX] {
        is_found(&behind, size);
        is_found(&around, size);
    }
}

/// Reads the bytes in pieces of this size.
fn find(bytes: &[u8], size: usize) -> Finding {
    let mut requests = Requests::default();
    let found: Vec<Finding> = bytes.chunks(size).map(|piece| requests.read(piece)).collect();
    found.into_iter().find(|found| *found == Finding::AmbiguousLength).unwrap_or(Finding::Nothing)
}

/// Checks that hyper gets no request with two lengths that the reader did not find.
fn is_found(bytes: &[u8], size: usize) {
    let is_ambiguous = Rc::new(Cell::new(false));
    let missed = RefCell::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        // hyper has removed the other length.
        let has_two = request.uri().path() == MARK && request.headers().contains_key(header::TRANSFER_ENCODING);
        if has_two && !is_ambiguous.get() {
            *missed.borrow_mut() = Some(format!("{request:?}"));
        }
        let is_open = !is_ambiguous.get();
        async move {
            if is_open {
                let _cut_off = request.into_body().collect().await;
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let stream = Stream { left: bytes, size, requests: Requests::default(), is_ambiguous: Rc::clone(&is_ambiguous) };
    let mut connection = pin!(http1::Builder::new().max_buf_size(BUFFER_MAX_BYTES).serve_connection(stream, service));
    let mut context = Context::from_waker(Waker::noop());
    let is_done = (0..POLLS_MAX).any(|_| connection.as_mut().poll(&mut context).is_ready());
    assert!(is_done, "the connection does not end: {:?}", bytes.escape_ascii().to_string());
    assert_eq!(*missed.borrow(), None, "in pieces of {size}: {:?}", bytes.escape_ascii().to_string());
}

/// A connection on which all bytes have arrived. It hands them out in pieces, first to the reader and then to hyper.
struct Stream<'b> {
    left: &'b [u8],
    size: usize,
    requests: Requests,
    is_ambiguous: Rc<Cell<bool>>,
}

impl Read for Stream<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let size = self.size.min(buffer.remaining()).min(self.left.len());
        let (piece, rest) = self.left.split_at(size);
        if self.requests.read(piece) == Finding::AmbiguousLength {
            self.is_ambiguous.set(true);
        }
        buffer.put_slice(piece);
        self.left = rest;
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
