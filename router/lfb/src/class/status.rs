//! The router itself.

use weir_base::Span;
use weir_model::class::{Cell, Class, Form};
use weir_model::operation::CHANGES_MAX;

use super::{
    BYTES, Block, COUNTER, Column, FLAG, NUMBER, PACKET_COUNTER, PACKETS, Row, SECONDS, Source,
    TEXT, component, components, row,
};
use crate::router::{self, RouterPlan};

pub(crate) static STATUS: Block = Block {
    class: Class {
        name: "status",
        id: 0x00F7_0101,
        about: "the router itself: version, mode, uptime",
        parameters: router::PARAMETERS,
        metric: Some(""),
        components: &components::<ProcessRow, { COLUMNS.len() }>(COLUMNS),
        ..Class::PLAIN
    },
    source: Source::Status(|process| row(COLUMNS, &process)),
};

/// The router process.
pub struct Process {
    /// Version of the program.
    pub version: &'static str,
    /// Name of the machine.
    pub hostname: String,
    /// Seconds since 1970, by the clock of the machine.
    pub unix_s: f64,
    /// Process ID.
    pub pid: u32,
    /// Number of earlier processes that ended in a crash or a hang.
    pub restarts: u64,
    /// Time since the start.
    pub uptime: Span,
    /// Packets that the pool can hold.
    pub pool_packets: usize,
    /// The longest frame that the pool can hold, in bytes.
    pub frame_bytes_max: usize,
    /// The running configuration of the router itself.
    pub router: RouterPlan,
    /// Number of ports.
    pub ports: usize,
    /// Chains of netfilter rules that forwarded packets bypass.
    pub bypassed: usize,
    /// Chains of these that appeared while the router ran.
    pub bypassed_new: usize,
    /// Why the kernel forwards instead: a sentence for each kind of kernel state; empty while the router forwards.
    pub handed_back: Vec<String>,
    /// Packets that the router has created itself.
    pub created: u64,
    /// Seconds for which the forwarding thread was ready but had no processor.
    pub processor_wait_s: f64,
    /// Seconds until the first certificate of this forwarding element expires; `None` without certificates.
    pub certificate_left_s: Option<f64>,
    /// Why this forwarding element does not forward; `None` if it does.
    pub stopped: Option<String>,
}

struct ProcessRow;

impl Row for ProcessRow {
    type View<'a> = &'a Process;
}

const COLUMNS: &[Column<ProcessRow>] = &[
    component(1, "version", TEXT, "0.1.0")
        .about("Version of the program.")
        .shown(&[Cell::new("VERSION")])
        .read(|process| process.version.into()),
    component(18, "hostname", TEXT, "edge1")
        .varying()
        .about("Name of the machine.")
        .shown(&[Cell::new("HOST")])
        .read(|process| process.hostname.as_str().into()),
    component(19, "unix_s", SECONDS, "1764081600.25")
        .about("Clock of the machine, in seconds since 1970.")
        .read(|process| process.unix_s.into()),
    component(2, "pid", NUMBER, "2658")
        .about("Process ID.")
        .shown(&[Cell::new("PROCESS")])
        .read(|process| u64::from(process.pid).into()),
    component(3, "mode", TEXT, "routed")
        .about("`routed`, `bridged` or `queue`.")
        .shown(&[Cell::new("MODE")])
        .read(|process| process.router.mode_word().into()),
    component(4, "socket", TEXT, "/run/weir/weir.sock")
        .about("Unix socket of the HTTP service.")
        .shown(&[Cell::new("SOCKET")])
        .read(|process| process.router.socket.as_str().into()),
    component(26, "page", TEXT, "127.0.0.1:8080")
        .optional()
        .about("Address of the web page; null if only the socket serves it.")
        .shown(&[Cell::new("PAGE").or("on the socket")])
        .read(|process| process.router.page.map(|page| page.to_string()).into()),
    component(5, "uptime_s", SECONDS, "7.25")
        .about("Time since the start.")
        .shown(&[Cell::new("UPTIME").form(Form::Elapsed)])
        .read(|process| process.uptime.into()),
    component(14, "forwards", FLAG, "true")
        .about("Whether the router forwards; a forwarding element stops if its control element disables it \
                (AdminDisable) or CEFTI expires.")
        .read(|process| process.stopped.is_none().into()),
    component(15, "stopped_why", TEXT, "no CE, and CEFTI has expired")
        .optional()
        .varying()
        .about("Why the router does not forward, and how to resume; null if it forwards.")
        .shown(&[Cell::new("STOPPED BY").or("nothing")])
        .read(|process| process.stopped.clone().into()),
    component(16, "certificate_left_s", SECONDS, "2505600.5")
        .optional()
        .about(
            "Time until the first certificate of this forwarding element or of a control element expires; null without \
             certificates.",
        )
        .shown(&[Cell::new("CERTIFICATE LEFT").form(Form::Elapsed).or("no certificate")])
        .read(|process| process.certificate_left_s.into()),
    component(17, "restarts", COUNTER, "0")
        .about("Restarts of the router by the supervisor after a crash or hang.")
        .shown(&[Cell::new("RESTARTS")])
        .read(|process| process.restarts.into()),
    component(6, "ports", NUMBER, "2")
        .about("Number of ports.")
        .shown(&[Cell::new("PORTS")])
        .read(|process| (process.ports as u64).into()),
    component(7, "pool_packets", PACKETS, "24784")
        .capability()
        .about("Packets that the pool can hold.")
        .shown(&[Cell::new("POOL PACKETS")])
        .read(|process| (process.pool_packets as u64).into()),
    component(8, "longest_frame_bytes", BYTES, "1518")
        .capability()
        .about(
            "Longest frame that the pool can hold; a port with longer frames needs a restart.",
        )
        .read(|process| (process.frame_bytes_max as u64).into()),
    component(9, "changes_max", NUMBER, "256")
        .capability()
        .about("Maximum changes in one request.")
        .read(|_| (CHANGES_MAX as u64).into()),
    component(10, "bypassed_chains", NUMBER, "0")
        .about(
            "Netfilter chains of this machine that forwarded packets bypass; `weir show netfilter` lists them.",
        )
        .read(|process| (process.bypassed as u64).into()),
    component(11, "bypassed_chains_new", NUMBER, "0")
        .about("Bypassed chains that appeared while the router ran.")
        .read(|process| (process.bypassed_new as u64).into()),
    component(12, "handed_back", FLAG, "false")
        .about(
            "Whether the kernel forwards at all ports because of kernel state that the router refuses; \
             `weir show kernel` lists it.",
        )
        .shown(&[Cell::new("HANDED BACK")])
        .read(|process| (!process.handed_back.is_empty()).into()),
    component(
        13,
        "handed_back_why",
        TEXT,
        "IPsec policies: out 10.0.0.0/24 10.1.0.0/24",
    )
    .optional()
    .varying()
    .about("Why the kernel forwards; null while the router forwards.")
    .shown(&[Cell::new("WHY").or("-")])
    .read(|process| {
        let why = process.handed_back.join("; ");
        Some(why).filter(|why| !why.is_empty()).into()
    }),
    component(31, "processor_wait_s", SECONDS, "0.25")
        .about(
            "Time that the forwarding thread was ready but waited for a processor, which delays every packet.",
        )
        .shown(&[Cell::new("PROCESSOR WAIT").form(Form::Elapsed)])
        .read(|process| process.processor_wait_s.into()),
    component(20, "created", PACKET_COUNTER, "12")
        .about(
            "Packets that the router created: ICMP errors, fragments except the first of each packet, copies, and \
             packets from a control element.",
        )
        .shown(&[Cell::new("CREATED").since_start()])
        .read(|process| process.created.into()),
];
