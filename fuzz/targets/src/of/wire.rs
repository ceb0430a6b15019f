//! Parses any bytes as any header: no panic, and a Repr that was read can be written and read again.

use weir_wire::ipv6_extension::{self, Chain, FragmentRepr, FragmentView};
use weir_wire::{
    arp, checksum, chunk, discovery, ethernet, gre, icmpv4, icmpv6, ipv4, ipv6, mpls, pppoe, tcp,
    udp, vlan,
};

/// Reads a Repr, writes it over a copy of the bytes, and reads it again.
macro_rules! again {
    ($view:ty, $repr:ty, $bytes:expr) => {
        if let Ok(view) = <$view>::new_checked($bytes)
            && let Ok(repr) = <$repr>::parse(&view)
        {
            let mut copy = $bytes.to_vec();
            copy[..repr.encoded_len()].fill(0xa5);
            repr.emit(&mut <$view>::new_unchecked(&mut copy[..]));
            let view = <$view>::new_unchecked(&copy[..]);
            assert_eq!(<$repr>::parse(&view), Ok(repr));
            assert_eq!(copy[repr.encoded_len()..], $bytes[repr.encoded_len()..]);
        }
    };
}

pub(super) use again;

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    again!(ethernet::View<_>, ethernet::Repr, bytes);
    again!(vlan::View<_>, vlan::Repr, bytes);
    again!(pppoe::View<_>, pppoe::Repr, bytes);
    again!(mpls::View<_>, mpls::Repr, bytes);
    again!(ipv4::View<_>, ipv4::Repr, bytes);
    again!(ipv6::View<_>, ipv6::Repr, bytes);
    again!(FragmentView<_>, FragmentRepr, bytes);
    again!(chunk::View<_>, chunk::Repr, bytes);
    again!(gre::View<_>, gre::Repr, bytes);
    again!(tcp::View<_>, tcp::Repr, bytes);
    again!(udp::View<_>, udp::Repr, bytes);
    again!(icmpv4::View<_>, icmpv4::Repr, bytes);
    again!(icmpv6::View<_>, icmpv6::Repr, bytes);
    again!(arp::View<_>, arp::Repr, bytes);
    neighbour_discovery(bytes);

    if let Ok(view) = ipv4::View::new_checked(bytes) {
        let _ = view.payload();
        for option in ipv4::walk_options(view.options()).flatten() {
            let _ = (option.is_copied(), option.is_source_route());
        }
    }
    if let Ok(view) = tcp::View::new_checked(bytes) {
        let _ = (view.options(), view.payload());
    }
    if let Some((first, rest)) = bytes.split_first() {
        assert!(Chain::walk((*first).into(), rest).len <= rest.len());
        if let Ok(view) = ipv6_extension::View::new_checked(rest) {
            let _ = (view.header_len((*first).into()), view.routing_type());
        }
    }
    if let [a, b, c, rest @ ..] = bytes {
        let start = usize::from(u16::from_be_bytes([*a, *b]));
        let _ = checksum::finish(&mut rest.to_vec(), start, usize::from(*c));
    }
}

/// The options of a message extend to its end, so nothing may follow them.
fn neighbour_discovery(bytes: &[u8]) {
    if let Ok(view) = discovery::View::new_checked(bytes)
        && let Ok(repr) = discovery::Repr::parse(&view)
    {
        let mut written = vec![0xa5; repr.encoded_len()];
        repr.emit(&mut discovery::View::new_unchecked(&mut written[..]));
        let view = discovery::View::new_unchecked(&written[..]);
        assert_eq!(discovery::Repr::parse(&view), Ok(repr));
    }
}

/// Each header by itself, and frames that begin at each of their headers.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let cuts = [0, 14, 34, 54];
    let of = |frame: Vec<u8>| cuts.map(|at| frame.get(at..).unwrap_or_default().to_vec());
    let mut all: Vec<Vec<u8>> = super::frames::seeds().into_iter().flat_map(of).collect();
    all.push(
        [
            &[0, 1, 8, 0, 6, 4, 0, 1][..],
            &[2; 6],
            &[10, 0, 0, 1],
            &[0; 6],
            &[10, 0, 0, 2],
        ]
        .concat(),
    );
    all.push(
        [
            &[135, 0, 0, 0, 0, 0, 0, 0][..],
            &[0xfe; 16],
            &[1, 1, 2, 2, 2, 2, 2, 2],
        ]
        .concat(),
    );
    all.push(vec![0, 0, 0xc0, 0, 2, 0, 1, 5]);
    all.push(vec![3, 0, 1, 5, 1]);
    all.push([&[0xd1, 1, 0, 2][..], &[7; 18]].concat());
    all
}
