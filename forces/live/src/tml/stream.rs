//! Splits a byte stream into whole messages, by the lengths in their headers.

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::time;
use weir_protocol::wire::header::{HEADER_LEN, message_len};

use super::Limits;
use super::ended::Ended;
use super::link::Inbox;

/// Bytes per read.
const READ_BYTES: usize = 16 << 10;

/// Delivers the messages of a stream until it ends, and returns the reason.
pub(super) async fn receive(
    stream: impl AsyncRead + Unpin,
    inbox: &Inbox,
    limits: Limits,
) -> Ended {
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    loop {
        let message = match message(&mut stream, limits).await {
            Ok(message) => message,
            Err(ended) => return ended,
        };
        if let Err(ended) = inbox.control(message).await {
            return ended;
        }
    }
}

/// The next message. The peer may be silent between two messages, but not within a message. Memory is allocated as
/// bytes arrive, not as the header announces.
async fn message(stream: &mut (impl AsyncRead + Unpin), limits: Limits) -> Result<Vec<u8>, Ended> {
    let mut header = [0; HEADER_LEN];
    match stream.read(&mut header[..1]).await {
        Ok(0) => return Err(Ended::ByPeer),
        Ok(_) => {}
        Err(error) => return Err(lost(&error)),
    }
    let read = async {
        let rest = stream.read_exact(&mut header[1..]).await;
        rest.map_err(|e| lost(&e))?;
        let len = message_len(&header).map_err(Ended::Malformed)?;
        let len = len.unwrap_or(HEADER_LEN);
        let mut message = header.to_vec();
        let mut body = stream.take((len - HEADER_LEN) as u64);
        body.read_to_end(&mut message).await.map_err(|e| lost(&e))?;
        if message.len() == len {
            Ok(message)
        } else {
            Err(Ended::Lost(
                "the peer closed the link within a message".to_owned(),
            ))
        }
    };
    let read = time::timeout(limits.message, read).await;
    read.unwrap_or(Err(Ended::Stalled(limits.message)))
}

/// Converts an error to the reason for the end of a link.
pub(super) fn lost(error: &std::io::Error) -> Ended {
    let refused = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    match refused {
        Some(rustls::Error::AlertReceived(alert)) => Ended::Refused(format!("{alert:?}")),
        _ if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Ended::Lost("the peer closed the link without notice".to_owned())
        }
        _ => Ended::Lost(error.to_string()),
    }
}
