//! What a plan needs of the machine, before anything is started.

use weir_lfb::Plan;
use weir_live::kernel::netfilter;
use weir_path::parse::Mode;

/// What keeps this plan from being started on this machine, a sentence each.
pub(crate) fn obstacles(plan: &Plan) -> Vec<String> {
    let mut obstacles = Vec::new();
    if plan.router.mode == Mode::Routed && !plan.router.bypass_netfilter {
        match netfilter::bypassed_rules() {
            Ok(rules) if rules.is_empty() => {}
            Ok(rules) => obstacles.push(format!(
                "transit through weir does not pass these rules of this machine: {}; remove \
                 them, or set `bypass_netfilter = true` if that is what you want",
                rules.join("; ")
            )),
            Err(error) => {
                tracing::warn!(%error, "cannot see whether this machine has forward or NAT rules");
            }
        }
    }
    obstacles
}

/// What is permitted, but probably not meant, a sentence each.
pub(crate) fn doubts(plan: &Plan) -> Vec<String> {
    if plan.router.mode == Mode::Bridged {
        return Vec::new();
    }
    ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]
        .into_iter()
        .filter(|name| {
            let value = std::fs::read_to_string(format!("/proc/sys/{name}"));
            value.is_ok_and(|v| v.trim() == "0")
        })
        .map(|name| {
            format!("{name} is 0: when weir ends, the kernel will not forward in its place")
        })
        .collect()
}
