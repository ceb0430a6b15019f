//! ForCES on real machines: control and forwarding elements with sockets, threads and clocks.
//!
//! - [`ce`]: the running control element
//! - [`fe`]: a running router as a forwarding element of control elements
//! - [`tml`]: transports of ForCES messages between the two
//! - [`enrol`]: how the two get, renew and revoke their certificates
//! - [`snmp`]: devices that are not weir, sampled by SNMP
//!
//! # How elements work together
//!
//! ```text
//!   weir-forces ce                                             weir-forces fe
//!   Control --- Ce ---\                          /--- Fe --- Agent
//!   desired state      >--- Link === Link ---<               operations on the router
//!   store, operators  /     QUIC, TCP/UDP, SCTP   \          (its element: router/element)
//! ```
//!
//! A forwarding element (FE) is a router that control elements (CEs) steer by ForCES. `Agent` and `Control` are state
//! machines around the sessions of `forces/protocol`. `weir router` runs the same router without an agent: a CE's
//! requests become the same `Operation`s that `weir set` sends.
//!
//! **A class is declared once, and every form of it is derived.** A *schema* is a class with every name resolved: from
//! our declarations, from the RFCs' libraries, or from XML that a CE reads at its start (`forces/protocol/src/schema`).
//! One codec converts values to bytes by the schema, so a CE shows and sets components that it was not compiled with.
//!
//! **An LFB of an RFC class that shows one of our LFBs is a view**: it has the same instances, can be read and watched,
//! and is set through our LFB (`forces/library/src/lib.rs`).
//!
//! **Desired state.** After each association, a CE compares the components that its file or an operator has set with
//! the FE's configuration (`forces/ce/src/desired.rs`), and sends the difference as one all-or-none change. The CE
//! stores an operator's change durably before it sends the change, and rolls the change back if an FE refuses it. The
//! values of the file and of operators are separate layers, so a reload (SIGHUP) leads to the same state as a start.
//! There is one exception: if an FPF section is no longer in the file, a reload also deletes it at the FE. The store
//! has a copy that distinguishes a line torn by a crash from damage, so the store reports damage and never repairs it
//! by guessing ([`ce::store`]). The CE serves each FE under `/v1/fe/NAME` with the FE's own interface, so every tool
//! works through the CE.
//!
//! **An FE does not need its CE to forward.** It forwards by its own configuration until it has a CE, and for CEFTI
//! after it has lost its CE (`forces/fe/src/agent.rs` gives the reason).
//!
//! **The queue between control messages and redirects is a `Port`**, one in each direction of a link, with the
//! discipline `dppbrb`, strict priorities or drop-tail: the same code as in the simulator and on the wire. Control
//! messages have credit and are never dropped there (`forces/channel/src/lib.rs`). Without a configured rate, the
//! transport's back-pressure is the clock, so lower-layer buffers stay short.
//!
//! **Peers are pinned.** A certificate belongs to one ID, there is no certification authority, and identity and pins
//! are replaced under open links ([`tml::identity`]). A one-time token lets an FE and its CE exchange certificates
//! ([`enrol`]). A transport without authentication works only if the
//! configuration sets `insecure`, on loopback too ([`tml`]). SCTP keeps no state for an INIT (`tml/sctp/cookie`),
//! checks every chunk before the SCTP library receives it (`tml/sctp/gate`), and combines packets and acknowledgements
//! without a timer (`tml/sctp/association`).
//!
//! **Sessions keep guarantees**: every request ends exactly once, queues are bounded, and the next timer is always in
//! the future. Tests check these guarantees with random conversations (`forces/protocol/tests/*_promises.rs`).
//!
//! **Exceptions.** Packets that an FE cannot forward, and packets addressed to its CE, leave the plane through a
//! bounded ring behind token buckets. The control side takes the whole ring at once, and injects packets in bursts. If
//! the control side does not take the ring, the router handles these packets as it does without a CE
//! (`core/path/src/exception.rs`). A master proves that it takes exceptions by answering a heartbeat
//! (`forces/protocol/src/session/fe/master_probe.rs`). A master that stops answering loses the exceptions long before
//! CEHDI, and keeps its association. The CE answers with the routers' own ICMP error builder and rate limits, and its
//! kernel acts for remote ports through TAPs that vanish with the process (`forces/ce/src/exception`). An FE takes
//! exceptions from its router only while it has a master, and passes them on when nothing else waits ([`fe`]).
//!
//! **A CE's routes are kernel routes.** Rows of RFC 6956's tables become routes in the kernel's main table, with their
//! own protocol and metric, so the kernel forwards by them when the router dies (`router/live/src/kernel/install.rs`).
//! The draft of a request does not include these tables, because a copy of all rows for each message takes too long; a
//! journal undoes their changes instead. The FE reads a long table in slices, and does other work between two slices
//! (`forces/fe/src/agent/query.rs`). The kernel silently drops the routes of an interface, and other programs remove
//! some. So the FE compares the kernel's routes with its own after each announcement
//! (`router/live/src/kernel/losses.rs`, `fe/kept`) and installs the missing routes; `fe/upkeep` decides when. A route
//! belongs to the router that has claimed its interface, so FEs in one network namespace respect each other's routes.
//!
//! **Routes are a service of the CE.** The desired state of a route is its prefix, metric, next router and port. The CE
//! reads the corresponding rows from the FE after each association and never stores them; the service owns the rows
//! from 65536 on (`forces/ce/src/route/rows.rs`). A change of routes is all or none. A restoration is not, so a route
//! that an FE refuses does not hold up the other routes.
//!
//! **CEs and FEs end in an orderly way.** An element that ends sends each peer a teardown, and waits at most one second
//! for the links to carry it. One table, `faults`, counts the faults of all listeners.
//!
//! **Services and the page.** `forces/ce/src/service` converts a service (a queue, a filter of exceptions, a route)
//! into operations on FEs, all or none. A watch is one streaming HTTP answer (`router/northbound/src/stream.rs`), with
//! a slot outside the limits of short connections. `router/northbound/src/page` serves browser pages of a control
//! element and of a router, from files with the same style. One guard in front of both refuses foreign hosts and
//! origins, and requires a token on TCP (`router/northbound/src/page/guard.rs` lists the exceptions, such as the page's
//! own files and metrics). A connection gets its own slot only after an admitted request, so a client without access
//! cannot keep others out.
//!
//! **A network of a CE.** `forces/ce/src/network` runs the path selection of `fpf/paths` over FEs. Failures and
//! requests change the FPF sections that the CE *wants* at each element. `rollout` sends the difference in three steps
//! (rules, vectors, removals); changes that arrive meanwhile merge with the waiting changes. At the FE these sections
//! are a third layer of desired state, between the file and the operators. The CE restores this layer like the others
//! but never stores it: the store contains only the requests. `health` reads the carriers of ports after events and by
//! polls. `hold_down` makes a failure count at once and a recovery only after a delay.
//!
//! **Controllers of a CE run in the same runners as in simulation and lab** (`forces/ce/src/controller/mod.rs`): an FE
//! reports a queue by subscription, when it changes, and an order is an all-or-none change that is not kept as desired
//! state. The packets that an FE redirects to its CE are also a queue of a controller: flow control sets the token
//! buckets of the LFB `redirect` (`forces/ce/src/controller/redirect.rs`). A CE samples devices that are not weir by
//! SNMP and never sets them ([`snmp`]).

pub mod ce;
pub mod enrol;
pub mod fe;
pub mod snmp;
pub mod tml;
