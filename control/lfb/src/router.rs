//! The box itself: its mode, its socket, its pool.

use weir_base::Span;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_path::plane::Mode;

/// The components of the router.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "mode",
        Kind::Word(&["routed", "bridged"]),
        "routed",
        "routed: a router that follows the kernel's routes; bridged: a bump in the wire between two ports",
    )
    .id(3),
    Parameter::new(
        "socket",
        Kind::Text(107),
        "/run/weir/weir.sock",
        "Unix socket of the HTTP/JSON service; its folder must exist, only its owner may use it",
    )
    .id(4),
    Parameter::new(
        "pool",
        Kind::Count(0, 4_194_304),
        "0 packets",
        "packets that the router can hold in all, which the limits of all queues must fit; 0 packets: twice what they need",
    )
    .id(21),
    Parameter::new(
        "age_max",
        Kind::Span(Span::from_millis(1), Span::from_secs(60)),
        "1 s",
        "drop frames that waited in the receive ring for longer, because the router or its machine had stood still",
    )
    .id(22),
    Parameter::new(
        "watchdog",
        Kind::Span(Span::ZERO, Span::from_secs(600)),
        "1 s",
        "end a router that gives no sign of life for this time, so that the kernel forwards; 0 s: never, and the router is one process",
    )
    .id(23),
    Parameter::new(
        "bypass_netfilter",
        Kind::Flag,
        "false",
        "start although the box has netfilter rules that transit through weir does not pass: prerouting, forward, postrouting, ingress of a port",
    )
    .id(24),
    Parameter::new(
        "netfilter_change",
        Kind::Word(&["warn", "stop"]),
        "warn",
        "what to do when such rules appear while the router runs; warn: log an error and list them in `weir show netfilter`; stop: end, so that the kernel forwards and applies them",
    )
    .id(25),
];

/// The checked components of the router.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterPlan {
    /// How frames get from port to port.
    pub mode: Mode,
    /// Where the northbound service listens.
    pub socket: String,
    /// Packets held at most, in all queues and beside them; none: as many as the ports need.
    pub pool: Option<usize>,
    /// Frames that waited longer before the router took them are dropped.
    pub age_max: Span,
    /// A router without a sign of life for this time is ended; none: it is never.
    pub watchdog: Option<Span>,
    /// Whether netfilter rules of the box may be bypassed by transit.
    pub bypass_netfilter: bool,
    /// The reaction to netfilter rules that appear while the router runs, and that forwarded packets bypass.
    pub netfilter_change: OnChange,
    /// The components as they were asked for, for showing.
    pub(crate) settings: Settings,
}

/// The reaction to a change of the machine while the router runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Log it and go on.
    Warn,
    /// End, so that the kernel takes over.
    Stop,
}

impl RouterPlan {
    /// The mode as a configuration writes it.
    pub fn mode_word(&self) -> &'static str {
        self.settings.word("mode")
    }

    /// From checked settings.
    pub fn new(settings: Settings) -> Self {
        Self {
            mode: match settings.word("mode") {
                "bridged" => Mode::Bridged,
                _ => Mode::Routed,
            },
            socket: settings.text("socket").to_owned(),
            pool: Some(settings.count("pool") as usize).filter(|pool| *pool > 0),
            age_max: settings.span("age_max"),
            watchdog: Some(settings.span("watchdog")).filter(|limit| *limit > Span::ZERO),
            bypass_netfilter: settings.flag("bypass_netfilter"),
            netfilter_change: match settings.word("netfilter_change") {
                "stop" => OnChange::Stop,
                _ => OnChange::Warn,
            },
            settings,
        }
    }
}
