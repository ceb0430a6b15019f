//! Big-endian integers at fixed offsets, for views.

/// The 16-bit number at an offset.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit number at an offset.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

/// The bytes at an offset.
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Writes a 16-bit number at an offset.
#[inline]
pub fn set_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a 32-bit number at an offset.
#[inline]
pub fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The bytes from `from` to `to`, as far as the buffer has them.
#[inline]
pub fn clamped(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    let end = to.min(bytes.len());
    bytes.get(from..end).unwrap_or(&[])
}
