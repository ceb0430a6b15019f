//! Reads fields from the front of a slice; every read past the end is `None`.

/// The unread bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The number of unread bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all bytes are read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next byte.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    /// The next two bytes, in network order.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    /// The next three bytes, in network order.
    pub(crate) fn u24(&mut self) -> Option<u32> {
        let b = self.take(3)?;
        Some(u32::from_be_bytes([0, b[0], b[1], b[2]]))
    }

    /// The next four bytes, in network order.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let b = self.take(4)?;
        Some(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// The bytes after a length of one byte.
    pub(crate) fn short(&mut self) -> Option<Reader<'a>> {
        let len = self.u8()?;
        self.take(len.into()).map(Reader)
    }

    /// The bytes after a length of two bytes.
    pub(crate) fn long(&mut self) -> Option<Reader<'a>> {
        let len = self.u16()?;
        self.take(len.into()).map(Reader)
    }

    /// A variable-length integer of QUIC (RFC 9000, section 16).
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.take(1 << (first >> 6))?;
        let value = bytes.iter().fold(0_u64, |v, b| v << 8 | u64::from(*b));
        Some(value & (u64::MAX >> (66 - 8 * bytes.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000, appendix A.1.
    #[test]
    fn variable_length_integers_are_those_of_the_standard() {
        let of = |bytes: &[u8]| Reader(bytes).varint();
        let eight = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(of(&eight), Some(151_288_809_941_952_652));
        assert_eq!(of(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(of(&[0x7b, 0xbd]), Some(15_293));
        assert_eq!(of(&[0x25]), Some(37));
        assert_eq!(of(&[0x40, 0x25]), Some(37));
        assert_eq!(of(&[0x40]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut reader = Reader(&[0, 2, 7, 8, 9]);
        assert_eq!(reader.long().map(|r| r.0), Some(&[7, 8][..]));
        assert_eq!(reader.u16(), None);
        assert_eq!(reader.short().map(|r| r.0), None);
        assert!(reader.is_empty(), "a length that does not fit is consumed");
    }
}
