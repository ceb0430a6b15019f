//! Advice about each drop reason: its usual causes, how to see them, and the remedy.
//!
//! The match has an arm for each [`Reason`], so a new reason does not compile without advice. `weir describe REASON`
//! and `docs/drop-reasons.md` print it.

use crate::reason::Reason;

impl Reason {
    /// The usual causes, how to see them, and the remedy, for an operator.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::DeviceDown => {
                "The interface is switched off or was removed while packets waited for it, or a route still leads \
                 there. `weir show ports` has the state; `ip link set DEV up`, or repair what took the interface \
                 down."
            }
            Self::TruncatedHeader => {
                "A broken sender or an attack; a few are scanners. `weir capture --drops` shows the frames, and \
                 their source MAC address says who sends them."
            }
            Self::TruncatedFrame => {
                "An interface got a longer MTU while weir ran, or a neighbour sends jumbo frames. `weir show status \
                 --json` has `longest_frame_bytes`: set the port's MTU (`ip link set DEV mtu N`) and restart weir, \
                 or lower the MTU of the neighbour."
            }
            Self::BadOffload => {
                "A virtual machine or container behind the port hands over superframes whose headers do not fit: a \
                 bug of its driver, or an attack from within it. Find it with `weir capture --drops`; `ethtool -K \
                 DEV tso off gso off` in the guest avoids it."
            }
            Self::NotIp => {
                "Normal: ARP, LLDP and the like are for the kernel. If hosts behind the router speak another \
                 protocol to each other (PPPoE, MPLS), a router cannot pass it: use `mode = \"bridged\"`."
            }
            Self::UnknownVlan => {
                "The switch sends tagged frames to the port. Make the VLAN's own interface (`eth1.7`) the port \
                 instead of the interface below it, or remove the VLAN from the switch port."
            }
            Self::IpVersion => {
                "A broken sender or an attack: no usual stack sends this. `weir capture --drops` shows the frames \
                 and the MAC address of their sender. A tunnel or a control element that hands over something else \
                 than IP is counted here as well."
            }
            Self::IpHeaderLength => {
                "A broken sender or an attack: no usual stack sends this. `weir capture --drops` shows the packets; \
                 their source MAC address says by whom."
            }
            Self::IpTotalLength => {
                "A sender whose driver cuts packets short, an IPv6 jumbogram, or an attack. `weir capture --drops` \
                 shows the packets; if they all come from one machine, update or replace its network driver."
            }
            Self::IpChecksum => {
                "Bits were damaged after the last router wrote the header: by its memory, by a switch or by a \
                 faulty driver; or it is an attack. If the count grows, compare the sources in `weir capture \
                 --drops`, and replace the device that they share."
            }
            Self::MartianSource => {
                "A host without an address yet (0.0.0.0), a link-local address (169.254.x.x, fe80::) that tries to \
                 reach another network, or a forged source. A few are normal; for many, find the host by its MAC \
                 address with `weir capture --drops`, and look why DHCP gives it no address."
            }
            Self::OwnSource => {
                "Somebody forges the router's address, two machines have the same one, or a loop brings the \
                 router's own packets back. Compare the MAC address in `weir capture --drops` with `ip link`: if it \
                 is the router's own, look for the loop, else for the other machine."
            }
            Self::ReversePath => {
                "A forged source, or an honest one whose way back leaves by another port (two uplinks, asymmetric \
                 routes). `ip route get SOURCE` names the interface of the way back; if the asymmetry is meant, set \
                 `source_check = \"loose\"` at the port where they come in, or `rp_filter` to 2."
            }
            Self::ForwardingOff => {
                "The kernel would not forward it either: net.ipv4.ip_forward, net.ipv4.conf.INTERFACE.forwarding or \
                 net.ipv6.conf.all.forwarding is 0, or net.ipv6.conf.INTERFACE.disable_ipv6 is 1, where INTERFACE is \
                 the port where it came in. `sysctl -w` changes it at once."
            }
            Self::MartianDestination => {
                "A host sends to 127.0.0.0/8 or ::1, or to 0.0.0.0/8, 169.254.0.0/16, 240.0.0.0/4 or a mapped address \
                 for which there is only a default route: a misconfigured program. `weir capture --drops` names the \
                 host. If such addresses are in use, they need a route of their own: `ip route add 240.0.0.0/4 via ..`."
            }
            Self::Multicast => {
                "Normal: mDNS, DHCP and router advertisements are for the kernel. weir routes no multicast; if \
                 viewers in another network miss a stream, run an IGMP proxy with a stream of its own, or `mode = \
                 \"bridged\"`."
            }
            Self::SourceRoute => {
                "A traceroute with a source route, or an attack: source routes and IPv6 type-0 routing headers are \
                 refused everywhere today (RFC 5095). There is nothing to repair; send without the option."
            }
            Self::LocalDelivery => {
                "Normal: SSH, DNS and routing protocols to the router itself. If a service of the router does not \
                 answer, look at the kernel: `ss -lntu`, and netfilter's `input` chains."
            }
            Self::Redirected => {
                "Normal at a forwarding element. `weir show redirect` counts these packets; the keys of \
                 `[redirect]` say which ones go to the control element."
            }
            Self::TtlExpired => {
                "A few are traceroute. Many are a routing loop: `traceroute DESTINATION` shows the same routers \
                 again and again; correct the route of one of them (a default route that leads back, or a prefix \
                 without a blackhole route where it is announced)."
            }
            Self::NoRoute => {
                "A destination outside all routes, often a missing default route or a routing daemon that has lost \
                 its peers. `ip route get DESTINATION` and `weir show routes`; add the route in the main table, \
                 because policy tables do not count for weir."
            }
            Self::RouteBlackhole => {
                "An operator or a routing daemon set `blackhole` for the prefix, to drop it without an answer. `ip \
                 route show type blackhole` lists these routes; delete the one that is not meant."
            }
            Self::RouteUnreachable => {
                "An `unreachable` route covers the destination, set by an operator or by a daemon for a prefix that \
                 it announces and has not got. `ip route show type unreachable` lists them; the more specific route \
                 is missing, or this one is too many."
            }
            Self::RouteProhibit => {
                "A `prohibit` route covers the destination: somebody forbids it on purpose. `ip route show type \
                 prohibit` lists them; senders hear \"administratively prohibited\"."
            }
            Self::NotAPort => {
                "The route leads into a VPN, a Wi-Fi or another network card that weir does not have: traffic that \
                 the kernel forwarded before. `ip route get DESTINATION` names the interface; make it a port if it \
                 is Ethernet, else do not send that traffic through weir's ports."
            }
            Self::TooBig => {
                "Hosts with a longer MTU than the next link (PPPoE, tunnels) probe it, and hear \"packet too big\": \
                 a few for each connection are normal. If transfers hang, their firewall drops that answer: set the \
                 same MTU on both sides of the router, or lower the hosts'."
            }
            Self::FpfIndex => {
                "A broken or hostile sender of FPF packets: no rule makes this. `weir capture --drops` shows where \
                 they come in; remove the `[fpf.interface]` of a port where nobody should send FPF packets."
            }
            Self::FpfLidLength => {
                "Two routers of one domain have different `lid_bytes`, or a vector was written for another domain. \
                 Compare `lid_bytes` in their files, or let `weir paths FILE --configure ELEMENT` write the \
                 sections."
            }
            Self::FpfUnknownLid => {
                "A vector names a LID that this router has no rule for at that interface: the rule is missing, or \
                 is not set yet while paths change. `weir capture --drops` shows the header; compare it with `weir \
                 paths FILE --configure ELEMENT`."
            }
            Self::FpfRule => {
                "The rule of this LID has `action = \"drop\"`, or its processor or control element is not there. \
                 Change the action, or start the control element (`weir show redirect` says whether it takes \
                 packets)."
            }
            Self::FpfProcessed => {
                "Normal with coding: a parity that nobody needs is dropped. If packets are missing as well, a path \
                 passes `xor-encode` without `xor-decode` or `segment` without `reassemble`, or the other way \
                 round: correct its vector."
            }
            Self::FpfSegment => {
                "Normal where a rule reassembles: the packet that the segments make is counted by itself."
            }
            Self::FpfIncomplete => {
                "The path between `segment` and `reassemble` loses packets, or delays some for longer than a \
                 second. `weir show queues` at each router of the path shows where; give the path its share there \
                 (`queue`), or avoid cutting with a longer MTU."
            }
            Self::FpfPayload => {
                "A path ends here with segments or other payloads in it: the `reassemble` rule is missing, or the \
                 rule that takes the header off must name the Ethernet type of its packets (`payload`)."
            }
            Self::FpfNested => {
                "Tunnels within tunnels, or multicast rules that copy copies: a mistake in rules, or an attack. \
                 Look for a rule whose `leaves` lead to another multicast rule."
            }
            Self::FpfNoMatch => {
                "`fpf.no_match = \"drop\"` admits only packets with a path. `weir show fpf_encapsulations` counts \
                 the matches: add an encapsulation for these packets, or set `no_match = \"forward\"`."
            }
            Self::FpfQueueFull => {
                "The flows of the path send more than `shape` permits. `weir show fpf_encapsulations` counts them \
                 by path: raise `shape` or `shape_limit`, or spread the flows over more paths."
            }
            Self::FpfReturn => {
                "The rules of the routers of one domain contradict each other. Write them with `weir paths`, which \
                 makes no loops; where several routers share one Ethernet, give the rule the interface as its \
                 `input`."
            }
            Self::FpfTunnelPort => {
                "It has the addresses of a tunnel, and came in by a port to which the route to `remote` does not lead and \
                 that `ports` does not name. Somebody forges the other end, or its packets take another way: `ip route \
                 get REMOTE` names the port, `weir capture --drops` shows where they come in. If that port is right, \
                 name it in `ports` of the tunnel's `[fpf.interface]`."
            }
            Self::FpfTunnelPacket => {
                "It has the addresses of a tunnel, and is a fragment, GRE with options, or another payload. The other end \
                 fragments its tunnel's packets (give it the MTU of the path), sends GRE with a key, a \
                 checksum or a sequence number, or has another `ether_type`; or somebody forges its address."
            }
            Self::NoCopy => {
                "The pool is too small for the copies that multicast makes: see `pool-exhausted`."
            }
            Self::NeighbourFailed => {
                "The host or the next router is off, or the address does not exist (a scan). `weir show neighbours` \
                 has its state, `ip neigh` the kernel's; ping the next hop. Many different addresses at once are a \
                 scan: only its own packets are lost."
            }
            Self::NeighbourQueueFull => {
                "A scan of a connected network, or a flood to a host that does not answer. `weir capture --drops` \
                 shows the sender; stop it there. Honest new hosts keep places of their own \
                 (docs/hostile-network.md)."
            }
            Self::PoolExhausted => {
                "Packets that wait hold every slot: a port that hardly sends, or limits of queues that are too \
                 large for `pool`. Compare `weir show queues` with POOL PACKETS of `weir show status`; lower the \
                 `limit` of the fullest queue, or raise `pool` and restart."
            }
            Self::SegmentsQueueFull => {
                "A virtual machine or container behind the port sends superframes of more than 64 packets, faster \
                 than they can be cut: a TCP connection with a tiny MSS, or an attack from within it. Only its own \
                 packets are lost. Find it with `weir capture --drops`; `ethtool -K DEV tso off gso off` in the guest \
                 avoids it."
            }
            Self::Stale => {
                "The machine was suspended, a virtual machine was stopped, or other programs took all processors. A \
                 burst after a pause is what it should be; if it repeats, give weir a processor of its own, or look \
                 what stops the machine (`journalctl -k`, steal time in `top`)."
            }
            Self::Disabled => {
                "The control element has switched the forwarding element off, or the forwarding element has lost it \
                 and `cefti` has passed. `weir show fes` at the control element says why it is lost; a longer \
                 `cefti` keeps the router forwarding meanwhile."
            }
            Self::NotAdmitted => {
                "Admission control (`fan`) keeps new flows off a congested link, as it should. `weir show flows` \
                 lists who waits; a higher `rate`, or fewer flows, admits them. Take `triple_fair` if every flow \
                 must start."
            }
            Self::QueueFull => {
                "More comes than the link carries, for longer than the queue can hold: normal for `fifo`, and with \
                 other disciplines a flood. `weir show queues` says at which port; raise `rate` if the line is \
                 faster, or take a discipline that makes the flood pay (`triple_fair`)."
            }
            Self::Congestion => {
                "Normal on a full link: each TCP transfer loses a packet now and then, and slows down. `weir show \
                 queues` has the share (DROPPED). Where it is high, senders do not slow down, or `rate` is set \
                 below what the line carries."
            }
            Self::LongestFlow => {
                "A sender does not slow down, and its packets fill the queue; others lose nothing by it. `weir \
                 capture --drops` names the flow. Nothing has to be repaired at the router; stop the sender, or \
                 limit it where it enters."
            }
            Self::Policed => {
                "Redirected packets beyond the token buckets (`weir show redirect`), or packets beyond `police` of \
                 a path (`weir show fpf_encapsulations`). A flood towards the router's control plane is held back \
                 here, as it should be; raise the rate if the traffic is wanted."
            }
            Self::Impaired => {
                "The discipline `impair` emulates a bad link, on purpose. Take another discipline on a router that \
                 people use: `weir unset port.NAME.discipline`."
            }
            Self::Reconfigured => {
                "A port was removed before its queue had drained, or while packets of the router's own programs \
                 were on their way to it. A few at the time of a change are normal."
            }
            Self::Shutdown => {
                "The router stopped with queues that did not drain within three seconds, at their rate. It is seen \
                 in the last log lines only; nothing has to be repaired."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_advice_of_its_own() {
        let mut all: Vec<_> = Reason::ALL.into_iter().map(Reason::remedy).collect();
        for remedy in &all {
            assert!(remedy.ends_with('.') && !remedy.contains("  "), "{remedy}");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), Reason::COUNT);
    }
}
