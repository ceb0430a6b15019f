//! Big-endian integers at fixed offsets, and the writer for Reprs.

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// `len` with padding: TLVs and ILVs begin at multiples of four.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Fills a buffer from its start.
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Writes into `bytes`; panics when writing past their end, which is a bug of the caller.
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (head, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.rest = rest;
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes the bytes, and zeros up to a multiple of four.
    pub(crate) fn padded(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
        self.bytes(&[0; 3][..padded(bytes.len()) - bytes.len()]);
    }

    /// Writes the header of a TLV whose length, without padding, is `len`.
    pub(crate) fn tlv(&mut self, kind: u16, len: usize) {
        self.u16(kind);
        self.u16(len as u16); // fits: constructors of Reprs check it
    }
}
