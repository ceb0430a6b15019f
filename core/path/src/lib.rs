//! The path of a packet through the router, as one-way stages.
//!
//! Read in this order to follow a packet: [`link`], [`ip`] or [`bridge`], [`classify`], [`egress`]. [`plane`] owns the
//! state and joins the stages; each stage hands [`headers`] to the next. [`plane::overlay`] is the place of a second
//! network layer. [`exception`] holds the packets that go to a control element. [`round_trips`] measures round-trip
//! times behind a port from the TCP connections that cross it; [`talkers`] samples who sends how many bytes through it;
//! [`translation`] finds the host behind an address that many share.
//!
//! This crate uses no sockets, threads or clocks. The caller passes in the bytes and the time.
//!
//! # Decisions worth knowing
//!
//! - **Keyed hashes.** Hashes over flow keys use SipHash-1-3 with a secret of the process, so a sender cannot aim at a
//!   bucket (`core/packet/src/key.rs`).
//! - **Queue limits fit the pool.** The sum of all queue limits must fit the pool minus the slots that the rings need.
//!   `weir check` refuses any other configuration, because one deep queue could starve every port.
//! - **Bounded debt.** Packets that the kernel sends out of a paced port are charged to the port, up to a bound, so
//!   that a flood of pings cannot stop forwarding (`egress/transmitter`).
//! - **Snapshots share unchanged pages.** Routes change one by one, but the worker reads immutable tables. So the trie
//!   of the longest prefix match and the list of all prefixes are stored in pages, which snapshots share
//!   (`core/path/src/ip/lookup`). A flapping prefix costs microseconds, however large the table is and however many
//!   longer prefixes it covers.
//! - **Bursts.** The worker parses all packets of a burst, looks up all their routes, and then sends one packet after
//!   the other, so the processor waits for many cache lines at the same time. The packets keep their order. Frames
//!   of an overlay take one pass instead of stages (`fpf/path/src/relay.rs` gives the reason), and may overtake the IP
//!   packets of their burst.
//! - **Next hops by number.** The longest prefix match returns the number of a route, and a cache keeps the next hop
//!   and its addresses under that number until the next snapshot; only neighbours on a link, which have no route of
//!   their own, are cached by destination (`ip/next_hop_cache`).
//! - **One overlay, one call a burst.** A plane asks its overlay once for the IP packets of a burst, and hands it only
//!   frames of its Ethernet type. A plane without an overlay checks this once a burst.
//! - **Gathering.** While frames arrive one at a time, the worker forwards each frame at once. Under load it gathers
//!   frames for 50 microseconds, because a wake-up costs more than forwarding a frame (`Moderation` in
//!   `router/live/src/worker.rs`).
//! - **One copy.** Received frames are copied once, into the pool; a superframe that passes whole is not copied: the
//!   device and the pool exchange buffers. A frame stays in its slot until it is sent; headers are rewritten there.
//! - **Neighbours are the kernel's.** weir makes only changes to a neighbour that the kernel could make by itself, and
//!   never touches an entry of an operator or another program, so there is nothing to restore when the process is
//!   killed (`router/live/src/kernel/neighbours.rs`).
//! - **Offloads end at the ingress** (`link/offload`, `link/segment`), with one exception. weir completes a checksum
//!   where the sender requests it, at any depth of tunnels. It cuts a superframe (TSO, GSO, GRO) into the packets that a
//!   wire carries, with correct headers at every depth. The exception is a TCP superframe to which nothing but forwarding
//!   happens, and which the egress link sends within a millisecond (`plane/superframes`): it passes whole, the kernel
//!   cuts it in the same way, and it is charged for what it becomes on the wire. So no other stage has a rule for
//!   superframes. The slots of the receive ring have the size of the MTU, because superframes arrive through the socket's
//!   receive queue, which is bounded in bytes (`router/live/src/device/vnet.rs`).
//! - **Devices share an iteration by work.** A superframe counts as the packets that it becomes; fragments, copies and
//!   ICMP errors count too. A device that exceeds its share of an iteration has a smaller share of the next iterations.
//!   After each superframe the ports make a step, so that its packets are queued, sent or dropped before another frame
//!   needs a slot in the pool. A superframe that would become more than 64 packets waits at its port and is cut over
//!   several iterations, which delays only its own sender (`plane/deferred`).
//! - **A frame is charged in one place.** `Framing` (`core/base`) converts a length to bytes on the wire: overhead, a
//!   minimum, cells. A port's transmitter calls it once for each new length and counts the bytes that it charges.
//!   Pacing, metrics, records, the shaper that finds its rate, and the simulator's lines use the result.
//! - **Bounded neighbour requests.** A scan makes a router request neighbours that do not exist. Requests have a
//!   bounded number of slots, shared fairly by source network, with reserved slots for neighbours that answered before
//!   (`ip/resolution`). So the kernel's table stays far below its limit.
//! - **No panics on input.** `unwrap` and `expect` occur only in tests; `unreachable!` marks only our own mistakes. The
//!   router counts and drops invalid input, and never asserts that input is valid.

pub mod bridge;
pub mod classify;
pub mod egress;
pub mod exception;
pub mod headers;
pub mod ip;
pub mod link;
pub mod plane;
pub mod round_trips;
pub mod talkers;
pub mod translation;
pub mod weighted;
