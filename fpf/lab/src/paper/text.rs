//! Claims of the text.

use weir_experiment::reproduce::findings::{check, show};
use weir_experiment::reproduce::query::{pairs, series};
use weir_experiment::reproduce::recipe::{Recipe, claim};

use super::{FPS, FRAME_BYTES, IN_MEMORY, OF_LINK, OF_LINK_OFFERED, ROUTES, at, core};

pub(super) fn text(r: &mut Recipe) {
    r.title = "Claims of the text";
    r.notes = &[IN_MEMORY];
    r.benches = &[
        "fpf/core",
        "fpf/flows",
        "fpf/table",
        "fpf/edge",
        "fpf/implicit",
        "fpf/wire-loops",
        "fpf/media",
    ];
    core_fe(r);
    edge_fe(r);
    networks(r);
}

fn core_fe(r: &mut Recipe) {
    claim(r, "text.1", "FPF node slightly faster than IPv6 overall").measured(|m, f| {
        for router in ["IPv6", ROUTES] {
            let ratio = |bytes| {
                let [fpf, ipv6] = ["FPF", router].map(|engine| core(m, engine, bytes).metric(FPS));
                (fpf / ipv6).map(f64::ln)
            };
            let sum = FRAME_BYTES.map(ratio).into_iter().reduce(|a, b| a + b);
            let mean = sum.unwrap_or_default() / FRAME_BYTES.len() as f64;
            check!(f, "geometric mean over all sizes, FPF to {router}":
                above(mean.map(f64::exp), 1.0));
        }
    });
    let text = "Core cost does not depend on the number of flows";
    claim(r, "text.2", text).measured(|m, f| {
        let [one, many] = [1, 16_000].map(|flows| {
            let at = at(m, "flows", "FPF").and("flows", flows);
            at.and("bytes", 78).metric("ns")
        });
        check!(f, "ns for a frame, 16K flows to one": at_most(many / one, 1.1));
    });
    claim(r, "text.3", "Core table holds neighbours only").measured(|m, f| {
        let of = |paths: u32, metric| at(m, "table", "core FE").and("paths", paths).metric(metric);
        for paths in [1000, 100_000] {
            check!(f, "rows of the core FE with {paths} paths less those with 10":
                between(of(paths, "rows") - of(10, "rows"), [0.0, 0.0]));
        }
        check!(f, "rows with 100,000 paths": above(of(100_000, "rows"), 0.0));
        show!(f, m, "rules at the edges": for n in [10, 1000, 100_000], "{n} paths":
            of(n, "encapsulations"));
    });
}

fn edge_fe(r: &mut Recipe) {
    let text = "A plain edge FE handles over a thousand active flows";
    claim(r, "text.4", text).measured(|m, f| {
        for bytes in [384, 512, 1024] {
            let at = at(m, "edge", "classifier on").and("flows", 1000);
            let share = at.and("bytes", bytes).metric(OF_LINK);
            check!(f, "share of 1 Gbit/s, 1000 flows of a class, frames of {bytes} B":
                at_least(share, 0.99));
        }
        f.remark(
            "one core of this machine, in memory, without the work of network devices; the classifier has decided \
             about the flows, and runs in another thread",
        );
    });
    claim(r, "text.5", "Edge work exceeds core and edge-IP work").measured(|m, f| {
        for (name, engine, flows) in [
            ("IPv6", "IPv6", 1000),
            (ROUTES, ROUTES, 16_000),
            ("core FE", "FPF", 1000),
        ] {
            let edge = core(m, "edge", 78).and("flows", flows).metric("ns");
            check!(f, "ns for a frame of 78 B, {name} to an edge with {flows} flows":
                less(core(m, engine, 78).metric("ns"), edge));
        }
    });
    let text = "Engine reaches the 12.8 Gb/s bus limit, small loss only under 128 B";
    claim(r, "text.6", text).measured(|m, f| {
        let bus = |bytes| core(m, "FPF", bytes).metric("bus_share_ratio");
        check!(f, for &x in &FRAME_BYTES[2..], "{x} B, share of 12.8 Gbit/s":
            at_least(bus(x), 0.99));
        let at = |bytes, loops, metric| {
            let at = at(m, "wire-loops", "FPF").and("loops", loops);
            at.and("bytes", bytes).metric(metric)
        };
        let all = || pairs(&[128, 1518], &[0, 7]);
        show!(f, m, "through interfaces, throughput to 1 Gbit/s, which the source offers at most":
            for (bytes, loops) in all(), "{bytes} B, {loops} loops": at(bytes, loops, OF_LINK));
        show!(f, m, "the source's rate, relative to it":
            for (bytes, loops) in all(), "{bytes} B, {loops} loops":
                at(bytes, loops, OF_LINK_OFFERED));
        show!(f, m, "share of the bus, which may be less": for &x in &FRAME_BYTES[..2], "{x} B":
            bus(x));
        f.remark(
            "one core of this machine, in memory; the paper's network processor is a pipeline of \
             several",
        );
        f.remark(
            "through interfaces one stream passes several ports of the router, with a LID for \
             each, as in section V.A; every pass counts, and source, kernel and router share the \
             machine",
        );
    });
}

fn networks(r: &mut Recipe) {
    claim(r, "text.7", "Several link kinds and IPv4, IPv6 coexist").measured(|m, f| {
        let of = |metric: &str| at(m, "media", "mixed").metric(metric);
        let sent = |link| of(&format!("packets_sent.{link}"));
        let with_header = |traffic| of(&format!("fpf_encapsulated_packets.{traffic}"));
        check!(f, "lost packets, of all kinds": at_most(of("lost_packets"), 0.0));
        let in_tunnel = sent("b_a") - with_header("fpf4") - with_header("fpf6");
        check!(f, "packets over the tunnel, less those with a header":
            between(in_tunnel, [0.0, 0.0]));
        check!(f, "packets over the VLAN, less those over the plain link":
            between(sent("b_b") - sent("c_b"), [0.0, 0.0]));
        check!(f, "packets D-A less C-D": between(sent("d_a") - sent("c_d"), [0.0, 0.0]));
        check!(f, for traffic in ["fpf4", "fpf6"], "packets of {traffic} with a header":
            at_least(with_header(traffic), 1500.0));
        show!(f, m, "packets with a header": for traffic in ["fpf4", "fpf6"], "{traffic}":
            with_header(traffic));
        show!(f, m, "packets by their routes": sent("c_d"));
        f.remark(
            "scenarios/fpf/mixed.toml on real routers: a plain link, a VLAN and a GRE tunnel one \
             after another",
        );
    });
    let text = "First packet of a new flow still goes by standard routing";
    claim(r, "text.8", text).measured(|m, f| {
        let set_up = at(m, "implicit", "set-up");
        check!(f, "packets lost while 1000 flows are classified":
            between(set_up.metric("lost"), [0.0, 0.0]));
        check!(f, "share of flows without a rule afterwards":
            between(set_up.metric("without_path_ratio"), [0.0, 0.0]));
        check!(f, "longest delay caused by the classifier, in ms":
            at_most(set_up.metric("delay_max_ms"), 1.0));
        check!(f, "packets of a flow that followed the routes":
            at_least(set_up.metric("by_routes_per_flow"), 1.0));
        f.shown(m, "ns for a frame of 128 B that follows the routes", |m| {
            let ways = ["no classifier", "decided", "copied", "lost"];
            series!(for way in ways, "{way}": at(m, "implicit", way).and("bytes", 128).metric("ns"))
        });
        f.remark(
            "1000 flows of RTP at once, in memory; the delay is the longest work of the forwarding \
             thread for a burst of 64 frames, with copies and decisions",
        );
    });
}
