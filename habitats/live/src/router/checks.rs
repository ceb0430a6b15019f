//! What a plan needs of the machine, before anything is started.

use weir_lfb::Plan;
use weir_path::parse::Mode;

use super::bypass;
use super::interfaces;

/// What keeps this plan from being started on this machine, a sentence each.
pub fn obstacles(plan: &Plan) -> Vec<String> {
    bypass::obstacle(plan).into_iter().collect()
}

/// What is permitted, but probably not meant, a sentence each.
pub fn doubts(plan: &Plan) -> Vec<String> {
    let mut doubts: Vec<_> = bypass::doubt(plan).into_iter().collect();
    if plan.router.mode == Mode::Bridged {
        doubts.extend(interfaces::bridge_doubt(plan));
        return doubts;
    }
    let switched_off = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]
        .into_iter()
        .filter(|name| {
            let value = std::fs::read_to_string(format!("/proc/sys/{name}"));
            value.is_ok_and(|v| v.trim() == "0")
        })
        .map(|name| {
            format!("{name} is 0: when weir ends, the kernel will not forward in its place")
        });
    doubts.extend(switched_off);
    doubts
}
