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
                "The interface was switched off or removed while packets waited for it, or a route still points to \
                 it. `weir show ports` has the state; run `ip link set DEV up`, or fix the cause of the outage."
            }
            Self::TruncatedHeader => {
                "A broken sender or an attack; a few come from scanners. `weir capture --drops` shows the frames, and \
                 their source MAC address identifies the sender."
            }
            Self::TruncatedFrame => {
                "An interface got a longer MTU while weir ran, or a neighbour sends jumbo frames. `weir show status \
                 --json` has `longest_frame_bytes`: set the port's MTU (`ip link set DEV mtu N`) and restart weir, or \
                 lower the neighbour's MTU."
            }
            Self::BadOffload => {
                "A virtual machine or container behind the port sends superframes whose headers do not fit: a bug in \
                 its driver, or an attack from within it. Find it with `weir capture --drops`; `ethtool -K DEV tso \
                 off gso off` in the guest avoids it."
            }
            Self::NotIp => {
                "Normal: ARP, LLDP and the like are for the kernel. If hosts behind the router speak another protocol \
                 to each other (PPPoE, MPLS), a router cannot forward it: use `mode = \"bridged\"`."
            }
            Self::UnknownVlan => {
                "The switch sends tagged frames to the port. Configure the VLAN interface (`eth1.7`) as the port \
                 instead of its parent interface, or remove the VLAN from the switch port."
            }
            Self::IpVersion => {
                "A broken sender or an attack: no usual stack sends this. `weir capture --drops` shows the frames and \
                 the MAC address of their sender. This reason also counts packets from a tunnel or control element \
                 that are not IP."
            }
            Self::IpHeaderLength => {
                "A broken sender or an attack: no usual stack sends this. `weir capture --drops` shows the packets; \
                 their source MAC address identifies the sender."
            }
            Self::IpTotalLength => {
                "A sender whose driver truncates packets, an IPv6 jumbogram, or an attack. `weir capture --drops` \
                 shows the packets; if they all come from one machine, update or replace its network driver."
            }
            Self::IpChecksum => {
                "Bits were corrupted after the last router wrote the header: in its memory, in a switch or by a \
                 faulty driver; or it is an attack. If the count grows, compare the sources in `weir capture \
                 --drops`, and replace the device that they share."
            }
            Self::MartianSource => {
                "A host without an address yet (0.0.0.0), a link-local address (169.254.x.x, fe80::) that tries to \
                 reach another network, or a forged source. A few are normal; if there are many, find the host by its \
                 MAC address with `weir capture --drops`, and check why DHCP gives it no address."
            }
            Self::OwnSource => {
                "Somebody forges the router's address, two machines have the same address, or a loop returns the \
                 router's own packets. Compare the MAC address in `weir capture --drops` with `ip link`: if it is the \
                 router's own, look for the loop, otherwise for the other machine."
            }
            Self::ReversePath => {
                "A forged source, or a legitimate source whose return path uses another port (two uplinks, asymmetric \
                 routes). `ip route get SOURCE` names the interface of the return path; if the asymmetry is intended, \
                 set `source_check = \"loose\"` at the port where they come in, or `rp_filter` to 2."
            }
            Self::ForwardingOff => {
                "The kernel would not forward it either: net.ipv4.ip_forward, net.ipv4.conf.INTERFACE.forwarding or \
                 net.ipv6.conf.all.forwarding is 0, or net.ipv6.conf.INTERFACE.disable_ipv6 is 1, where INTERFACE is \
                 the input port. `sysctl -w` changes it immediately."
            }
            Self::MartianDestination => {
                "A host sends to 127.0.0.0/8 or ::1, or to 0.0.0.0/8, 169.254.0.0/16, 240.0.0.0/4 or a mapped address \
                 for which only a default route exists: a misconfigured program. `weir capture --drops` names the \
                 host. If you use such addresses, add a specific route: `ip route add 240.0.0.0/4 via ..`."
            }
            Self::Multicast => {
                "Normal: mDNS, DHCP and router advertisements are for the kernel. weir routes no multicast; if \
                 viewers in another network miss a stream, run an IGMP proxy, which sends its own copy of the stream, \
                 or use `mode = \"bridged\"`."
            }
            Self::SourceRoute => {
                "A traceroute with a source route, or an attack: today all networks refuse source routes and IPv6 \
                 type-0 routing headers (RFC 5095). Nothing needs fixing; send without the option."
            }
            Self::LocalDelivery => {
                "Normal: SSH, DNS and routing protocols to the router itself. If a service of the router does not \
                 answer, check the kernel: `ss -lntu`, and netfilter's `input` chains."
            }
            Self::Redirected => {
                "Normal at a forwarding element. `weir show redirect` counts these packets; the keys of `[redirect]` \
                 select the packets for the control element."
            }
            Self::TtlExpired => {
                "A few come from traceroute. Many indicate a routing loop: `traceroute DESTINATION` repeats the same \
                 routers; correct the route of one of them (a default route that leads back, or a prefix without a \
                 blackhole route where it is announced)."
            }
            Self::NoRoute => {
                "A destination outside all routes, often a missing default route or a routing daemon that has lost \
                 its peers. Check `ip route get DESTINATION` and `weir show routes`; add the route to the main table, \
                 because weir ignores policy tables."
            }
            Self::RouteBlackhole => {
                "An operator or a routing daemon set `blackhole` for the prefix, to drop packets without an answer. \
                 `ip route show type blackhole` lists these routes; delete any that is not intended."
            }
            Self::RouteUnreachable => {
                "An `unreachable` route covers the destination; an operator set it, or a daemon did for a prefix that \
                 it announces but cannot reach. `ip route show type unreachable` lists these routes; add the missing \
                 more specific route, or remove the unreachable one."
            }
            Self::RouteProhibit => {
                "A `prohibit` route covers the destination: somebody forbids it on purpose. `ip route show type \
                 prohibit` lists these routes; senders receive \"administratively prohibited\"."
            }
            Self::NotAPort => {
                "The route leads to a VPN, Wi-Fi or another network card that is not a port of weir; the kernel \
                 forwarded this traffic before. `ip route get DESTINATION` names the interface; make it a port if it \
                 is Ethernet, otherwise do not send that traffic through weir's ports."
            }
            Self::TooBig => {
                "Hosts with a longer MTU than the next link (PPPoE, tunnels) probe it, and receive \"packet too \
                 big\": a few per connection are normal. If transfers hang, their firewall drops that message: set \
                 the same MTU on both sides of the router, or lower the hosts' MTU."
            }
            Self::FpfIndex => {
                "A broken or hostile sender of FPF packets: no rule produces this. `weir capture --drops` shows where \
                 they come in; remove the `[fpf.interface]` of any port that should not receive FPF packets."
            }
            Self::FpfLidLength => {
                "Two routers of one domain have different `lid_bytes`, or the vector was written for another domain. \
                 Compare `lid_bytes` in their files, or let `weir paths FILE --configure ELEMENT` write the sections."
            }
            Self::FpfUnknownLid => {
                "A vector names a LID for which this router has no rule at that interface: the rule is missing, or is \
                 not set yet while paths change. `weir capture --drops` shows the header; compare it with `weir paths \
                 FILE --configure ELEMENT`."
            }
            Self::FpfRule => {
                "The rule of this LID has `action = \"drop\"`, or its processor or control element is missing. Change \
                 the action, or start the control element (`weir show redirect` shows whether it accepts packets)."
            }
            Self::FpfProcessed => {
                "Normal with coding: a parity that nobody needs is dropped. If packets are missing as well, a path \
                 passes `xor-encode` without `xor-decode` or `segment` without `reassemble`, or vice versa: correct \
                 its vector."
            }
            Self::FpfSegment => {
                "Normal where a rule reassembles: the reassembled packet is counted separately."
            }
            Self::FpfIncomplete => {
                "The path between `segment` and `reassemble` loses packets, or delays some for longer than a second. \
                 `weir show queues` at each router of the path shows where; reserve a share for the path there \
                 (`queue`), or avoid segmentation with a longer MTU."
            }
            Self::FpfPayload => {
                "A path ends here while its packets still carry segments or other payloads: the `reassemble` rule is \
                 missing, or the rule that removes the header must name the Ethernet type of its packets (`payload`)."
            }
            Self::FpfNested => {
                "Tunnels within tunnels, or multicast rules that copy copies: a mistake in the rules, or an attack. \
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
                "The rules of the routers in one domain contradict each other. Write them with `weir paths`, which \
                 makes no loops; where several routers share one Ethernet, give the rule the interface as its `input`."
            }
            Self::FpfTunnelPort => {
                "The packet has the addresses of a tunnel, but arrived at a port to which the route to `remote` does \
                 not lead and that `ports` does not name. Somebody forges the other end, or its packets take another \
                 path: `ip route get REMOTE` names the port, `weir capture --drops` shows where they come in. If that \
                 port is right, name it in `ports` of the tunnel's `[fpf.interface]`."
            }
            Self::FpfTunnelPacket => {
                "The packet has the addresses of a tunnel, but is a fragment, GRE with options, or another payload. \
                 The other end fragments its tunnel packets (configure the MTU of the path there), sends GRE with a \
                 key, a checksum or a sequence number, or has another `ether_type`; or somebody forges its address."
            }
            Self::NoCopy => "The pool is too small for multicast copies: see `pool-exhausted`.",
            Self::NeighbourFailed => {
                "The host or the next router is off, or the address does not exist (a scan). `weir show neighbours` \
                 has its state, `ip neigh` the kernel's; ping the next hop. Many different addresses at once indicate \
                 a scan: only its own packets are lost."
            }
            Self::NeighbourQueueFull => {
                "A scan of a connected network, or a flood to a host that does not answer. `weir capture --drops` \
                 shows the sender; stop it there. New honest hosts have reserved slots (docs/hostile-network.md)."
            }
            Self::PoolExhausted => {
                "Waiting packets hold every slot: a port hardly sends, or queue limits are too large for `pool`. \
                 Compare `weir show queues` with POOL PACKETS of `weir show status`; lower the `limit` of the fullest \
                 queue, or raise `pool` and restart."
            }
            Self::SegmentsQueueFull => {
                "A virtual machine or container behind the port sends superframes of more than 64 packets, faster \
                 than weir can segment them: a TCP connection with a tiny MSS, or an attack from within it. Only its \
                 own packets are lost. Find it with `weir capture --drops`; `ethtool -K DEV tso off gso off` in the \
                 guest avoids it."
            }
            Self::Stale => {
                "The machine was suspended, its virtual machine was stopped, or other programs used all processors. A \
                 burst after a pause is expected; if it repeats, dedicate a processor to weir, or find out what stops \
                 the machine (`journalctl -k`, steal time in `top`)."
            }
            Self::Disabled => {
                "The control element disabled the forwarding element, or the forwarding element lost it and `cefti` \
                 has elapsed. `weir show fes` at the control element shows why it is lost; a longer `cefti` keeps the \
                 router forwarding meanwhile."
            }
            Self::NotAdmitted => {
                "Admission control (`fan`) keeps new flows off a congested link, as intended. `weir show flows` lists \
                 the waiting flows; a higher `rate`, or fewer flows, admits them. Use `triple_fair` if every flow \
                 must start."
            }
            Self::QueueFull => {
                "More traffic arrives than the link carries, for longer than the queue can absorb: normal for `fifo`, \
                 a flood with other disciplines. `weir show queues` shows the port; raise `rate` if the line is \
                 faster, or use a discipline that limits the flood to its share (`triple_fair`)."
            }
            Self::Congestion => {
                "Normal on a full link: each TCP transfer loses a packet now and then, and slows down. `weir show \
                 queues` has the drop share (DROPPED). If it is high, senders do not slow down, or `rate` is below \
                 the capacity of the line."
            }
            Self::LongestFlow => {
                "A sender does not slow down, and its packets fill the queue; others lose nothing by it. `weir \
                 capture --drops` names the flow. Nothing needs fixing at the router; stop the sender, or limit it \
                 where it enters."
            }
            Self::Policed => {
                "Redirected packets beyond the token buckets (`weir show redirect`), or packets beyond `police` of a \
                 path (`weir show fpf_encapsulations`). This limits a flood towards the router's control plane, as \
                 intended; raise the rate if the traffic is legitimate."
            }
            Self::Impaired => {
                "The discipline `impair` emulates a bad link, on purpose. Use another discipline on a production \
                 router: `weir unset port.NAME.discipline`."
            }
            Self::Reconfigured => {
                "A port was removed before its queue had drained, or while packets of the router's own programs \
                 were on their way to it. A few at the time of a change are normal."
            }
            Self::Shutdown => {
                "The router stopped with queues that did not drain within three seconds at their rate. It appears \
                 only in the last log lines; nothing needs fixing."
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
