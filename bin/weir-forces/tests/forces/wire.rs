//! ForCES messages by hand, and a relay that records the traffic.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use weir_live::namespace::Namespace;

/// The CE of the tests.
pub(crate) const CE_ID: u32 = 0x4000_0001;

/// Types of messages (RFC 5810, 6.1).
pub(crate) const SETUP: u8 = 0x01;
pub(crate) const SETUP_RESPONSE: u8 = 0x11;
pub(crate) const REDIRECT: u8 = 0x06;
pub(crate) const HEARTBEAT: u8 = 0x0f;

/// A message whose length is that of its body.
pub(crate) fn message(kind: u8, source: u32, destination: u32, body: &[u8]) -> Vec<u8> {
    let words = ((24 + body.len()) / 4) as u16;
    lying(kind, source, destination, words, body)
}

/// A message whose header claims this length, in words of four bytes.
pub(crate) fn lying(kind: u8, source: u32, destination: u32, words: u16, body: &[u8]) -> Vec<u8> {
    let priority: u32 = if kind == REDIRECT { 1 } else { 7 };
    let mut bytes = vec![0x10, kind];
    bytes.extend(words.to_be_bytes());
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend(1_u64.to_be_bytes());
    bytes.extend((priority << 27).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The answer that accepts the association that a setup message requests.
pub(crate) fn accepts(fe: u32, setup: &[u8]) -> Vec<u8> {
    const CORRELATOR: std::ops::Range<usize> = 12..20;
    let mut answer = message(SETUP_RESPONSE, CE_ID, fe, &[0, 0x10, 0, 8, 0, 0, 0, 0]);
    answer[CORRELATOR].copy_from_slice(&setup[CORRELATOR]);
    answer
}

/// Reads one message; `None` when the connection has ended.
pub(crate) fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 24];
    stream.read_exact(&mut message).ok()?;
    let bytes = usize::from(u16::from_be_bytes([message[2], message[3]])) * 4;
    message.resize(bytes.max(24), 0);
    stream.read_exact(&mut message[24..]).ok()?;
    Some(message)
}

/// Connects on a host; reads wait at most five seconds.
pub(crate) fn connect(host: &Namespace, to: SocketAddr) -> TcpStream {
    let stream = host.enter(|| TcpStream::connect(to)).unwrap().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream
}

/// Bytes of both directions, in the order in which they passed: to the CE, to the FE.
pub(crate) type Recorded = Arc<Mutex<[Vec<u8>; 2]>>;

/// Passes one connection on from `at` to `to`, both on this host, and records it. Somebody listens at `to`.
pub(crate) fn relay(host: &Namespace, at: SocketAddr, to: SocketAddr) -> Recorded {
    let recorded = Recorded::default();
    let listener = host.enter(|| TcpListener::bind(at)).unwrap().unwrap();
    let own = Arc::clone(&recorded);
    let far = host.enter(|| TcpStream::connect(to)).unwrap().unwrap();
    thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let [near2, far2] = [near.try_clone().unwrap(), far.try_clone().unwrap()];
        let back = Arc::clone(&own);
        thread::spawn(move || copy(far2, near2, &back, 1));
        copy(near, far, &own, 0);
    });
    recorded
}

fn copy(mut from: TcpStream, mut to: TcpStream, recorded: &Recorded, direction: usize) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes) = from.read(&mut buffer) {
        if bytes == 0 || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
        recorded.lock().unwrap()[direction].extend(&buffer[..bytes]);
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
