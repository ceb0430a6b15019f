//! The listeners of a control element, and the maximum number of links and handshakes of each.

use std::sync::Arc;

use weir::Failure;
use weir_ce::configuration::{CePlan, ListenPlan};
use weir_forces_live::tml::{
    Common, Faults, HANDSHAKES_MAX, Listener, Local, Pinned, Security, Transport,
};

use super::reload::room_of;

/// Maximum number of open links beyond those of the FEs: peers that have not associated yet.
const LINKS_SPARE: usize = 64;
/// File descriptors for everything except links and their handshakes: 16 requests and 256 streams of operators at the
/// socket, the same numbers for browsers at the page, TAP devices, the store.
const FILES_KEPT: u64 = 640;

/// The maximum number of links and of handshakes of a TCP listener, so that all listeners leave descriptors for
/// operators.
fn room(files: u64, plan: &CePlan) -> (usize, usize) {
    let over_tcp = plan
        .listeners
        .iter()
        .filter(|listen| listen.transport == "tcp_udp");
    let share = files.saturating_sub(FILES_KEPT) / (over_tcp.count() as u64).max(1);
    let share = usize::try_from(share).unwrap_or(usize::MAX);
    let links = links_max(plan).min(share / 4 * 3).max(1);
    (links, HANDSHAKES_MAX.min(share - links.min(share)).max(1))
}

/// Opens a listener.
pub(super) async fn open(
    listen: &ListenPlan,
    security: Option<&Pinned>,
    plan: &CePlan,
    faults: &Arc<Faults>,
    files: u64,
) -> Result<Listener, Failure> {
    let (links, handshakes) = match listen.transport {
        "tcp_udp" => room(files, plan),
        _ => (links_max(plan), HANDSHAKES_MAX),
    };
    if links < links_max(plan) {
        let (name, wanted) = (&listen.name, links_max(plan));
        tracing::warn!(
            "[listen.{name}] accepts only {links} links instead of {wanted}: this process may open only {files} files; \
             raise its limit (LimitNOFILE of its unit)"
        );
    }
    let Ok(transport) = listen.transport.parse::<Transport>() else {
        unreachable!("{} is one of the permitted words", listen.transport)
    };
    let local = Local {
        address: listen.address,
        redirect_port: None,
        links_max: links,
        handshakes_max: handshakes,
        common: Common {
            security: Security {
                pinned: security.cloned(),
                insecure: listen.insecure,
            },
            faults: Arc::clone(faults),
            ..Common::default()
        },
    };
    let opened = transport.tml().listen(&local).await;
    opened.map_err(|e| Failure::Run(format!("[listen.{}]: {e}", listen.name)))
}

/// Number of links that a CE needs: two for each FE, because a dead link is noticed late, and those of peers that have
/// not associated.
pub(super) fn links_max(plan: &CePlan) -> usize {
    2 * room_of(plan) + LINKS_SPARE
}

#[cfg(test)]
mod tests {
    use weir_config::Document;

    use super::*;

    #[test]
    fn links_and_handshakes_leave_descriptors_for_operators() {
        let listener =
            |name: &str| format!("[listen.{name}]\ntransport = \"tcp_udp\"\ninsecure = true\n");
        for listeners in [1, 2, 3] {
            let text: String = ["a", "b", "c"][..listeners]
                .iter()
                .map(|n| listener(n))
                .collect();
            let document = Document::parse("ce.toml", &text).unwrap();
            let plan = CePlan::check(document.changes()).unwrap();
            for files in [0, 256, 1024, 4096, 20_000, u64::MAX] {
                let (links, handshakes) = room(files, &plan);
                assert!(links > 0 && handshakes > 0);
                let all = ((links + handshakes) * listeners) as u64;
                let free = files.saturating_sub(all);
                assert!(
                    files < 1024 || free >= FILES_KEPT,
                    "{files}: {links}, {handshakes}"
                );
                if files >= 20_000 {
                    assert_eq!((links, handshakes), (links_max(&plan), HANDSHAKES_MAX));
                }
            }
        }
    }
}
