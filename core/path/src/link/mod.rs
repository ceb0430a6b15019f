//! The link layer of a received frame: Ethernet, and the VLAN tags among its bytes.
//!
//! - [`encapsulation`]: the headers in front of the IP header, for the flow of a frame that is not routed
//! - [`tag`]: inserting and removing tags
//! - [`offload`]: work that the sender left to hardware
//! - [`segment`]: cutting a superframe into the frames that a wire carries

pub mod encapsulation;
pub mod offload;
pub mod segment;
pub mod tag;

use weir_packet::Reason;
use weir_wire::ethernet::{self, Mac};
use weir_wire::{EtherType, vlan};

/// The link layer of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Destination MAC address.
    pub destination: Mac,
    /// Ethernet type of the payload.
    pub ethertype: EtherType,
    /// Offset of the payload.
    pub l3: usize,
    /// VLAN of the outermost tag; zero without one.
    pub vlan: u16,
}

/// Maximum tags that [`peek`] reads: a service tag and a customer tag (802.1ad).
const TAGS_MAX: usize = 2;

/// The link layer of a frame that a router may accept. A tag with VLAN 0 carries only a priority; a frame
/// with any other VLAN tag among its bytes is refused.
#[inline(always)]
pub fn validate(frame: &[u8]) -> Result<Header, Reason> {
    let header = read(frame, 1).ok_or(Reason::TruncatedHeader)?;
    if header.vlan != 0 || header.ethertype.is_tag() {
        Err(Reason::UnknownVlan)
    } else {
        Ok(header)
    }
}

/// The Ethernet type of a frame, or that of its first tag; `None` if the frame ends before it.
#[inline(always)]
pub fn ethertype(frame: &[u8]) -> Option<EtherType> {
    let header = frame.first_chunk::<{ ethernet::HEADER_LEN }>()?;
    Some(ethernet::View::new_unchecked(header).ethertype())
}

/// The link layer of any frame, including up to two tags.
#[inline(always)]
pub(crate) fn peek(frame: &[u8]) -> Option<Header> {
    read(frame, TAGS_MAX)
}

#[inline(always)]
fn read(frame: &[u8], tags_max: usize) -> Option<Header> {
    let view = ethernet::View::new_unchecked(frame.first_chunk::<{ ethernet::HEADER_LEN }>()?);
    let mut header = Header {
        destination: view.destination(),
        ethertype: view.ethertype(),
        l3: ethernet::HEADER_LEN,
        vlan: 0,
    };
    for n in 0..tags_max {
        if !header.ethertype.is_tag() {
            break;
        }
        let tag = frame.get(header.l3..)?.first_chunk::<{ vlan::TAG_LEN }>()?;
        let tag = vlan::View::new_unchecked(tag);
        if n == 0 {
            header.vlan = tag.id();
        }
        header.ethertype = tag.ethertype();
        header.l3 += vlan::TAG_LEN;
    }
    Some(header)
}
