//! Attacks on transports of ForCES messages: impostors, silent strangers, forged and replayed datagrams, and changing
//! addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use weir_forces_live::tml::{
    Common, Ended, Fault, Link, Listener, Pins, Schedule, TmlError, Transport, tml,
};
use weir_protocol::wire::Id;

use crate::tml::{
    self, CASES, CE, Case, FE, LONG, control, counted, join, listen, next, owner, redirect, send,
    settings, setup,
};

const QUIC: Case = Case {
    transport: Transport::Quic,
    is_pinned: true,
};
const SEALED: Case = Case {
    transport: Transport::TcpUdp,
    is_pinned: true,
};
const OPEN: Case = Case {
    transport: Transport::TcpUdp,
    is_pinned: false,
};

/// The cases with authenticated peers.
fn pinned() -> impl Iterator<Item = Case> {
    CASES.iter().copied().filter(|case| case.is_pinned)
}

/// Checks that no link arrives.
async fn nobody(listener: &mut Listener) {
    let wait = Duration::from_millis(200);
    assert!(timeout(wait, listener.accept()).await.is_err());
}

#[tokio::test]
async fn an_unknown_certificate_is_refused() {
    for case in pinned() {
        let (local, mut remote) = settings(case);
        let mut listener = listen(case, &local, &mut remote).await;
        let stranger = owner("fe"); // the name does not count
        if let Some(pinned) = &mut remote.common.security.pinned {
            pinned.identity = stranger.identity;
        }
        // The CE decides after the FE has finished its part, so either end may report the failed handshake.
        if let Ok(mut link) = tml(case.transport).connect(&remote).await {
            link.outgoing.send(setup(FE));
            assert_eq!(next(&mut link).await, None, "{case:?}");
            let ended = link.incoming.ended().unwrap();
            assert!(matches!(ended, Ended::Refused(_)), "{case:?}: {ended}");
        }
        counted(&local.common, Fault::UnknownCertificate, 1).await;
        nobody(&mut listener).await;
    }
}

#[tokio::test]
async fn a_false_ce_is_refused() {
    for case in pinned() {
        let (local, mut remote) = settings(case);
        let mut listener = listen(case, &local, &mut remote).await;
        let other = owner("ce");
        if let Some(pinned) = &mut remote.common.security.pinned {
            pinned.peers = Arc::new(Pins::new([(CE, other.certificate)]).unwrap());
        }
        let error = tml(case.transport).connect(&remote).await.unwrap_err();
        let shown = local
            .common
            .security
            .pinned
            .as_ref()
            .unwrap()
            .identity
            .fingerprint();
        let text = error.to_string();
        assert!(text.contains(&shown.to_string()), "{case:?}: {text}");
        nobody(&mut listener).await;
    }
}

#[tokio::test]
async fn a_certificate_proves_one_id() {
    for case in pinned() {
        let (local, mut remote) = settings(case);
        let mut listener = listen(case, &local, &mut remote).await;
        let fe = tml(case.transport).connect(&remote).await.unwrap();
        assert_eq!(fe.proved, Some(CE));
        fe.outgoing.send(setup(Id(3)));
        let mut ce = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        // The session refuses the message with an answer; the transport reports the owner of the certificate.
        assert_eq!(next(&mut ce).await, Some(setup(Id(3))));
        assert_eq!(ce.proved, Some(FE));
        counted(&local.common, Fault::OtherId, 1).await;
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// A client without a certificate.
fn nameless() -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Credulous))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"forces/1".to_vec()];
    config
}

#[tokio::test]
async fn nobody_comes_in_without_a_certificate() {
    let (local, mut remote) = settings(SEALED);
    let mut listener = listen(SEALED, &local, &mut remote).await;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(nameless()));
    let tcp = TcpStream::connect(remote.address).await.unwrap();
    let name = "forces".try_into().unwrap();
    if let Ok(mut stream) = connector.connect(name, tcp).await {
        let _ = stream.write_all(&setup(FE)).await;
        assert!(stream.read(&mut [0; 24]).await.is_err());
    }
    counted(&local.common, Fault::NoCertificate, 1).await;
    nobody(&mut listener).await;

    let (local, mut remote) = settings(QUIC);
    let mut listener = listen(QUIC, &local, &mut remote).await;
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(nameless()).unwrap();
    let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let connecting = endpoint
        .connect_with(config, remote.address, "forces")
        .unwrap();
    if let Ok(connection) = connecting.await {
        timeout(LONG, connection.closed()).await.unwrap();
    }
    counted(&local.common, Fault::NoCertificate, 1).await;
    nobody(&mut listener).await;
}

#[tokio::test]
async fn strangers_who_say_nothing_disturb_nobody() {
    let (mut local, mut remote) = settings(SEALED);
    local.common.limits.handshake = Duration::from_millis(500);
    let mut listener = listen(SEALED, &local, &mut remote).await;
    let mut silent = Vec::new();
    for n in 0..50 {
        let mut stream = TcpStream::connect(remote.address).await.unwrap();
        if n % 2 == 1 {
            stream
                .write_all(b"\x16\x03\x01\x40\x00 and nothing more")
                .await
                .unwrap();
        }
        silent.push(stream);
    }
    let (fe, mut ce) = join(SEALED, &mut listener, &remote).await;
    counted(&local.common, Fault::Handshake, 50).await;
    for mut stream in silent {
        let _ = timeout(LONG, stream.read(&mut [0; 100]))
            .await
            .expect("it is closed");
    }
    send(&fe, control(1, 100)).await;
    assert_eq!(next(&mut ce).await, Some(control(1, 100)));
}

#[tokio::test]
async fn a_byte_now_and_then_is_not_enough() {
    let (local, mut remote) = settings(OPEN);
    let mut listener = listen(OPEN, &local, &mut remote).await;
    let mut stream = TcpStream::connect(remote.address).await.unwrap();
    let message = control(1, 24 * 4);
    stream.write_all(&message[..1]).await.unwrap(); // the first byte opens the link
    let mut link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    assert_eq!(link.proved, None);
    let trickle = async {
        for byte in &message[1..] {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let (end, ()) = tokio::join!(next(&mut link), trickle);
    assert_eq!(end, None);
    assert_eq!(
        link.incoming.ended(),
        Some(&Ended::Stalled(tml::limits().message))
    );
}

#[tokio::test]
async fn a_message_that_is_cut_off_is_not_delivered() {
    let (local, mut remote) = settings(OPEN);
    let mut listener = listen(OPEN, &local, &mut remote).await;
    let message = control(1, 100);
    for len in [1, 23, 24, 99] {
        let mut stream = TcpStream::connect(remote.address).await.unwrap();
        stream.write_all(&message[..len]).await.unwrap();
        let mut link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        drop(stream);
        assert_eq!(next(&mut link).await, None);
        let ended = link.incoming.ended().unwrap();
        assert!(matches!(ended, Ended::Lost(_)), "{len} bytes: {ended}");
    }
    // In small pieces the message arrives whole.
    let mut stream = TcpStream::connect(remote.address).await.unwrap();
    for piece in message.chunks(7) {
        stream.write_all(piece).await.unwrap();
        stream.flush().await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }
    let mut link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    assert_eq!(next(&mut link).await, Some(message));
}

/// Without certificates, a silent connection is not a link: it takes no link slot, and ends.
#[tokio::test]
async fn a_silent_plain_connection_is_no_link() {
    let (mut local, mut remote) = settings(OPEN);
    (local.links_max, local.handshakes_max) = (1, 8);
    let mut listener = listen(OPEN, &local, &mut remote).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(remote.address).await.unwrap());
    }
    let (fe, mut ce) = join(OPEN, &mut listener, &remote).await;
    counted(&local.common, Fault::TooMany, 30).await; // the oldest connections were closed
    send(&fe, control(1, 100)).await;
    assert_eq!(next(&mut ce).await, Some(control(1, 100)));
}

/// Redirects must not arrive on the reliable channel.
#[tokio::test]
async fn a_message_on_the_wrong_channel_is_dropped() {
    let (local, mut remote) = settings(OPEN);
    let mut listener = listen(OPEN, &local, &mut remote).await;
    let mut stream = TcpStream::connect(remote.address).await.unwrap();
    stream.write_all(&redirect(1, 64)).await.unwrap();
    stream.write_all(&control(1, 64)).await.unwrap();
    let mut link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    assert_eq!(next(&mut link).await, Some(control(1, 64)));
    assert_eq!(local.common.faults.count(Fault::WrongChannel), 1);
}

/// A network between an FE and a CE that records the FE's datagrams, and changes the FE's address on request.
struct Middle {
    address: SocketAddr,
    seen: watch::Receiver<Vec<Vec<u8>>>,
    address_number: watch::Sender<usize>,
    towards: SocketAddr,
}

impl Middle {
    async fn new(towards: SocketAddr) -> Self {
        let local = (Ipv4Addr::LOCALHOST, 0);
        let near = UdpSocket::bind(local).await.unwrap();
        let far = [
            UdpSocket::bind(local).await.unwrap(),
            UdpSocket::bind(local).await.unwrap(),
        ];
        let address = near.local_addr().unwrap();
        let (see, seen) = watch::channel(Vec::new());
        let (address_number, number) = watch::channel(0);
        tokio::spawn(async move {
            let (mut fe, mut out, mut back) = (None, vec![0; 1 << 16], vec![0; 1 << 16]);
            loop {
                let far = &far[*number.borrow()];
                let turn = timeout(Duration::from_millis(10), async {
                    tokio::select! {
                        Ok((len, from)) = near.recv_from(&mut out) => {
                            fe = Some(from);
                            see.send_modify(|seen| seen.push(out[..len].to_vec()));
                            let _ = far.send_to(&out[..len], towards).await;
                        }
                        Ok(len) = far.recv(&mut back) => {
                            let _ = near.send_to(&back[..len], fe.unwrap()).await;
                        }
                        else => {}
                    }
                });
                let _ = turn.await; // read the address number again
            }
        });
        Self {
            address,
            seen,
            address_number,
            towards,
        }
    }

    /// The latest datagram of the FE that is longer than a greeting.
    async fn latest(&mut self) -> Vec<u8> {
        let found = |seen: &Vec<Vec<u8>>| seen.iter().any(|d| d.len() > 60);
        let seen = self.seen.wait_for(found).await.unwrap();
        seen.iter().rfind(|d| d.len() > 60).unwrap().clone()
    }

    async fn inject(&self, datagram: &[u8]) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.send_to(datagram, self.towards).await.unwrap();
    }
}

/// A link whose datagrams go through a [`Middle`].
async fn through_the_middle(case: Case) -> (Common, Middle, Listener, Link, Link) {
    let (local, mut remote) = settings(case);
    let mut listener = listen(case, &local, &mut remote).await;
    let redirect = SocketAddr::new(remote.address.ip(), listener.redirect_port());
    let middle = Middle::new(redirect).await;
    remote.redirect_port = Some(middle.address.port());
    if case.transport == Transport::Quic {
        remote.address = middle.address;
    }
    let (fe, ce) = join(case, &mut listener, &remote).await;
    (local.common, middle, listener, fe, ce)
}

/// Sends a redirect until it arrives, because redirects may be lost.
async fn redirected(from: &Link, to: &mut Link, message: &[u8]) {
    for _ in 0..100 {
        from.outgoing.send(message.to_vec());
        let wait = timeout(Duration::from_millis(100), to.incoming.recv());
        match wait.await {
            Ok(Some(arrived)) if arrived == message => return,
            Ok(None) => panic!("the link has ended: {:?}", to.incoming.ended()),
            Ok(Some(_)) | Err(_) => {}
        }
    }
    panic!("no redirect arrives");
}

#[tokio::test]
async fn forged_and_repeated_datagrams_are_dropped() {
    let (common, mut middle, _listener, fe, mut ce) = through_the_middle(SEALED).await;
    redirected(&fe, &mut ce, &redirect(1, 64)).await;
    while ce.incoming.try_recv().is_some() {}
    let datagram = middle.latest().await;

    middle.inject(&datagram).await;
    counted(&common, Fault::Replayed, 1).await;
    let mut ahead = datagram.clone();
    ahead[8] = 1; // a counter that has not arrived yet
    middle.inject(&ahead).await;
    counted(&common, Fault::Forged, 1).await;
    let mut other = datagram.clone();
    other[0] ^= 1;
    middle.inject(&other).await;
    counted(&common, Fault::Unassociated, 1).await;
    middle.inject(b"").await;
    middle.inject(&redirect(2, 64)).await; // without a seal
    counted(&common, Fault::Unassociated, 3).await;
    assert!(ce.incoming.try_recv().is_none());
    // The attacker's address does not replace the FE's, and the window has not moved.
    redirected(&fe, &mut ce, &redirect(3, 64)).await;
    let mut fe = fe;
    redirected(&ce, &mut fe, &redirect(4, 64)).await;

    // After the end of the association, a datagram belongs to no association.
    fe.outgoing.close(true);
    assert_eq!(timeout(LONG, ce.incoming.recv()).await, Ok(None));
    let before = common.faults.count(Fault::Unassociated);
    sleep(Duration::from_millis(50)).await;
    middle.inject(&datagram).await;
    counted(&common, Fault::Unassociated, before + 1).await;
}

#[tokio::test]
async fn an_fe_may_change_its_address() {
    for case in [QUIC, SEALED] {
        let (_common, middle, _listener, mut fe, mut ce) = through_the_middle(case).await;
        redirected(&fe, &mut ce, &redirect(1, 64)).await;
        redirected(&ce, &mut fe, &redirect(2, 64)).await;
        middle.address_number.send(1).unwrap();
        sleep(Duration::from_millis(50)).await;
        while ce.incoming.try_recv().is_some() {}
        redirected(&fe, &mut ce, &redirect(3, 64)).await;
        redirected(&ce, &mut fe, &redirect(4, 64)).await;
        while ce.incoming.try_recv().is_some() {}
        send(&fe, control(1, 5000)).await;
        let mut arrived = next(&mut ce).await;
        while arrived.as_deref().is_some_and(tml::is_redirect) {
            arrived = next(&mut ce).await;
        }
        assert_eq!(arrived, Some(control(1, 5000)), "{case:?}");
    }
}

#[tokio::test]
async fn an_open_socket_takes_datagrams_of_associations_only() {
    let (local, mut remote) = settings(OPEN);
    let mut listener = listen(OPEN, &local, &mut remote).await;
    let (_fe, mut ce) = join(OPEN, &mut listener, &remote).await;
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let towards = SocketAddr::new(remote.address.ip(), listener.redirect_port());
    stranger.send_to(&redirect(1, 64), towards).await.unwrap();
    counted(&local.common, Fault::Unassociated, 1).await;
    assert!(ce.incoming.try_recv().is_none());
}

#[tokio::test]
async fn settings_that_open_a_hole_are_refused() {
    let open = tml(OPEN.transport);
    for place in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
        let (mut local, mut remote) = settings(OPEN);
        local.address = SocketAddr::from((place, 0));
        assert!(open.listen(&local).await.is_ok());
        local.common.security.insecure = false;
        let error = open.listen(&local).await.unwrap_err();
        assert!(error.to_string().contains("insecure = true"), "{error}");
        remote.address = SocketAddr::from((place, 6704));
        remote.common.security.insecure = false;
        let error = open.connect(&remote).await.unwrap_err();
        assert!(matches!(error, TmlError::Insecure { .. }), "{error}");
    }
    let quic = tml(Transport::Quic);
    let error = quic.listen(&settings(OPEN).0).await.unwrap_err();
    assert!(error.to_string().contains("weir keys"), "{error}");

    for &schedule in Schedule::ALL {
        assert_eq!(schedule.word().parse(), Ok(schedule));
    }
}
