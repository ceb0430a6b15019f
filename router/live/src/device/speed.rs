//! The speed of a link, as its device reports it.

use std::os::fd::AsRawFd;

use socket2::Socket;
use weir_base::Rate;

use super::interface::interface_request;
use super::merging::SIOCETHTOOL;
use crate::sys;

/// `ETHTOOL_GSET` of linux/ethtool.h. Its successor reports more modes and the same speed, and needs two calls.
const GET_SETTINGS: u32 = 0x01;
/// A device that does not know its speed reports this value, or 0.
const UNKNOWN: u32 = u32::MAX;

/// `struct ethtool_cmd` of linux/ethtool.h, as words.
type EthtoolCmd = [u32; 11];
/// The words that begin with the lower and the upper half of the speed.
const SPEED_LOW: usize = 3;
const SPEED_HIGH: usize = 7;

/// The speed of the link at the interface called `name`; `None` if it has no link, or its device does not know the
/// speed.
pub(crate) fn link_speed(socket: &Socket, name: &str) -> Option<Rate> {
    let mut settings: EthtoolCmd = [0; 11];
    settings[0] = GET_SETTINGS;
    let mut request = interface_request(name).ok()?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut settings).cast();
    // SAFETY: the request names the interface with a zero at the end, and its pointer is to the structure that this
    // command reads and writes, which lives until the call is over.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) }).ok()?;
    megabits(
        first_half(settings[SPEED_LOW]),
        first_half(settings[SPEED_HIGH]),
    )
}

/// The number in the first two bytes of a word.
fn first_half(word: u32) -> u16 {
    let [a, b, ..] = word.to_ne_bytes();
    u16::from_ne_bytes([a, b])
}

/// The speed has two halves, because it was a 16-bit number once.
fn megabits(low: u16, high: u16) -> Option<Rate> {
    let speed = u32::from(high) << 16 | u32::from(low);
    (speed != 0 && speed != UNKNOWN && speed != u32::from(u16::MAX))
        .then(|| Rate::from_mbps(speed.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_has_two_halves_or_is_unknown() {
        assert_eq!(megabits(1000, 0), Some(Rate::from_mbps(1000)));
        assert_eq!(megabits(0x86a0, 1), Some(Rate::from_mbps(100_000)));
        for (low, high) in [(0, 0), (u16::MAX, u16::MAX), (u16::MAX, 0)] {
            assert_eq!(megabits(low, high), None);
        }
    }
}
