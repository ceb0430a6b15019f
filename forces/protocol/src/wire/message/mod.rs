//! Messages: a header and a body, one file for each type (RFC 5810, 7.5 to 7.10).
//!
//! | message | direction | body |
//! |---|---|---|
//! | [`association_setup`] | FE to CE | up to two LFBselects with REPORT |
//! | [`association_setup_response`] | CE to FE | the result |
//! | [`association_teardown`] | either | the reason |
//! | [`config`] | CE to FE | LFBselects with SET, DEL, COMMIT |
//! | [`config_response`] | FE to CE | the same paths with results |
//! | [`query`] | CE to FE | LFBselects with GET |
//! | [`query_response`] | FE to CE | the same paths with data |
//! | [`event_notification`] | FE to CE | one LFBselect with REPORT |
//! | [`packet_redirect`] | either | packets and their metadata |
//! | [`heartbeat`] | either | nothing |

pub mod association_setup;
pub mod association_setup_response;
pub mod association_teardown;
pub mod config;
pub mod config_response;
pub mod event_notification;
pub mod heartbeat;
pub mod packet_redirect;
pub mod query;
pub mod query_response;
mod selects;
#[cfg(test)]
mod selects_tests;

pub use association_setup::AssociationSetup;
pub use association_setup_response::AssociationSetupResponse;
pub use association_teardown::AssociationTeardown;
pub use config::Config;
pub use config_response::ConfigResponse;
pub use event_notification::EventNotification;
pub use heartbeat::Heartbeat;
pub use packet_redirect::PacketRedirect;
pub use query::Query;
pub use query_response::QueryResponse;
pub use selects::{Rule, Selects};

use super::bytes::Writer;
use super::error::{Place, WireError};
use super::header::{Envelope, HEADER_LEN, IdKind, MESSAGE_LEN_MAX, MessageKind, View};
use super::result_code::ResultCode;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    envelope: Envelope,
    body: Body,
    len: usize,
}

/// The body of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// An FE requests an association.
    AssociationSetup(AssociationSetup),
    /// The answer to an Association Setup.
    AssociationSetupResponse(AssociationSetupResponse),
    /// An association ends.
    AssociationTeardown(AssociationTeardown),
    /// A CE changes components.
    Config(Config),
    /// The answer to a Config.
    ConfigResponse(ConfigResponse),
    /// An FE reports an event.
    EventNotification(EventNotification),
    /// Shows that the sender is alive.
    Heartbeat(Heartbeat),
    /// Packets, to a CE or from it.
    PacketRedirect(PacketRedirect),
    /// A CE reads components.
    Query(Query),
    /// The answer to a Query.
    QueryResponse(QueryResponse),
    /// A message of an unknown type.
    Other(Unread),
}

/// The body of a message of unknown type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unread {
    code: u8,
    bytes: Vec<u8>,
}

impl Message {
    /// A message; an error if its source may not send it to its destination, or if it is too long.
    pub fn new(envelope: Envelope, body: Body) -> Result<Self, WireError> {
        let len = HEADER_LEN + body.encoded_len();
        let place = Place::new("message", 0);
        let most = (HEADER_LEN, MESSAGE_LEN_MAX);
        place.permit_len("length", len, most, ResultCode::ContentsTooLong)?;
        check_direction(&envelope, &body)?;
        Ok(Self {
            envelope,
            body,
            len,
        })
    }

    /// Reads one message; `bytes` must have exactly the length stated in the header.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let view = View::new_checked(bytes)?;
        let envelope = Envelope::parse(&view)?;
        let body = Body::parse(view.kind(), view.body())?;
        Self::new(envelope, body)
    }

    /// The fields of the header.
    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The body.
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// The fields of the header, and the body.
    pub fn into_parts(self) -> (Envelope, Body) {
        (self.envelope, self.body)
    }

    /// Number of bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        self.len
    }

    /// Writes the message to the start of `bytes`; panics if `bytes` is shorter than [`Self::encoded_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let to = &mut Writer::new(bytes);
        self.envelope.write(self.body.kind(), self.len, to);
        self.body.write(to);
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.emit(&mut bytes);
        bytes
    }
}

impl Body {
    /// The type of the message.
    pub fn kind(&self) -> MessageKind {
        match self {
            Self::AssociationSetup(_) => MessageKind::AssociationSetup,
            Self::AssociationSetupResponse(_) => MessageKind::AssociationSetupResponse,
            Self::AssociationTeardown(_) => MessageKind::AssociationTeardown,
            Self::Config(_) => MessageKind::Config,
            Self::ConfigResponse(_) => MessageKind::ConfigResponse,
            Self::EventNotification(_) => MessageKind::EventNotification,
            Self::Heartbeat(_) => MessageKind::Heartbeat,
            Self::PacketRedirect(_) => MessageKind::PacketRedirect,
            Self::Query(_) => MessageKind::Query,
            Self::QueryResponse(_) => MessageKind::QueryResponse,
            Self::Other(unread) => unread.code.into(),
        }
    }

    /// Reads the body of a message of this type.
    pub fn parse(kind: MessageKind, body: &[u8]) -> Result<Self, WireError> {
        Ok(match kind {
            MessageKind::AssociationSetup => Self::AssociationSetup(Selects::parse(body)?),
            MessageKind::AssociationSetupResponse => {
                Self::AssociationSetupResponse(AssociationSetupResponse::parse(body)?)
            }
            MessageKind::AssociationTeardown => {
                Self::AssociationTeardown(AssociationTeardown::parse(body)?)
            }
            MessageKind::Config => Self::Config(Selects::parse(body)?),
            MessageKind::ConfigResponse => Self::ConfigResponse(Selects::parse(body)?),
            MessageKind::EventNotification => Self::EventNotification(Selects::parse(body)?),
            MessageKind::Heartbeat => Self::Heartbeat(Heartbeat::parse(body)?),
            MessageKind::PacketRedirect => Self::PacketRedirect(PacketRedirect::parse(body)?),
            MessageKind::Query => Self::Query(Selects::parse(body)?),
            MessageKind::QueryResponse => Self::QueryResponse(Selects::parse(body)?),
            MessageKind::Other(code) => {
                let rest = body.len() % 4;
                let place = Place::new("message", 0);
                let mismatch = ResultCode::LengthMismatch;
                place.permit_len("bytes after the last word", rest, (0, 0), mismatch)?;
                Self::Other(Unread {
                    code,
                    bytes: body.to_vec(),
                })
            }
        })
    }

    /// Length in bytes.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::AssociationSetup(body) => body.encoded_len(),
            Self::AssociationSetupResponse(body) => body.encoded_len(),
            Self::AssociationTeardown(body) => body.encoded_len(),
            Self::Config(body) => body.encoded_len(),
            Self::ConfigResponse(body) => body.encoded_len(),
            Self::EventNotification(body) => body.encoded_len(),
            Self::Heartbeat(body) => body.encoded_len(),
            Self::PacketRedirect(body) => body.encoded_len(),
            Self::Query(body) => body.encoded_len(),
            Self::QueryResponse(body) => body.encoded_len(),
            Self::Other(unread) => unread.bytes.len(),
        }
    }

    fn write(&self, to: &mut Writer<'_>) {
        match self {
            Self::AssociationSetup(body) => body.write(to),
            Self::AssociationSetupResponse(body) => body.write(to),
            Self::AssociationTeardown(body) => body.write(to),
            Self::Config(body) => body.write(to),
            Self::ConfigResponse(body) => body.write(to),
            Self::EventNotification(body) => body.write(to),
            Self::Heartbeat(_) => {}
            Self::PacketRedirect(body) => body.write(to),
            Self::Query(body) => body.write(to),
            Self::QueryResponse(body) => body.write(to),
            Self::Other(unread) => to.bytes(&unread.bytes),
        }
    }
}

/// Checks that no ID is reserved, that broadcast IDs are used only as destinations, and that messages of this type may
/// be sent in this direction.
fn check_direction(envelope: &Envelope, body: &Body) -> Result<(), WireError> {
    let (from, to) = (envelope.source.kind(), envelope.destination.kind());
    let is_fe = |id| {
        matches!(
            id,
            IdKind::Fe | IdKind::Multicast | IdKind::AllFes | IdKind::AllElements
        )
    };
    let is_ce = |id| {
        matches!(
            id,
            IdKind::Ce | IdKind::Multicast | IdKind::AllCes | IdKind::AllElements
        )
    };
    let sends = matches!(from, IdKind::Fe | IdKind::Ce | IdKind::Multicast);
    let (source, destination) = match body.kind() {
        MessageKind::AssociationSetup
        | MessageKind::EventNotification
        | MessageKind::ConfigResponse
        | MessageKind::QueryResponse => (sends && is_fe(from), is_ce(to)),
        MessageKind::Config | MessageKind::Query | MessageKind::AssociationSetupResponse => {
            (sends && is_ce(from), is_fe(to))
        }
        _ => (sends, to != IdKind::Reserved),
    };
    let place = Place::new("header", 0);
    if !source {
        let (names, code) = (
            "an element that sends this message",
            ResultCode::InvalidHeader,
        );
        return Err(place.unexpected("source", envelope.source.0, names, code));
    }
    if !destination {
        let (names, code) = (
            "an element that receives this message",
            ResultCode::InvalidDestination,
        );
        return Err(place.unexpected("destination", envelope.destination.0, names, code));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::{Flags, Id};

    fn send(source: u32, destination: u32, body: Body) -> Result<Message, WireError> {
        let envelope = Envelope {
            source: Id(source),
            destination: Id(destination),
            correlator: 0,
            flags: Flags::default(),
        };
        Message::new(envelope, body)
    }

    #[test]
    fn messages_go_their_way() {
        let (fe, ce) = (2, 0x4000_0001);
        let setup = Body::AssociationSetup(Selects::new(vec![]).unwrap());
        assert!(send(fe, ce, setup.clone()).is_ok());
        assert_eq!(
            send(ce, fe, setup.clone()).unwrap_err().code,
            ResultCode::InvalidHeader
        );
        assert_eq!(
            send(fe, fe, setup).unwrap_err().code,
            ResultCode::InvalidDestination
        );
        let heartbeat = || Body::Heartbeat(Heartbeat);
        assert!(send(ce, fe, heartbeat()).is_ok() && send(fe, ce, heartbeat()).is_ok());
        assert!(send(ce, 0xffff_fffe, heartbeat()).is_ok(), "to all FEs");
        assert!(
            send(0xffff_fffe, ce, heartbeat()).is_err(),
            "a broadcast ID is no source"
        );
        assert!(send(ce, 0x8000_0000, heartbeat()).is_err());
    }

    #[test]
    fn a_message_of_another_type_is_kept() {
        let bytes = [
            0x10, 0x80, 0, 7, 0x40, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
            3, 4,
        ];
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(message.body().kind(), MessageKind::Other(0x80));
        assert_eq!(message.to_bytes(), bytes);
    }
}
