//! The sections `[fpf.class.NAME]`: flows that a classifier finds, and the vectors of their packets.
//!
//! ```toml
//! [fpf.class.partner]
//! kinds = "tls quic"
//! server = "*.example.org"
//! vectors = "b1a1"
//! ```

use weir_base::Span;
use weir_base::setting::{Kind, Parameter, Settings, did_you_mean, nearest};
use weir_classifier::policy::{Row, RowError};
use weir_classifier::{Kind as FlowKind, Kinds};
use weir_fpf_path::Domain;
use weir_fpf_path::edge::setup::Class;

use crate::Wrong;
use crate::encapsulation::{BURST, POLICE, SESSION, SPREAD, VECTORS, policed, rule};

/// Maximum classes: each decision about a flow reads all of them.
pub(super) const CLASSES_MAX: usize = 256;

/// The components of a section.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "priority",
        Kind::Count(0, 65_535),
        "1000",
        "if several classes match a flow, the lowest number wins, then the first by name; a matching encapsulation \
         takes precedence over all classes",
    )
    .id(2),
    Parameter::new(
        "kinds",
        Kind::Text(255),
        "",
        "one or more protocols of the flows, separated by spaces: rtp quic; `weir classify` lists the protocols in a \
         capture",
    )
    .id(3),
    Parameter::new(
        "server",
        Kind::Text(255),
        "",
        "only flows to this server, by the name that the client requests: www.example.org, or *.example.org; \
         empty: any",
    )
    .id(4),
    VECTORS,
    SPREAD,
    Parameter::new(
        "timeout",
        Kind::Span(Span::from_secs(1), Span::from_secs(604_800)),
        "60 s",
        "time without packets after which a flow leaves the class",
    )
    .id(12),
    SESSION,
    Parameter {
        about: "maximum rate of each flow; packets beyond it are dropped; 0 bit: not policed",
        ..POLICE
    },
    BURST,
];

/// A checked class, and the classifier's criteria for its flows.
pub(super) struct Checked {
    pub(super) priority: u64,
    pub(super) class: Class,
    pub(super) row: Row,
}

pub(super) fn class(name: &str, settings: &Settings, domain: &Domain) -> Result<Checked, Wrong> {
    let (kinds, server) = (settings.text("kinds"), settings.text("server"));
    let given = Some(server).filter(|server| !server.is_empty());
    let of_kinds = kinds_of(kinds).map_err(|why| Wrong::new("kinds", why))?;
    let row = Row::new(of_kinds, given).map_err(|error| match error {
        RowError::NoKind => Wrong::new(
            "kinds",
            format!("no kind is given; permitted are {}", words()),
        ),
        RowError::Server(_) => Wrong::new("server", error.to_string()),
    })?;
    Ok(Checked {
        priority: settings.count("priority"),
        class: Class {
            name: name.to_owned(),
            criteria: format!("{kinds} {server}"),
            rule: rule(settings, domain, policed(settings)?)?,
        },
        row,
    })
}

/// The kinds in a list of words.
fn kinds_of(text: &str) -> Result<Kinds, String> {
    let known = || FlowKind::ALL.into_iter().map(FlowKind::word);
    text.split_whitespace().try_fold(Kinds::NONE, |all, word| {
        let kind = FlowKind::from_word(word).ok_or_else(|| {
            let near = did_you_mean(nearest(word, known()));
            format!(
                "\"{word}\" is not a kind of flow{near}; permitted are {}",
                words()
            )
        })?;
        Ok(all.with(kind))
    })
}

fn words() -> String {
    FlowKind::ALL.map(FlowKind::word).join(", ")
}
