//! Capture files as a device: it receives from one file and sends to another.
//!
//! ```text
//! in.pcap or in.pcapng --> [frames in memory] --pace--> receive
//! transmit --> out.pcapng, stamped in nanoseconds
//! ```
//!
//! The input file is held in memory, so that a bench does not measure the file system and can play the file several
//! times. Only Ethernet captures can be read. A frame that was recorded in part keeps its true length.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};
use weir_base::{Instant, Span};
use weir_capture::{Fate, Interface, Seen, Writer};
use weir_packet::FrameBytes;
use weir_path::link::offload::Offload;

use super::{Counters, Device, Direction, Received};
use crate::clock;

/// Maximum bytes of frames held in memory.
const FRAMES_BYTES_MAX: usize = 1 << 30;
/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The arrival times of the frames of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as the caller receives.
    Asked,
    /// With the recorded intervals, starting at the first receive.
    Recorded,
}

/// A device that plays one capture file and records another.
pub struct Pcap {
    source: Option<Source>,
    recorder: Option<Recorder>,
}

impl Pcap {
    /// A device that receives nothing and cannot send.
    pub fn closed() -> Self {
        Self {
            source: None,
            recorder: None,
        }
    }

    /// Receives the frames of a file, repeated `times` times.
    pub fn reading(mut self, path: &Path, pace: Pace, times: u64) -> io::Result<Self> {
        let frames = read_frames(path)?;
        self.source = Some(Source::new(frames, pace, times)?);
        Ok(self)
    }

    /// Writes sent frames to a new file.
    pub fn writing(mut self, path: &Path) -> io::Result<Self> {
        self.recorder = Some(Recorder::create(path)?);
        Ok(self)
    }

    /// Whether all frames of the file have been received.
    pub fn finished(&self) -> bool {
        self.source.as_ref().is_none_or(|s| s.times_left == 0)
    }

    /// Flushes all sent frames to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.recorder {
            Some(recorder) => recorder.file.flush(),
            None => Ok(()),
        }
    }
}

impl Device for Pcap {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        match &mut self.source {
            Some(source) => source.receive(clock::now(), burst_max, take),
            None => Ok(0),
        }
    }

    /// Without an output file, the device takes every frame.
    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        if let Some(recorder) = &mut self.recorder {
            for frame in frames {
                recorder.record(frame)?;
            }
        }
        Ok(frames.len())
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        let timer = self.source.as_ref()?.timer.as_ref()?;
        Some(timer.as_fd())
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

/// The frames of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frames {
    bytes: Vec<u8>,
    frames: Vec<Recorded>,
}

/// The position of a frame, and its time after the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    start: usize,
    end: usize,
    len: u32,
    after: Span,
}

impl Frames {
    fn push(&mut self, bytes: &[u8], len: u32, after: Span) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > FRAMES_BYTES_MAX {
            return Err(invalid("the capture has more than 1 GiB of frames"));
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.frames.push(Recorded {
            start,
            end: self.bytes.len(),
            len: len.max(bytes.len() as u32),
            // Times in a capture of several interfaces may go back slightly.
            after: after.max(self.frames.last().map_or(Span::ZERO, |f| f.after)),
        });
        Ok(())
    }
}

/// Frames to be received.
struct Source {
    recorded: Frames,
    pace: Pace,
    next: usize,
    times_left: u64,
    began: Option<Instant>,
    timer: Option<Timer>,
}

impl Source {
    fn new(recorded: Frames, pace: Pace, times: u64) -> io::Result<Self> {
        let timer = match pace {
            Pace::Asked => None,
            Pace::Recorded => Some(Timer::new()?),
        };
        let times_left = if recorded.frames.is_empty() { 0 } else { times };
        let source = Self {
            recorded,
            pace,
            next: 0,
            times_left,
            began: None,
            timer,
        };
        if times_left > 0 {
            source.arm(Instant::from_nanos(1))?; // immediately: the first receive starts the clock
        }
        Ok(source)
    }

    fn receive(
        &mut self,
        now: Instant,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        let began = *self.began.get_or_insert(now);
        let mut taken = 0;
        while taken < burst_max && self.times_left > 0 {
            let frame = self.recorded.frames[self.next];
            let due = began + frame.after;
            let arrived = match self.pace {
                Pace::Asked => now,
                Pace::Recorded if due > now => {
                    self.arm(due)?;
                    return Ok(taken);
                }
                Pace::Recorded => due,
            };
            let bytes = &self.recorded.bytes[frame.start..frame.end];
            let lent = lend(bytes, frame.len, arrived);
            taken += lent.cost();
            take(lent);
            self.advance(due)?;
        }
        Ok(taken)
    }

    fn advance(&mut self, due: Instant) -> io::Result<()> {
        self.next += 1;
        if self.next < self.recorded.frames.len() {
            return Ok(());
        }
        self.next = 0;
        self.began = Some(due);
        self.times_left -= 1;
        match self.times_left {
            0 => self.arm(Instant::ZERO),
            _ => Ok(()),
        }
    }

    fn arm(&self, at: Instant) -> io::Result<()> {
        match &self.timer {
            Some(timer) => timer.set(at),
            None => Ok(()),
        }
    }
}

fn lend(bytes: &[u8], len: u32, arrived: Instant) -> Received<'_> {
    let group = bytes.first().is_some_and(|first| first & 1 != 0);
    Received {
        bytes: FrameBytes::Lent(bytes),
        len,
        arrived,
        vlan: None,
        direction: if group {
            Direction::Group
        } else {
            Direction::Host
        },
        offload: Offload::NONE,
    }
}

/// A descriptor that becomes readable at an instant.
struct Timer(OwnedFd);

impl Timer {
    fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: it takes two integers and does not touch our memory.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        crate::sys::check(fd)?;
        // SAFETY: the descriptor is new, valid, and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the timer readable from `at` on; never, if `at` is zero.
    fn set(&self, at: Instant) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_interval: clock::timespec(Span::ZERO),
            it_value: clock::timespec(at.since(Instant::ZERO)),
        };
        let (fd, absolute) = (self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
        // SAFETY: the new setting lives during the call, and a null pointer means that the kernel does not return the
        // old one.
        crate::sys::check(unsafe {
            libc::timerfd_settime(fd, absolute, &setting, std::ptr::null_mut())
        })
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn read_frames(path: &Path) -> io::Result<Frames> {
    let mut magic = [0; 4];
    File::open(path)?.read_exact(&mut magic)?;
    let file = BufReader::new(File::open(path)?);
    match magic {
        PCAPNG_MAGIC => read_pcapng(file),
        _ => read_pcap(file),
    }
}

fn read_pcap(file: impl Read) -> io::Result<Frames> {
    let mut reader = PcapReader::new(file).map_err(malformed)?;
    check_ethernet(reader.header().datalink)?;
    let mut frames = Frames::default();
    let mut first = None;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(malformed)?;
        let first = *first.get_or_insert(packet.timestamp);
        let after = span(packet.timestamp.saturating_sub(first));
        frames.push(&packet.data, packet.orig_len, after)?;
    }
    Ok(frames)
}

fn read_pcapng(file: impl Read) -> io::Result<Frames> {
    let mut reader = PcapNgReader::new(file).map_err(malformed)?;
    let mut frames = Frames::default();
    let mut units: Vec<f64> = Vec::new();
    let mut first = None;
    while let Some(block) = reader.next_block() {
        match block.map_err(malformed)? {
            Block::SectionHeader(_) => units.clear(),
            Block::InterfaceDescription(interface) => {
                check_ethernet(interface.linktype)?;
                units.push(stamp_unit_nanos(&interface));
            }
            Block::EnhancedPacket(packet) => {
                // The library reads every stamp as nanoseconds; the interface has the real unit.
                let unit = units.get(packet.interface_id as usize).copied();
                let unit =
                    unit.ok_or_else(|| invalid("a frame belongs to an undefined interface"))?;
                let nanos = (packet.timestamp.as_nanos() as f64 * unit) as u64;
                let stamp = match unit {
                    1.0 => packet.timestamp,
                    _ => Duration::from_nanos(nanos),
                };
                let first = *first.get_or_insert(stamp);
                let after = span(stamp.saturating_sub(first));
                frames.push(&packet.data, packet.original_len, after)?;
            }
            Block::SimplePacket(packet) => {
                let after = frames.frames.last().map_or(Span::ZERO, |f| f.after);
                frames.push(&packet.data, packet.original_len, after)?;
            }
            _ => {}
        }
    }
    Ok(frames)
}

/// Nanoseconds in a unit of an interface's stamps: microseconds by default. The option gives a negative power of ten,
/// or of two if the highest bit is set.
fn stamp_unit_nanos(interface: &InterfaceDescriptionBlock<'_>) -> f64 {
    let resolution = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    match resolution.unwrap_or(6) {
        9 => 1.0,
        power if power & 0x80 != 0 => 1e9 * 2_f64.powi(-i32::from(power & 0x7f)),
        power => 10_f64.powi(9 - i32::from(power)),
    }
}

fn check_ethernet(link: DataLink) -> io::Result<()> {
    match link {
        DataLink::ETHERNET => Ok(()),
        _ => Err(invalid("the link type is not Ethernet")),
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Writes frames into a pcapng file.
struct Recorder {
    file: BufWriter<File>,
    writer: Writer,
    interface: Interface,
    block: Vec<u8>,
}

impl Recorder {
    fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut block = Vec::new();
        let mut writer = Writer::new(0, clock::epoch(), &mut block);
        let interface = writer.interface("weir", None, &mut block);
        file.write_all(&block)?;
        Ok(Self {
            file,
            writer,
            interface,
            block,
        })
    }

    fn record(&mut self, frame: &[u8]) -> io::Result<()> {
        let seen = Seen {
            interface: self.interface,
            at: clock::now(),
            frame,
            original_len: frame.len() as u32,
            direction: Some(weir_capture::Direction::Outbound),
            fate: Fate::Passed,
        };
        self.block.clear();
        self.writer.packet(&seen, &mut self.block);
        self.file.write_all(&self.block)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn malformed(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Waiter;

    /// A file name; the file is removed when the test ends.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("weir-pcap-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A classic capture, microseconds: two frames, 20 ms apart, the second one cut to 2 of 99.
    #[rustfmt::skip]
    const CLASSIC: &[u8] = &[
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
        1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 7, 8, 9,
        1, 0, 0, 0, 0x20, 0x4e, 0, 0, 2, 0, 0, 0, 99, 0, 0, 0, 1, 2,
    ];

    fn receive(device: &mut Pcap) -> Vec<(Vec<u8>, u32, Instant)> {
        let mut got = Vec::new();
        let take = &mut |r: Received<'_>| got.push((r.bytes.to_vec(), r.len, r.arrived));
        device.receive(100, take).unwrap();
        got
    }

    #[test]
    fn what_was_sent_can_be_received() {
        let file = Scratch::new("both.pcapng");
        let mut out = Pcap::closed().writing(&file.0).unwrap();
        assert_eq!(out.transmit(&[b"first", b"second"]).unwrap(), 2);
        out.flush().unwrap();
        let mut back = Pcap::closed().reading(&file.0, Pace::Asked, 2).unwrap();
        assert!(!back.finished() && back.wait_on().is_none());
        let got = receive(&mut back);
        let bytes: Vec<&[u8]> = got.iter().map(|g| g.0.as_slice()).collect();
        assert_eq!(bytes, [b"first".as_slice(), b"second", b"first", b"second"]);
        assert!(back.finished());
        assert_eq!(receive(&mut back), []);
    }

    #[test]
    fn frames_arrive_as_far_apart_as_recorded() {
        let file = Scratch::new("paced.pcap");
        std::fs::write(&file.0, CLASSIC).unwrap();
        let mut device = Pcap::closed().reading(&file.0, Pace::Recorded, 1).unwrap();
        let mut waiter = Waiter::new().unwrap();
        let mut got = Vec::new();
        while !device.finished() {
            let limit = clock::now() + Span::from_secs(5);
            assert!(waiter.wait(device.wait_on(), Some(limit)).unwrap().ready);
            got.extend(receive(&mut device));
        }
        assert_eq!((got[0].0.as_slice(), got[0].1), (&[7, 8, 9][..], 3));
        assert_eq!((got[1].0.as_slice(), got[1].1), (&[1, 2][..], 99));
        assert_eq!(got[1].2.since(got[0].2), Span::from_millis(20));
        assert!(clock::now() >= got[1].2);
        let silent = waiter.wait(device.wait_on(), Some(clock::now())).unwrap();
        assert!(!silent.ready);
    }

    #[test]
    fn stamps_have_the_unit_that_their_interface_says() {
        let unit = |options| {
            stamp_unit_nanos(&InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options,
            })
        };
        assert_eq!(unit(vec![]), 1000.0);
        assert_eq!(unit(vec![InterfaceDescriptionOption::IfTsResol(9)]), 1.0);
        assert_eq!(unit(vec![InterfaceDescriptionOption::IfTsResol(3)]), 1e6);
        assert_eq!(unit(vec![InterfaceDescriptionOption::IfTsResol(0x81)]), 5e8);
    }

    #[test]
    fn a_file_that_is_no_capture_is_refused() {
        let file = Scratch::new("garbage");
        for garbage in [
            &b"abc"[..],
            b"not a capture at all, but long enough",
            &CLASSIC[..50],
        ] {
            std::fs::write(&file.0, garbage).unwrap();
            assert!(Pcap::closed().reading(&file.0, Pace::Asked, 1).is_err());
        }
        let mut other_link = CLASSIC.to_vec();
        other_link[20] = 113;
        std::fs::write(&file.0, other_link).unwrap();
        assert!(Pcap::closed().reading(&file.0, Pace::Asked, 1).is_err());
    }
}
