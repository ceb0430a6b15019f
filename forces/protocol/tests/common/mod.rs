//! Messages for tests: recorded, captured and generated messages.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_base::Span;
use weir_protocol::session::Heartbeats;
use weir_protocol::wire::header::Flags;
use weir_protocol::wire::message::association_setup_response::SetupResult;
use weir_protocol::wire::message::association_teardown::TeardownReason;
use weir_protocol::wire::message::{
    AssociationSetupResponse, AssociationTeardown, Heartbeat, PacketRedirect, Selects,
};
use weir_protocol::wire::redirect::Redirect;
use weir_protocol::wire::{
    Body, Content, Envelope, Id, Ilv, LfbSelect, Message, Operation, OperationKind, Outcome,
    PathData, Selector,
};

/// A valid message, with a description.
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The messages of this crate.
pub(crate) fn own() -> Vec<Vector> {
    read(include_str!("../messages.txt"))
}

/// Reads messages from a text: blocks of hexadecimal digits, each preceded by description lines that begin with `#`.
/// The lengths in a block split it into messages.
pub(crate) fn read(text: &str) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let (mut name, mut digits) = (String::new(), String::new());
    for line in text.lines().chain(["#"]) {
        match line.strip_prefix('#') {
            Some(words) => {
                vectors.extend(cut(&name, &bytes(&digits)));
                (name, digits) = (words.trim().into(), String::new());
            }
            None => digits.extend(line.chars().filter(char::is_ascii_hexdigit)),
        }
    }
    vectors
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn cut(name: &str, mut stream: &[u8]) -> Vec<Vector> {
    let mut vectors = Vec::new();
    while let Some(len) = weir_protocol::wire::header::message_len(stream).unwrap() {
        let (message, rest) = stream.split_at(len);
        let (name, bytes) = (name.into(), message.to_vec());
        vectors.push(Vector { name, bytes });
        stream = rest;
    }
    assert!(stream.is_empty(), "{name}: bytes are left");
    vectors
}

fn flags() -> impl Strategy<Value = Flags> {
    any::<u32>().prop_map(Flags::from_word)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u8>().prop_map(|code| Outcome::plain(u32::from(code).into()).unwrap()),
        (any::<u32>(), "[a-z ]{0,40}").prop_map(|(code, cause)| Outcome::extended(
            code.into(),
            &cause
        )
        .unwrap()),
    ]
}

fn ilvs() -> impl Strategy<Value = Vec<Ilv>> {
    let ilv = (any::<u32>(), vec(any::<u8>(), 0..9)).prop_map(|(id, value)| Ilv { id, value });
    vec(ilv, 0..4)
}

/// A content that may end a path of this operation.
fn end(kind: OperationKind) -> impl Strategy<Value = Content> {
    let ends = [
        (Content::Empty, Just(Content::Empty).boxed()),
        (
            Content::Full(vec![]),
            vec(any::<u8>(), 0..20).prop_map(Content::Full).boxed(),
        ),
        (
            Content::Sparse(vec![]),
            ilvs().prop_map(Content::Sparse).boxed(),
        ),
        (
            Content::Outcome(Outcome::SUCCESS),
            outcome().prop_map(Content::Outcome).boxed(),
        ),
    ];
    let permitted = ends.into_iter().filter(|(end, _)| kind.permits(end));
    proptest::strategy::Union::new(permitted.map(|(_, strategy)| strategy))
}

fn key() -> impl Strategy<Value = Option<Selector>> {
    prop::option::of(
        (any::<u32>(), vec(any::<u8>(), 0..9))
            .prop_map(|(id, values)| Selector::Key { id, values }),
    )
}

fn path(kind: OperationKind) -> impl Strategy<Value = PathData> {
    let ids = || vec(any::<u32>(), 0..4);
    let mut leaf = (ids(), key(), end(kind)).boxed();
    if matches!(kind, OperationKind::Get | OperationKind::Delete) {
        let range =
            any::<(u32, u32)>().prop_map(|(first, last)| Some(Selector::Range { first, last }));
        leaf = prop_oneof![leaf, (ids(), range, end(kind))].boxed();
    }
    let leaf = leaf.prop_map(|(ids, selector, end)| PathData::new(ids, selector, end).unwrap());
    leaf.prop_recursive(4, 12, 3, move |inner| {
        (ids(), key(), vec(inner, 1..4)).prop_map(|(ids, selector, paths)| {
            PathData::new(ids, selector, Content::Nested(paths)).unwrap()
        })
    })
}

fn operation(codes: &'static [u16]) -> impl Strategy<Value = Operation> {
    prop::sample::select(codes).prop_flat_map(|code| match OperationKind::from(code) {
        OperationKind::Commit => Just(Operation::COMMIT).boxed(),
        OperationKind::TransactionComplete => Just(Operation::TRANSACTION_COMPLETE).boxed(),
        OperationKind::CommitResponse => outcome()
            .prop_map(|outcome| Operation::commit_response(outcome).unwrap())
            .boxed(),
        kind => vec(path(kind), 1..4)
            .prop_map(move |paths| Operation::on(kind, paths).unwrap())
            .boxed(),
    })
}

fn selects(
    count: std::ops::Range<usize>,
    class: impl Strategy<Value = u32>,
    codes: &'static [u16],
) -> impl Strategy<Value = Vec<LfbSelect>> {
    let select = (class, any::<u32>(), vec(operation(codes), 0..3));
    vec(
        select.prop_map(|(class, instance, operations)| {
            LfbSelect::new(class, instance, operations).unwrap()
        }),
        count,
    )
}

fn redirects() -> impl Strategy<Value = Vec<Redirect>> {
    let redirect = (ilvs(), prop::option::of(vec(any::<u8>(), 0..100)));
    let redirect = redirect.prop_map(|(metadata, packet)| match packet {
        Some(packet) => Redirect::new(metadata, packet).unwrap(),
        None => Redirect::metadata_only(metadata).unwrap(),
    });
    vec(redirect, 1..4)
}

fn body() -> impl Strategy<Value = Body> {
    macro_rules! of {
        ($kind:ident, $count:expr, $class:expr, $codes:expr) => {
            selects($count, $class, &$codes).prop_map(|s| Body::$kind(Selects::new(s).unwrap()))
        };
    }
    prop_oneof![
        of!(AssociationSetup, 0..3, 1_u32..3, [11]),
        any::<u32>().prop_map(
            |code| Body::AssociationSetupResponse(AssociationSetupResponse {
                result: SetupResult::from(code),
            })
        ),
        any::<u32>().prop_map(|code| Body::AssociationTeardown(AssociationTeardown {
            reason: TeardownReason::from(code),
        })),
        of!(Config, 1..4, any::<u32>(), [1, 2, 5, 12, 14]),
        of!(ConfigResponse, 1..4, any::<u32>(), [3, 4, 6, 13]),
        of!(Query, 1..4, any::<u32>(), [7, 8]),
        of!(QueryResponse, 1..4, any::<u32>(), [9, 10]),
        of!(EventNotification, 1..2, any::<u32>(), [11]),
        redirects().prop_map(|r| Body::PacketRedirect(PacketRedirect::new(r).unwrap())),
        Just(Body::Heartbeat(Heartbeat)),
    ]
}

/// An arbitrary message.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let ids = prop_oneof![
        (1_u32..0x4000_0000, 0x4000_0000_u32..0x8000_0000),
        (0x4000_0000_u32..0x8000_0000, 1_u32..0x4000_0000),
    ];
    let ends = "one end of each kind";
    (ids, any::<u64>(), flags(), body()).prop_filter_map(
        ends,
        |((from, to), correlator, flags, body)| {
            let envelope = Envelope {
                source: Id(from),
                destination: Id(to),
                correlator,
                flags,
            };
            let back = Envelope {
                source: Id(to),
                destination: Id(from),
                ..envelope
            };
            Message::new(envelope, body.clone())
                .or_else(|_| Message::new(back, body))
                .ok()
        },
    )
}

/// Arbitrary heartbeats, including the most common settings.
pub(crate) fn heartbeats() -> impl Strategy<Value = Heartbeats> {
    let span = || prop_oneof![Just(1_u64), 1_u64..40_000].prop_map(Span::from_millis);
    (any::<bool>(), span(), any::<bool>(), span()).prop_map(
        |(ce_sends, ce_dead, fe_sends, fe_interval)| Heartbeats {
            ce_sends,
            ce_dead,
            fe_sends,
            fe_interval,
        },
    )
}
