//! The router itself: its mode, its socket, its page, its pool.

use std::net::SocketAddr;

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
        "let the kernel forward once the forwarding thread has made no turn for this time, and replace the process; 0 s: never, and the router is one process",
    )
    .id(23),
    Parameter::new(
        "bypass_netfilter",
        Kind::Flag,
        "false",
        "forward although the box has netfilter rules that transit through weir does not pass: prerouting, forward, postrouting, ingress of a port",
    )
    .id(24),
    Parameter::new(
        "netfilter_change",
        Kind::Word(&["unset", "warn", "stop"]),
        "unset",
        "old name of `kernel_change`: warn is \"ignore\", stop is \"stop\"",
    )
    .id(25),
    Parameter::new(
        "page",
        Kind::Text(64),
        "",
        "address and port of loopback for browsers, like \"127.0.0.1:8080\"; its token is in the file beside `socket` that ends in `.token`; empty: only the socket has the page",
    )
    .id(26),
    Parameter::new(
        "kernel_change",
        Kind::Word(&["hand_back", "stop", "ignore"]),
        "hand_back",
        "what to do when the kernel gets rules, policies or routes that weir refuses, while the router runs; hand_back: the kernel forwards until they are gone or permitted; stop: end the router, and the kernel forwards; ignore: log an error, and go on where a key could permit it",
    )
    .id(27),
    Parameter::new(
        "bypass_rules",
        Kind::Flag,
        "false",
        "forward although the box has policy rules (`ip rule`) beyond the default ones, or ports in a VRF: forwarded packets use the tables local, main and default",
    )
    .id(28),
    Parameter::new(
        "bypass_tc",
        Kind::Flag,
        "false",
        "forward although ports have traffic-control filters or tcx programs at their ingress, which transit through weir does not pass",
    )
    .id(29),
    Parameter::new(
        "bypass_default_route",
        Kind::Flag,
        "false",
        "forward although a default route leads to an interface that is no port: packets that follow it are dropped as not-a-port",
    )
    .id(30),
];

/// Parses the address of the page; `None` if the text is empty.
pub fn page_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = text.parse::<SocketAddr>().ok();
    let address = address.filter(|address| address.ip().is_loopback() && address.port() != 0);
    address.map(Some).ok_or_else(|| {
        format!(
            "`page` is \"{text}\", but must be an address and port of loopback like \"127.0.0.1:8080\"; from \
             another machine use `ssh -L 8080:127.0.0.1:8080`"
        )
    })
}

/// The checked components of the router.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterPlan {
    /// How frames are forwarded from port to port.
    pub mode: Mode,
    /// Path of the Unix socket at which the northbound service listens.
    pub socket: String,
    /// Maximum packets held, inside and outside all queues; `None`: twice the packets that the ports need.
    pub pool: Option<usize>,
    /// Frames that waited in the receive ring for longer are dropped.
    pub age_max: Span,
    /// A router whose forwarding thread completes no poll iteration for this time is replaced; `None`: never.
    pub watchdog: Option<Span>,
    /// The reaction to refused kernel state that appears while the router runs.
    pub kernel_change: OnChange,
    /// The address of the page for browsers; `None` if only the socket serves it.
    pub page: Option<SocketAddr>,
    /// The components as requested, for display.
    pub(crate) settings: Settings,
}

/// The reaction to a change of the machine while the router runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Let the kernel forward until the state is gone or permitted.
    HandBack,
    /// End the router, so that the kernel takes over.
    Stop,
    /// Log an error, and go on if a key could permit the state.
    Ignore,
}

impl RouterPlan {
    /// The mode, as written in a configuration.
    pub fn mode_word(&self) -> &'static str {
        self.settings.word("mode")
    }

    /// Whether a key permits kernel state that would otherwise be refused.
    pub fn permits(&self, key: &str) -> bool {
        self.settings.flag(key)
    }

    /// A sentence about a key with an old name, if the configuration has one.
    pub fn outdated(&self) -> Option<String> {
        let new = match self.settings.word("netfilter_change") {
            "unset" => return None,
            "warn" => "ignore",
            other => other,
        };
        Some(format!(
            "`netfilter_change` is an old name: write `kernel_change = \"{new}\"`; without it the kernel forwards while \
             the router refuses its state"
        ))
    }

    /// Makes a plan from checked settings; an error is about `page`.
    pub fn new(settings: Settings) -> Result<Self, String> {
        Ok(Self {
            mode: match settings.word("mode") {
                "bridged" => Mode::Bridged,
                _ => Mode::Routed,
            },
            socket: settings.text("socket").to_owned(),
            pool: Some(settings.count("pool") as usize).filter(|pool| *pool > 0),
            age_max: settings.span("age_max"),
            watchdog: Some(settings.span("watchdog")).filter(|limit| *limit > Span::ZERO),
            kernel_change: match (
                settings.word("kernel_change"),
                settings.word("netfilter_change"),
            ) {
                ("stop", _) | ("hand_back", "stop") => OnChange::Stop,
                ("ignore", _) | ("hand_back", "warn") => OnChange::Ignore,
                _ => OnChange::HandBack,
            },
            page: page_address(settings.text("page"))?,
            settings,
        })
    }

    /// Whether a running router can switch to this plan: after the start only the page and the reaction to kernel state
    /// can change.
    pub fn fits_running(&self, running: &Self) -> bool {
        let as_running = Self {
            page: running.page,
            kernel_change: running.kernel_change,
            settings: running.settings.clone(),
            ..self.clone()
        };
        as_running == *running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_on_loopback() {
        let good = page_address("127.0.0.1:8080").unwrap().unwrap();
        assert_eq!(good.port(), 8080);
        assert!(page_address("[::1]:80").unwrap().is_some());
        assert_eq!(page_address(""), Ok(None));
        for wrong in [
            "8080",
            "0.0.0.0:8080",
            "192.0.2.1:8080",
            "localhost:8080",
            "127.0.0.1:0",
        ] {
            let error = page_address(wrong).unwrap_err();
            assert!(
                error.contains("must be an address and port of loopback"),
                "{error}"
            );
        }
    }
}
