//! The live habitat: real packets on real interfaces, real clocks.
//!
//! The only crate that may contain unsafe code.
//!
//! - [`capture`]: captures of packets at ports, as pcapng, while the router runs
//! - [`clock`]: the kernel's monotonic clock as [`weir_base::Instant`], and waiting until an instant
//! - [`device`]: devices, which receive and send frames in bursts
//! - [`echo`]: pings to reflectors behind a port that finds its rate
//! - [`file`]: files named by users, read with a size limit
//! - [`hangup`]: waits until the reader of a program's output has ended
//! - [`kernel`]: the kernel's tables (links, addresses, routes, neighbours), and the rules that keep transit away from
//!   the kernel
//! - [`lent`]: frames that the kernel lends, in mode "queue"
//! - [`programs`]: the other programs of weir
//! - [`router`]: the running router: starting, changing and stopping it
//! - [`worker`]: the thread that moves packets between devices through the plane
//! - [`mutex`]: locks that outlive a panic
//! - [`namespace`]: network namespaces for the lab, which vanish with the process that made them
//! - `ndpi`, with the feature of this name: the protocol of each flow according to nDPI
//! - [`observe`]: readers of the drops and backlogged flows of a running router
//! - [`signals`]: signals that arrive while a program starts
//!
//! # How the router lives with the kernel
//!
//! The *worker* is one thread that owns a *plane* (pool, ports, tables, counters) and moves packets through it in poll
//! iterations ([`worker`]). The plane takes no locks: other threads hand closures to the worker, which runs them
//! between two iterations. The worker opens no sockets: other threads open and close devices, because each of these
//! operations takes the kernel tens of milliseconds (`worker/links`).
//!
//! **The kernel keeps packets addressed to the machine.** Its forwarding stays switched on. A netfilter table that
//! belongs to the process (nf_tables `owner`) keeps transit away from the kernel, and vanishes with the process, so
//! that the kernel forwards again: *fail open* ([`kernel::transit`]). At the egress of a paced port, the same table
//! limits the machine's own packets to a share of the rate (`kernel/local`). Two tasks of the control side keep the
//! table up to date: one follows the devices, the other follows the rates, at most every five seconds, because a
//! renewed limit starts with a full bucket. Each task changes only the chains that differ (`router/limits`).
//!
//! **The machine's own processes have a port of their own.** A port of kind `tun` is an interface that the router
//! creates and that vanishes with the router; the kernel routes packets for a path of the overlay into it
//! (`core/path/src/plane/local.rs` documents why weir writes back only ICMP errors and packets for the machine).
//!
//! **One list contains every kind of kernel state that decides about a packet** (`router/element/src/kernel/kinds.rs`):
//! rules, policies, routes, filters, interfaces and sysctls, each with weir's reaction in each mode. Readers
//! (`kernel/state`) return findings that name their kind. Admission refuses findings, or warns of them, before a
//! configuration takes effect. `router/watch` reads the state again when the kernel announces a change, and twice a
//! second. docs/router.md is generated from the list. The element holds the latest findings. While they rule out the
//! active plan, the element takes no transit from the kernel, and returns the transit that it has: the ports stay open,
//! and the kernel forwards.
//!
//! **Transit is handed over at an instant.** From an instant in the future, the table drops forwarded packets, and the
//! router forwards frames with a later time stamp; at the end it is the other way round. So exactly one side forwards
//! each frame ([`kernel::handover`]). The router follows the same steps (`router/element/src/job.rs`) for a start, a
//! stop, a port that is added or removed, and an interface that comes back or is renamed. The steps are claim, open,
//! take and settle; and give back, drain and close. In case of doubt the kernel forwards a frame. Only the forwarding
//! thread has a higher priority than the element's thread, because the kernel and the router must learn the instant
//! before it comes. The claim on an interface is also a netfilter table with an owner ([`kernel::claim`] gives the
//! reasons).
//!
//! **A hung router would be a black hole**, so `weir router` is a parent and a child: the parent kills and replaces a
//! child whose forwarding or control thread stops sending heartbeats (`bin/weir/src/router/supervisor.rs`). Signals are
//! blocked until parent and child have handlers for them, so both end in an orderly way at any moment of a start
//! ([`signals`]). Neither thread waits for a reader of the log, because a third thread writes the log
//! (`bin/weir/src/log.rs`).
//!
//! **Transit is leased.** Parent and child may stall together, so the rules that keep transit from the kernel expire
//! after `watchdog` unless the forwarding thread renews them, without a lock and without a change of the ruleset
//! ([`kernel::lease`]). After a late renewal, older frames in the rings belong to the kernel, which may have forwarded
//! them (`worker/lease`).
//!
//! **The element decides the order** of all these steps. It is a state machine without I/O ([`weir_element`]). A
//! separate thread passes requests, device events and the time to the element, and carries out its effects one after
//! the other; inputs that arrive during an effect wait (`router/driver`). All other threads read the active
//! configuration from a snapshot. The kernel's tables do not pass through the element, because none of its decisions
//! depends on them.
//!
//! **A configuration changes as a whole, or component by component** (`weir set` and `weir unset`, `PATCH` and
//! `DELETE /v1/config`). In both cases the change takes effect completely or not at all. `admit`, which a start and
//! `weir check` call too, checks it first (`router/element/src/admission.rs`). A change of one parameter is checked
//! with its LFB and with the rules between LFBs. Such a change takes less than a millisecond, touches no other port and
//! renews nothing that belongs to the kernel, so a controller can steer a router every 40 ms.
//!
//! **Readers share samples.** Once a second the forwarding thread makes a sample (`router/lfb/src/class/sampled`). It
//! contains the tables with metrics, the counters of each port with histograms of queue delays (of light traffic, and
//! of backlogged flows), a sample of the packets that the port sent, and the packet at the head of each queue, whose
//! key identifies the sender of the waiting packets. `Reader` keeps the latest sample, and records of the past in rings
//! of fixed size. The page, `/v1/live`, `weir show waiting` and `weir show history` read only these, so a reader costs
//! the forwarding thread nothing. `/v1/live` sends one line of JSON per second, with the same bytes for every reader.
//! `weir observe` derives its events about backlogged sources from the difference between two samples. Other reads on
//! the socket query the forwarding thread, because controllers and tests need the current counters.
//!
//! **A port may find its rate** (`rate = "auto"`). A thread for each such port (`router/autorate` in this crate) runs
//! the law of the crate `router/autorate`, with pings out of the port's interface ([`echo`]). It shares two numbers
//! with the worker, the bytes sent and the wanted rate, so no commands queue up (`worker/steering`). With
//! `reflectors = "traffic"` the plane records the TCP segments that leave and the acknowledgments that return
//! (`core/path/src/plane/round_trips.rs`), and the worker appends the round trips to a list of bounded length, without
//! ever waiting for the list. The element does not know a found rate, because it is not configuration. The lab has the
//! same option; in simulation an actor runs the same law.
//!
//! **Kernel tables.** [`kernel::follow`] follows routes, next-hop objects, addresses, links and neighbours by netlink.
//! It publishes them as one immutable snapshot (`Tables`), which the worker takes between two iterations. Routes of FRR's
//! zebra join them by [`kernel::fpm`].
//!
//! **An observer adds up drops** by flow, reason and port, when a dropped packet returns to the pool
//! (`core/path/src/plane/observe.rs`). Readers share the events, which [`observe`] fetches by swapping memory, so the
//! forwarding thread has the same work for any number of readers.
//!
//! **A capture is a *watch* of the plane**: the plane copies the first bytes of frames at the watched ports into memory
//! of fixed size (`core/path/src/plane/watch.rs`), and another thread writes them as pcapng ([`capture`]).

pub mod capture;
pub mod clock;
pub mod device;
pub mod echo;
pub mod file;
pub mod hangup;
pub mod kept_files;
pub mod kernel;
pub mod lent;
pub mod mutex;
pub mod namespace;
#[cfg(feature = "ndpi")]
pub mod ndpi;
pub mod observe;
pub mod programs;
pub mod router;
pub mod signals;
pub mod thread_times;
pub mod worker;

mod sys;
