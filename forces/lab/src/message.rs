//! The messages of the load test: events of FEs, and the CE's answers.
//!
//! ```text
//!   header 24 | LFBselect 12 | operation 4 | path 60.1 16 | FULLDATA 4 | number 4, zeros
//! ```
//!
//! An event is an Event Notification of RFC 5810 with one report; its value begins with the event's number. The CE
//! answers it with a Config that has the same value and requests no response. So both have the same length, and both
//! belong to the control channel.

use weir_protocol::wire::header::{Ack, Execution, Flags, Phase, Priority};
use weir_protocol::wire::message::{Config, EventNotification, PacketRedirect};
use weir_protocol::wire::redirect::Redirect;
use weir_protocol::wire::{
    Body, Content, Envelope, Id, LfbSelect, Message, Operation, OperationKind, PathData, WireError,
};

/// The CE's ID.
pub(crate) const CE: Id = Id(0x4000_0001);
/// Bytes of an event with an empty value; the event's number needs four more.
const EMPTY: usize = 60;
/// A private LFB class, like that of a weir FE's reports.
const CLASS: u32 = 0x00f7_0001;
const INSTANCE: u32 = 1;
/// Path of the event: the base of the events, and the event.
const PATH: [u32; 2] = [60, 1];

/// An event with this number; its length is rounded to whole 32-bit words.
pub(crate) fn event(fe: Id, number: u32, bytes: u32) -> Result<Vec<u8>, WireError> {
    let body = report(&number.to_be_bytes(), bytes)?;
    Ok(message([fe, CE], Execution::Unset, Body::EventNotification(body))?.to_bytes())
}

/// The body of an event whose value begins with `head`, for a message of this length.
pub(crate) fn report(head: &[u8], bytes: u32) -> Result<EventNotification, WireError> {
    let mut value = head.to_vec();
    value.resize((bytes as usize).saturating_sub(EMPTY).max(head.len()), 0);
    EventNotification::new(vec![selected(OperationKind::Report, value)?])
}

/// The value of an event.
pub(crate) fn reported(event: &EventNotification) -> Option<Vec<u8>> {
    value(event.selects())
}

/// The body of a Config that sets one component of 8 bytes.
pub(crate) fn change() -> Result<Config, WireError> {
    Config::new(vec![selected(OperationKind::Set, vec![0; 8])?])
}

/// The FE of an event, and its value; `None` for any other message.
pub(crate) fn parse_event(bytes: &[u8]) -> Option<(Id, Vec<u8>)> {
    let (envelope, body) = Message::parse(bytes).ok()?.into_parts();
    match body {
        Body::EventNotification(body) => Some((envelope.source, value(body.selects())?)),
        _ => None,
    }
}

/// The answer to an event with this value.
pub(crate) fn answer(fe: Id, value: Vec<u8>) -> Result<Vec<u8>, WireError> {
    let body = Config::new(vec![selected(OperationKind::Set, value)?])?;
    Ok(message([CE, fe], Execution::ContinueOnFailure, Body::Config(body))?.to_bytes())
}

/// The number of the event that this message answers; `None` for any other message.
pub(crate) fn answered(bytes: &[u8]) -> Option<u32> {
    let (_, body) = Message::parse(bytes).ok()?.into_parts();
    match body {
        Body::Config(body) => {
            let value = value(body.selects())?;
            Some(u32::from_be_bytes(value.first_chunk().copied()?))
        }
        _ => None,
    }
}

/// A message with one redirected packet of this length.
pub(crate) fn redirect(fe: Id, packet_bytes: u32) -> Result<Vec<u8>, WireError> {
    let body = packet(packet_bytes)?;
    Ok(message([fe, CE], Execution::Unset, Body::PacketRedirect(body))?.to_bytes())
}

/// The body of a message with one redirected packet of this length.
pub(crate) fn packet(bytes: u32) -> Result<PacketRedirect, WireError> {
    let packet = Redirect::new(Vec::new(), vec![0; bytes as usize])?;
    PacketRedirect::new(vec![packet])
}

/// The packets and bytes that a message redirects; `None` for any other message.
pub(crate) fn redirected(bytes: &[u8]) -> Option<[u64; 2]> {
    let (_, body) = Message::parse(bytes).ok()?.into_parts();
    match body {
        Body::PacketRedirect(body) => {
            let packets = body.redirects().iter().filter_map(Redirect::packet);
            Some(packets.fold([0, 0], |[n, sum], packet| {
                [n + 1, sum + packet.len() as u64]
            }))
        }
        _ => None,
    }
}

fn selected(kind: OperationKind, value: Vec<u8>) -> Result<LfbSelect, WireError> {
    let path = PathData::full(PATH.to_vec(), value)?;
    LfbSelect::new(CLASS, INSTANCE, vec![Operation::on(kind, vec![path])?])
}

fn message(
    [source, destination]: [Id; 2],
    execution: Execution,
    body: Body,
) -> Result<Message, WireError> {
    let flags = Flags {
        ack: Ack::Never,
        priority: Priority::of(body.kind()),
        execution,
        transaction: false,
        phase: Phase::Start,
    };
    let envelope = Envelope {
        source,
        destination,
        correlator: 0,
        flags,
    };
    Message::new(envelope, body)
}

/// The value of the only component of a message.
fn value(selects: &[LfbSelect]) -> Option<Vec<u8>> {
    match selects
        .first()?
        .operations()
        .first()?
        .paths()
        .first()?
        .content()
    {
        Content::Full(value) => Some(value.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FE: Id = Id(2);

    #[test]
    fn events_and_answers_have_the_length_that_was_asked_for() {
        for bytes in [64, 1024, 65_000] {
            let event = event(FE, 77, bytes).unwrap();
            assert_eq!(event.len(), bytes as usize);
            let (fe, value) = parse_event(&event).unwrap();
            let answer = answer(fe, value).unwrap();
            assert_eq!(
                (answer.len(), answered(&answer)),
                (bytes as usize, Some(77))
            );
            assert_eq!((answered(&event), parse_event(&answer)), (None, None));
        }
        assert_eq!(event(FE, 1, 0).unwrap().len(), EMPTY + 4);
    }

    #[test]
    fn a_redirect_has_a_packet() {
        let one = redirect(FE, 64).unwrap();
        assert_eq!(redirected(&one), Some([1, 64]));
        assert_eq!(redirected(&event(FE, 1, 64).unwrap()), None);
    }
}
