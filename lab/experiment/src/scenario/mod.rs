//! Scenarios: one TOML file describes a network, its queues, its traffic and the values to compare. The same file
//! serves the simulator and the lab.
//!
//! ```text
//!  files ────source────▶ Node ──set──▶ Node ──check───▶ Scenario     (one for each point)
//!                           ▲
//!          --set PATH=VALUE, a variant's `set`, a value of the sweep
//! ```
//!
//! ```toml
//! title = "Two hosts and a router"
//! duration = "60 s"                  # of each run
//! warm_up = "10 s"                   # left out of every mean
//! seed = 1
//!
//! [router.r]
//! [host.tcp]
//! count = 20                         # tcp1 .. tcp20, each with a link of its own
//! [host.server]
//!
//! [link.access]
//! ends = ["tcp", "r"]
//! rate = "100 Mbit"                  # both ways
//! [link.bottleneck]
//! ends = ["r", "server"]
//! rate = "100 Mbit"
//! discipline = { kind = "fifo", limit = "100 packets" }   # the first end's; else 1000 packets
//!
//! [traffic.long]
//! kind = "tcp"                       # greedy, unless `size`, `rate` or `total_rate` is given
//! from = "tcp"
//! to = "server"
//!
//! [[variant]]                        # every variant is run at every point of the sweep
//! name = "big"
//! set = { "link.bottleneck.discipline.limit" = "1000 packets" }
//!
//! [sweep]
//! "traffic.long.flows" = [1, 2, 4]
//! ```
//!
//! ```toml
//! [link.wan]
//! ends = ["r", "far"]
//! delay = "20 ms"
//! framing = "2 B"                    # on the wire beyond the IP packet, or "docsis"; Ethernet's 38 B if absent
//!
//! [traffic.files]
//! kind = "tcp"
//! from = "tcp"
//! to = "server"
//! arrivals = "exponential 0.2 s"     # one flow after another; else all at `start`, or in `spread`
//! size = "pareto 1.5 26 MB"          # shape and mean: a transfer of that size, then it closes
//! congestion = "newreno"             # cubic, sack, newreno, bbr (lab only); mss, min_rto, ack_every, ..
//!
//! [traffic.voice]
//! kind = "udp"
//! from = "tcp"
//! to = "server"
//! rate = "80 kbit"                   # while on
//! on = "exponential 1 s"
//! off = "exponential 1.35 s"
//! spacing = "jittered 0.1"           # or even, or poisson
//! ```
//!
//! ```toml
//! [link.uplink]                      # a link that changes, and differs in its directions
//! ends = ["r", "isp"]
//! rate = "20 Mbit, 4 Mbit from 20 s, outage from 30 s, 20 Mbit from 31 s"
//!                                    # or "sawtooth 4 Mbit to 20 Mbit in 8 steps every 20 s", or "trace FILE"
//! reverse_rate = "50 Mbit"           # from the second end; as from the first if absent
//! delay = "10 ms, 40 ms from 25 s"
//! shaper = "18 Mbit"                 # the port's own rate, if it does not know the link's: the queue that it cannot
//! buffer = "300 kB"                  # prevent is in a modem with this buffer
//! ```
//!
//! ```toml
//! extends = "network.toml"           # a path from here: tables are merged key by key, the rest is replaced
//!
//! [link.wan]
//! rate = { calibrated = "94 Mbit", printed = "100 Mbit" }    # `--as-printed` runs what the paper prints
//!
//! [quick]
//! duration = "15 s"                  # of a preview: `--quick`
//!
//! [[variant]]
//! from = "disciplines.toml"          # the variants of that file; `only = ["NAME"]` takes some of them
//! ```
//!
//! Rates of links count the bytes of a packet on the wire, its `framing` included; rates of traffic count payload.
//! Random sizes and times are written as in [`weir_base::distribution`]. All keys are in [`parameters`]; `weir list
//! schema` prints them as a JSON Schema for an editor. A habitat refuses a scenario that it cannot run before it
//! starts anything; the result notes the features that it leaves out.

pub mod check;
pub mod checked;
pub mod congestion;
pub mod controller;
mod discipline;
mod key;
pub mod layer;
pub mod link;
pub mod parameters;
pub mod plan;
pub mod reader;
pub mod reading;
mod router;
pub mod schema;
pub mod source;
pub mod tcp;
pub mod trace;
pub mod traffic;

pub use checked::{HostGroup, Scenario};
pub use congestion::Congestion;
pub use controller::{Controller, Wire};
pub use discipline::Discipline;
pub use key::{Form, Key};
pub use link::{Auto, Direction, Link, Medium, Modem, Shaper};
pub use plan::{Choices, Given, Override, Plan, Point, Sweep, load, load_built_in, load_text};
pub use reading::Reading;
pub use router::{Mode, Router};
pub use schema::schema;
pub use tcp::TcpOptions;
pub(crate) use traffic::flow_name;
pub use traffic::{Flow, Kind, Starts, Traffic, TrafficKind};
pub use weir_base::{Offered, Sizes, Spacing, Times};
