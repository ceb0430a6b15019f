//! Packets of interfaces without Ethernet headers: TUN devices, WireGuard, PPP.
//!
//! The plane handles frames, so each packet gets an Ethernet header with fixed addresses, which nobody else sees except a
//! capture.

use weir_path::ip::tables::Mac;

/// Length of an Ethernet header.
pub(super) const HEADER_LEN: usize = 14;
/// The destination of every frame.
pub(crate) const DESTINATION: Mac = [2, 0, 0, 0, 0, 2];
/// The source of every frame.
const SOURCE: Mac = [2, 0, 0, 0, 0, 1];
/// Ethernet types.
const IPV4: [u8; 2] = (libc::ETH_P_IP as u16).to_be_bytes();
const IPV6: [u8; 2] = (libc::ETH_P_IPV6 as u16).to_be_bytes();

/// The Ethernet header of a packet, by its IP version; `None` if the packet is not IP.
pub(super) fn header(packet: &[u8]) -> Option<[u8; HEADER_LEN]> {
    let ethertype = match packet.first()? >> 4 {
        4 => IPV4,
        6 => IPV6,
        _ => return None,
    };
    let mut header = [0; HEADER_LEN];
    header[..6].copy_from_slice(&DESTINATION);
    header[6..12].copy_from_slice(&SOURCE);
    header[12..].copy_from_slice(&ethertype);
    Some(header)
}

/// The IP packet of a frame; `None` if the Ethernet type is not IP, or does not match the version of the packet.
pub(super) fn packet(frame: &[u8]) -> Option<&[u8]> {
    let (own, packet) = frame.split_at_checked(HEADER_LEN)?;
    (header(packet)?[12..] == own[12..]).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ip_leaves_and_without_its_header() {
        let frame = |kind: [u8; 2], bytes: &[u8]| [&[7; 12][..], &kind, bytes].concat();
        assert_eq!(packet(&frame(IPV4, &[0x45, 7])), Some(&[0x45, 7][..]));
        assert_eq!(packet(&frame(IPV6, &[0x60])), Some(&[0x60][..]));
        for refused in [
            frame(IPV6, &[0x45]),
            frame(IPV4, &[0x60]),
            frame([8, 6], &[0x45]),
            frame(IPV4, &[]),
            vec![7; 12],
        ] {
            assert_eq!(packet(&refused), None, "{refused:?}");
        }
    }
}
