//! Links for the tests of transports: a CE and FEs on the loopback interface.

#![allow(dead_code)] // the example uses a part

pub(crate) mod flood;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::timeout;
use weir_forces_live::tml::identity::{Certificate, Identity, Pins, generate};
use weir_forces_live::tml::{
    Common, Fault, HANDSHAKES_MAX, Limits, Link, Listener, Local, Pinned, Remote, Security, Sent,
    Transport, tml,
};
use weir_protocol::wire::header::Priority;
use weir_protocol::wire::{Id, MessageKind};

/// The CE.
pub(crate) const CE: Id = Id(0x4000_0001);
/// The first FE.
pub(crate) const FE: Id = Id(2);
/// Longer than any step takes, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A transport, and whether it has certificates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) transport: Transport,
    pub(crate) is_pinned: bool,
}

/// Cases that every transport must pass.
pub(crate) const CASES: &[Case] = &[
    Case {
        transport: Transport::Quic,
        is_pinned: true,
    },
    Case {
        transport: Transport::TcpUdp,
        is_pinned: true,
    },
    Case {
        transport: Transport::TcpUdp,
        is_pinned: false,
    },
    Case {
        transport: Transport::SctpUdp,
        is_pinned: false,
    },
];

/// A certificate and its key.
pub(crate) struct Owner {
    pub(crate) certificate: Certificate,
    pub(crate) identity: Arc<Identity>,
}

pub(crate) fn owner(name: &str) -> Owner {
    let made = generate(name, 1).unwrap();
    let certificate = Certificate::from_pem(&made.certificate).unwrap();
    let identity = Identity::of(certificate.clone(), &made.key).unwrap();
    Owner {
        certificate,
        identity: Arc::new(identity),
    }
}

/// Certificates of the CE and the FEs, shared by all tests of a process.
fn owners() -> &'static (Owner, Owner) {
    static OWNERS: OnceLock<(Owner, Owner)> = OnceLock::new();
    OWNERS.get_or_init(|| (owner("ce"), owner("fe")))
}

fn security(case: Case, own: &Owner, peer: (Id, &Owner)) -> Security {
    let pin = (peer.0, peer.1.certificate.clone());
    Security {
        pinned: case.is_pinned.then(|| Pinned {
            identity: own.identity.clone(),
            peers: Arc::new(Pins::new([pin]).unwrap()),
        }),
        insecure: !case.is_pinned,
    }
}

/// Short time limits.
pub(crate) fn limits() -> Limits {
    Limits {
        handshake: Duration::from_secs(10),
        message: Duration::from_millis(500),
        close: Duration::from_secs(5),
        idle: Duration::from_secs(2),
        redirect: Duration::from_millis(500),
    }
}

/// Settings of a CE and an FE for this transport, with separate fault counters.
pub(crate) fn settings(case: Case) -> (Local, Remote) {
    let (ce, fe) = owners();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let common = |security| Common {
        security,
        limits: limits(),
        ..Common::default()
    };
    let local = Local {
        address,
        redirect_port: Some(0),
        links_max: 1000,
        handshakes_max: HANDSHAKES_MAX,
        common: common(security(case, ce, (FE, fe))),
    };
    let remote = Remote {
        address,
        redirect_port: None,
        common: common(security(case, fe, (CE, ce))),
    };
    (local, remote)
}

/// A listening CE; completes `remote`, which an FE needs to connect.
pub(crate) async fn listen(case: Case, local: &Local, remote: &mut Remote) -> Listener {
    let listener = tml(case.transport).listen(local).await.unwrap();
    remote.address = listener.address();
    remote.redirect_port = Some(listener.redirect_port());
    listener
}

/// Opens a link, and reads the FE's first message.
pub(crate) async fn join(case: Case, listener: &mut Listener, remote: &Remote) -> (Link, Link) {
    let fe = tml(case.transport).connect(remote).await.unwrap();
    assert_eq!(fe.outgoing.send(setup(FE)), Sent::Queued);
    let ce = timeout(LONG, listener.accept()).await.expect("in time");
    let mut ce = ce.unwrap();
    assert_eq!(next(&mut ce).await, Some(setup(FE)));
    (fe, ce)
}

/// A link with default settings: the CE's listener, the FE's end, the CE's end.
pub(crate) async fn pair(case: Case) -> (Listener, Link, Link) {
    let (local, mut remote) = settings(case);
    let mut listener = listen(case, &local, &mut remote).await;
    let (fe, ce) = join(case, &mut listener, &remote).await;
    (listener, fe, ce)
}

/// Number of a control message.
pub(crate) fn number(message: &[u8]) -> u64 {
    u64::from_be_bytes(message[12..20].try_into().unwrap())
}

/// The next message, within a time limit.
pub(crate) async fn next(link: &mut Link) -> Option<Vec<u8>> {
    let message = timeout(LONG, link.incoming.recv()).await;
    message.expect("a message or the end, in time")
}

/// Sends a control message when there is credit.
pub(crate) async fn send(link: &Link, message: Vec<u8>) {
    timeout(LONG, link.outgoing.writable())
        .await
        .expect("credit in time");
    assert_eq!(link.outgoing.send(message), Sent::Queued);
}

/// Waits until a fault was counted this number of times.
pub(crate) async fn counted(common: &Common, fault: Fault, count: u64) {
    let counts = async {
        while common.faults.count(fault) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(LONG, counts).await.is_err() {
        let all = Fault::ALL.map(|f| (f.name(), common.faults.count(f)));
        panic!(
            "{} times {fault:?}, not {count}: {all:?}",
            common.faults.count(fault)
        );
    }
}

fn message(kind: u8, source: Id, correlator: u64, body: &[u8]) -> Vec<u8> {
    let words = (24 + body.len()) / 4;
    let mut message = vec![0x10, kind];
    message.extend((words as u16).to_be_bytes());
    message.extend(source.0.to_be_bytes());
    message.extend(CE.0.to_be_bytes());
    message.extend(correlator.to_be_bytes());
    let priority = Priority::of(MessageKind::from(kind)).level(); // SCTP drops a message with another priority
    message.extend([priority << 3, 0, 0, 0]);
    message.extend(body);
    message
}

/// An Association Setup.
pub(crate) fn setup(source: Id) -> Vec<u8> {
    message(0x01, source, 1, &[])
}

/// A control message with a number and a length of whole words.
pub(crate) fn control(number: u64, len: usize) -> Vec<u8> {
    let body: Vec<u8> = (24..len)
        .map(|at| (at as u64 * 31 + number) as u8)
        .collect();
    message(0x03, FE, number, &body)
}

/// A redirect with a packet of this length, in whole words.
pub(crate) fn redirect(number: u8, packet: usize) -> Vec<u8> {
    let mut body = vec![0, 1];
    body.extend((packet as u16 + 8).to_be_bytes());
    body.extend([1, 0x16]);
    body.extend((packet as u16 + 4).to_be_bytes());
    body.extend(vec![number; packet]);
    message(0x06, FE, 0, &body)
}

pub(crate) fn is_redirect(message: &[u8]) -> bool {
    message[1] == 0x06
}
