//! The router itself: its mode, its socket, its page, its pool.

use std::net::SocketAddr;

use weir_base::Span;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_path::plane::Mode;

/// The components of the router.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "mode",
        Kind::Word(&["routed", "bridged", "queue"]),
        "routed",
        "routed: a router that follows the kernel's routes; bridged: a bump in the wire between two ports; queue: the \
         queue of interfaces of a machine whose kernel routes, filters and translates",
    )
    .id(3),
    Parameter::new(
        "socket",
        Kind::Text(107),
        "/run/weir/weir.sock",
        "Unix socket of the HTTP/JSON service; its directory must exist; only the owner of the socket may use it",
    )
    .id(4),
    Parameter::new(
        "pool",
        Kind::Count(0, 4_194_304),
        "0 packets",
        "total packets that the router can hold; the limits of all queues must fit; 0 packets: twice what the queues \
         need",
    )
    .id(21),
    Parameter::new(
        "age_max",
        Kind::Span(Span::from_millis(1), Span::from_secs(60)),
        "1 s",
        "drop frames that waited longer in the receive ring because the router or its machine had stalled",
    )
    .id(22),
    Parameter::new(
        "watchdog",
        Kind::Span(Span::ZERO, Span::from_secs(600)),
        "1 s",
        "if the forwarding thread makes no progress for this time, let the kernel forward and replace the process; \
         0 s: never, and the router runs as one process",
    )
    .id(23),
    Parameter::new(
        "bypass_netfilter",
        Kind::Flag,
        "false",
        "forward even if the machine has netfilter rules that forwarded packets bypass: prerouting, forward, \
         postrouting, ingress of a port",
    )
    .id(24),
    Parameter::new(
        "netfilter_change",
        Kind::Word(&["unset", "warn", "stop"]),
        "unset",
        "deprecated, use `kernel_change`: warn is \"ignore\", stop is \"stop\"",
    )
    .id(25),
    Parameter::new(
        "page",
        Kind::Text(64),
        "",
        "loopback address and port of the web page, like \"127.0.0.1:8080\"; its token is in the file next to `socket` \
         that ends in `.token`; empty: only the socket serves the page",
    )
    .id(26),
    Parameter::new(
        "kernel_change",
        Kind::Word(&["hand_back", "stop", "ignore"]),
        "hand_back",
        "action if rules, policies or routes that weir refuses appear in the kernel while the router runs; hand_back: \
         the kernel forwards until they are removed or permitted; stop: end the router, and the kernel forwards; \
         ignore: log an error, and continue if a key could permit them",
    )
    .id(27),
    Parameter::new(
        "bypass_rules",
        Kind::Flag,
        "false",
        "forward even if the machine has policy rules (`ip rule`) beyond the defaults, or ports in a VRF: forwarded \
         packets use the tables local, main and default",
    )
    .id(28),
    Parameter::new(
        "bypass_tc",
        Kind::Flag,
        "false",
        "forward even if ports have ingress traffic-control filters or tcx programs, which forwarded packets bypass",
    )
    .id(29),
    Parameter::new(
        "bypass_default_route",
        Kind::Flag,
        "false",
        "forward even if a default route leads to an interface that is not a port: packets that follow it are dropped \
         with reason not-a-port",
    )
    .id(30),
    Parameter::new(
        "mark",
        Kind::Text(21),
        "0x77656972/0xffffffff",
        "mark of the frames that weir sends, and the bits of a mark that count: weir's rules recognise these frames by \
         it; other programs must not use these bits",
    )
    .id(32),
    Parameter::new(
        "fpm",
        Kind::Text(64),
        "",
        "loopback address and port at which FRR's zebra delivers its routes (module `dplane_fpm_nl`, `fpm address`), like \
         \"127.0.0.1:2620\"; they count like the kernel's; empty: only the kernel's routes",
    )
    .id(33),
];

/// The mark of frames that a router sends (`SO_MARK`), and the bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The mark; it has no other bits than `mask`.
    pub value: u32,
    /// The bits of a frame's mark that are compared.
    pub mask: u32,
}

impl Mark {
    /// "weir" in ASCII; all bits count.
    pub const DEFAULT: Self = Self {
        value: 0x7765_6972,
        mask: u32::MAX,
    };

    /// Parses "VALUE/MASK", both hexadecimal.
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let parts = text.split_once('/');
        let mark = parts.and_then(|(value, mask)| {
            Some(Self {
                value: number(value)?,
                mask: number(mask)?,
            })
        });
        let mark = mark.filter(|mark| mark.value != 0 && mark.value & !mark.mask == 0);
        mark.ok_or_else(|| {
            format!(
                "`mark` is \"{text}\", but must be a value and a mask with all bits of the value, like \
                 \"0x77656972/0xffffffff\" or \"0x10000/0xff0000\"; the value must not be 0"
            )
        })
    }
}

/// Parses the address of the page; `None` if the text is empty.
pub fn page_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = text.parse::<SocketAddr>().ok();
    let address = address.filter(|address| address.ip().is_loopback() && address.port() != 0);
    address.map(Some).ok_or_else(|| {
        format!(
            "`page` is \"{text}\", but must be a loopback address and port like \"127.0.0.1:8080\"; from another \
             machine use `ssh -L 8080:127.0.0.1:8080`"
        )
    })
}

/// Parses the address for FPM; `None` if the text is empty.
pub fn fpm_address(text: &str, mode: Mode) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    if mode != Mode::Routed {
        return Err(
            "`fpm` needs `mode = \"routed\"`: in other modes, weir uses no routes".to_owned(),
        );
    }
    let address = text.parse::<SocketAddr>().ok();
    let address = address.filter(|address| address.ip().is_loopback() && address.port() != 0);
    address.map(Some).ok_or_else(|| {
        format!(
            "`fpm` is \"{text}\", but must be a loopback address and port like \"127.0.0.1:2620\": FPM has no \
             authentication, and any program that can connect could redirect packets; run zebra on this machine"
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
    /// The address that FRR's zebra sends routes to; `None`: only the kernel's routes count.
    pub fpm: Option<SocketAddr>,
    /// The mark of frames that the router sends.
    pub mark: Mark,
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
    /// Log an error, and continue if a key could permit the state.
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
            "`netfilter_change` is deprecated: write `kernel_change = \"{new}\"`; without it, the kernel forwards \
             while it has state that the router refuses"
        ))
    }

    /// Makes a plan from checked settings; an error is a key and the reason.
    pub fn new(settings: Settings) -> Result<Self, (&'static str, String)> {
        let mode = match settings.word("mode") {
            "bridged" => Mode::Bridged,
            "queue" => Mode::Queue,
            _ => Mode::Routed,
        };
        Ok(Self {
            mode,
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
            page: page_address(settings.text("page")).map_err(|why| ("page", why))?,
            fpm: fpm_address(settings.text("fpm"), mode).map_err(|why| ("fpm", why))?,
            mark: Mark::parse(settings.text("mark")).map_err(|why| ("mark", why))?,
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
    fn a_mark_has_only_bits_of_its_mask() {
        let parameters = PARAMETERS.iter();
        let default = parameters.clone().find(|p| p.name == "mark").unwrap();
        assert_eq!(Mark::parse(default.default), Ok(Mark::DEFAULT));
        let some = Mark {
            value: 0x1_0000,
            mask: 0xff_0000,
        };
        assert_eq!(Mark::parse("0x10000/0xff0000"), Ok(some));
        for wrong in [
            "",
            "0x1",
            "1/1",
            "0x0/0xff",
            "0x100/0xff",
            "0x1/0x100000000",
        ] {
            let error = Mark::parse(wrong).unwrap_err();
            assert!(error.contains("must be a value and a mask"), "{error}");
        }
    }

    #[test]
    fn fpm_is_on_loopback_and_for_routers() {
        let good = fpm_address("127.0.0.1:2620", Mode::Routed)
            .unwrap()
            .unwrap();
        assert_eq!(good.port(), 2620);
        assert_eq!(fpm_address("", Mode::Queue), Ok(None));
        for wrong in ["2620", "0.0.0.0:2620", "192.0.2.1:2620", "127.0.0.1:0"] {
            let error = fpm_address(wrong, Mode::Routed).unwrap_err();
            assert!(error.contains("no authentication"), "{error}");
        }
        let error = fpm_address("127.0.0.1:2620", Mode::Queue).unwrap_err();
        assert!(error.contains("routed"), "{error}");
    }

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
                error.contains("must be a loopback address and port"),
                "{error}"
            );
        }
    }
}
