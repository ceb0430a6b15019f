//! Parts of the kernel that mode "queue" needs, and the errors of a kernel without them.

use std::io;

/// A part that this kernel lacks and mode "queue" needs.
#[derive(Debug, thiserror::Error)]
#[error(
    "this kernel lacks {part}, which mode \"queue\" needs ({source}); use another kernel, or `mode = \"routed\"`"
)]
pub struct Lacking {
    part: &'static str,
    source: io::Error,
}

/// Parts of the kernel: the start of the name of a request that needs the part, the errors of a kernel without it, and the
/// part.
const PARTS: [(&str, &[libc::c_int], &str); 6] = [
    (
        "chain at the egress",
        &[libc::EOPNOTSUPP],
        "netfilter's egress hook (Linux 5.16 with CONFIG_NETFILTER_EGRESS)",
    ),
    (
        "chain at the ingress",
        &[libc::EOPNOTSUPP],
        "netfilter's ingress hook (CONFIG_NETFILTER_INGRESS)",
    ),
    (
        "rule",
        &[libc::ENOENT, libc::EOPNOTSUPP],
        "an expression of nf_tables (Linux 5.16 with CONFIG_NFT_FWD_NETDEV)",
    ),
    (
        "pair",
        &[libc::EOPNOTSUPP],
        "virtual Ethernet devices (CONFIG_VETH)",
    ),
    (
        "qdisc",
        &[libc::ENOENT, libc::EOPNOTSUPP],
        "the qdisc clsact (CONFIG_NET_SCH_INGRESS)",
    ),
    (
        "filter",
        &[libc::ENOENT, libc::EOPNOTSUPP],
        "the classifier u32 or the action mirred (CONFIG_NET_CLS_U32, CONFIG_NET_CLS_ACT, CONFIG_NET_ACT_MIRRED)",
    ),
];

/// The missing part of the kernel because of which it refused the request with this name; the error itself if it has
/// another cause.
pub(super) fn lacking(request: &str, source: io::Error) -> Result<Lacking, io::Error> {
    let part = PARTS.iter().find(|(begin, numbers, _)| {
        let number = source.raw_os_error();
        request.starts_with(begin) && number.is_some_and(|number| numbers.contains(&number))
    });
    match part {
        Some((_, _, part)) => Ok(Lacking { part, source }),
        None => Err(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_kernel_names_the_missing_part() {
        let named = |request: &str, number: libc::c_int| {
            let refused = lacking(request, io::Error::from_raw_os_error(number));
            refused.map_or_else(|error| error.to_string(), |lacking| lacking.to_string())
        };
        for (request, number, part) in [
            (
                "chain at the egress of eth1",
                libc::EOPNOTSUPP,
                "Linux 5.16",
            ),
            (
                "chain at the ingress of eth1",
                libc::EOPNOTSUPP,
                "CONFIG_NETFILTER_INGRESS",
            ),
            (
                "rule in chain out-eth1",
                libc::ENOENT,
                "CONFIG_NFT_FWD_NETDEV",
            ),
            ("pair of devices", libc::EOPNOTSUPP, "CONFIG_VETH"),
            ("qdisc", libc::ENOENT, "CONFIG_NET_SCH_INGRESS"),
            ("filter", libc::ENOENT, "CONFIG_NET_ACT_MIRRED"),
        ] {
            let sentence = named(request, number);
            assert!(sentence.contains(part), "{request}: {sentence}");
            assert!(sentence.ends_with("or `mode = \"routed\"`"), "{sentence}");
        }
        // The interface was removed, or the process has no privilege.
        assert!(!named("chain at the egress of eth1", libc::ENOENT).contains("lacks"));
        assert!(!named("pair of devices", libc::EPERM).contains("lacks"));
    }
}
