//! Blocks of pcapng.

use super::fault::INTERFACES_MAX;
use super::{ByteOrder, Fault, Fields, Frame, RECORD_MAX, Step};
use crate::writer::SNAP_MAX;

/// Bytes of the type, the length, and the repeated length of a block.
pub(super) const BLOCK_FRAME: usize = 12;
/// Types of blocks in pcapng.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
pub(super) const PACKET: u32 = 2; // obsolete, but found in old files
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;
/// Options of an interface in pcapng.
const OPTION_END: u16 = 0;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
const NANOS: u128 = 1_000_000_000;

/// An interface that a section has described.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    link_type: u32,
    snap: u32,
    /// A power of ten, or of two if the highest bit is set (if_tsresol).
    resolution: u8,
    /// Seconds to add to each stamp.
    offset: i64,
}

/// A section of pcapng.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) order: ByteOrder,
    pub(super) interfaces: Vec<Interface>,
    /// The length of a skipped block whose repeated length is read next.
    pub(super) passing: Option<u32>,
}

/// Reads a block of pcapng.
pub(super) fn block<'a>(bytes: &'a [u8], section: &mut Section) -> Result<Step<'a>, Fault> {
    let Section {
        order,
        interfaces,
        passing,
    } = section;
    if let Some(len) = *passing {
        let Some(again) = bytes.first_chunk() else {
            return Ok(Step::Wanted(4));
        };
        if order.u32(*again) != len {
            return Err(Fault::Lengths);
        }
        *passing = None;
        return Ok(Step::Passed(4));
    }
    let Some(head) = bytes.first_chunk::<BLOCK_FRAME>() else {
        return Ok(Step::Wanted(BLOCK_FRAME));
    };
    let [t0, t1, t2, t3, l0, l1, l2, l3, magic @ ..] = *head;
    let kind = order.u32([t0, t1, t2, t3]);
    let new_order = match (kind, magic) {
        (SECTION, [0x1a, 0x2b, 0x3c, 0x4d]) => ByteOrder::Big,
        (SECTION, [0x4d, 0x3c, 0x2b, 0x1a]) => ByteOrder::Little,
        (SECTION, _) => return Err(Fault::Lengths),
        _ => *order,
    };
    let len = new_order.u32([l0, l1, l2, l3]);
    if !len.is_multiple_of(4) || (len as usize) < BLOCK_FRAME {
        return Err(Fault::Lengths);
    }
    if !matches!(
        kind,
        SECTION | INTERFACE | PACKET | SIMPLE_PACKET | ENHANCED_PACKET
    ) {
        *passing = Some(len);
        return Ok(Step::Passed(u64::from(len) - 4));
    }
    if len as usize > RECORD_MAX {
        return Err(Fault::TooLong(len));
    }
    let Some((block, _)) = bytes.split_at_checked(len as usize) else {
        return Ok(Step::Wanted(len as usize));
    };
    let (body, again) = block[8..].split_at(len as usize - BLOCK_FRAME);
    if again.first_chunk().map(|b| new_order.u32(*b)) != Some(len) {
        return Err(Fault::Lengths);
    }
    let fields = Fields(new_order, body);
    match kind {
        SECTION => {
            let major = body.get(4..6).map(|b| new_order.u16([b[0], b[1]]));
            match major {
                Some(1) => {}
                Some(major) => return Err(Fault::Version(major)),
                None => return Err(Fault::Lengths),
            }
            *order = new_order;
            interfaces.clear();
            Ok(Step::Passed(len.into()))
        }
        INTERFACE => {
            if interfaces.len() == INTERFACES_MAX {
                return Err(Fault::Interfaces);
            }
            interfaces.push(Interface::parse(fields).ok_or(Fault::Lengths)?);
            Ok(Step::Passed(len.into()))
        }
        _ => {
            let frame = packet(kind, fields, interfaces)?;
            Ok(Step::Frame(len as usize, frame))
        }
    }
}

/// Reads the packet of a block.
fn packet<'a>(
    kind: u32,
    mut fields: Fields<'a>,
    interfaces: &[Interface],
) -> Result<Frame<'a>, Fault> {
    let cut = Fault::Lengths;
    let find = |number: u32| {
        let found = interfaces.get(number as usize);
        found.copied().ok_or(Fault::Interface(number))
    };
    if kind == SIMPLE_PACKET {
        let original_len = fields.u32().ok_or(cut)?;
        let interface = find(0)?;
        let snap = match interface.snap {
            0 => SNAP_MAX,
            snap => snap,
        };
        let kept = original_len.min(snap).min(fields.1.len() as u32);
        return Ok(Frame {
            at: None,
            link_type: interface.link_type,
            original_len,
            bytes: &fields.1[..kept as usize],
        });
    }
    let interface = match kind {
        PACKET => {
            let number = fields.u16().ok_or(cut)?;
            fields.u16().ok_or(cut)?; // number of packets that the capture dropped
            find(number.into())?
        }
        _ => find(fields.u32().ok_or(cut)?)?,
    };
    let (high, low) = (fields.u32().ok_or(cut)?, fields.u32().ok_or(cut)?);
    let (kept, original_len) = (fields.u32().ok_or(cut)?, fields.u32().ok_or(cut)?);
    if kept > SNAP_MAX {
        return Err(Fault::TooLong(kept));
    }
    let bytes = fields.1.get(..kept as usize).ok_or(cut)?;
    Ok(Frame {
        at: Some(interface.nanos(u64::from(high) << 32 | u64::from(low))),
        link_type: interface.link_type,
        original_len,
        bytes,
    })
}

impl Interface {
    /// Reads the description of an interface. A truncated option ends it, as in common readers.
    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        let link_type = fields.u16()?.into();
        fields.u16()?; // reserved
        let mut interface = Self {
            link_type,
            snap: fields.u32()?,
            resolution: 6,
            offset: 0,
        };
        while let (Some(code), Some(len)) = (fields.u16(), fields.u16()) {
            let value = fields.1.get(..len.into());
            match (code, value) {
                (OPTION_END, _) | (_, None) => break,
                (OPTION_RESOLUTION, Some([resolution])) => interface.resolution = *resolution,
                (OPTION_OFFSET, Some(value)) => {
                    if let Ok(value) = value.try_into() {
                        interface.offset = match fields.0 {
                            ByteOrder::Big => i64::from_be_bytes(value),
                            ByteOrder::Little => i64::from_le_bytes(value),
                        };
                    }
                }
                _ => {}
            }
            let padded = usize::from(len).next_multiple_of(4);
            fields.1 = fields.1.get(padded..).unwrap_or_default();
        }
        Some(interface)
    }

    /// A stamp as Unix time, in nanoseconds.
    fn nanos(&self, stamp: u64) -> u64 {
        let stamp = u128::from(stamp) * NANOS;
        let nanos = match self.resolution {
            power @ ..0x80 => match 10_u128.checked_pow(power.into()) {
                Some(units) => stamp / units,
                None => 0,
            },
            power => stamp >> (power & 0x7f),
        };
        let offset = i128::from(self.offset) * NANOS as i128;
        let sum = (nanos as i128).saturating_add(offset);
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_powers_of_ten_or_two() {
        let nanos = |resolution, stamp| {
            let (link_type, snap, offset) = (1, 0, 0);
            let interface = Interface {
                link_type,
                snap,
                resolution,
                offset,
            };
            interface.nanos(stamp)
        };
        assert_eq!(nanos(0, 3), 3_000_000_000);
        assert_eq!(nanos(12, 3_999), 3);
        assert_eq!(nanos(0x80 | 10, 1024 + 512), 1_500_000_000);
        assert_eq!(nanos(0x7f, u64::MAX), 0);
        assert_eq!(nanos(0, u64::MAX), u64::MAX);
    }
}
