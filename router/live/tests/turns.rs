//! Devices take turns by bytes: a device that always has superframes gets no more than a device with ordinary frames.
//! No iteration of the worker waits while a device is opened or closed.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use weir_base::{Instant, Streams};
use weir_discipline::Spec;
use weir_live::clock;
use weir_live::device::loopback::Frame;
use weir_live::device::{Counters, Device, Received};
use weir_live::worker::{Event, Worker};
use weir_packet::Reason;
use weir_path::egress::port::Link;
use weir_path::ip::tables::{Interface, Tables};
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_path::plane::{Mode, Plane};

/// A device that always has another frame, and counts the bytes that it delivered.
struct Endless {
    frame: Frame,
    bytes: Arc<AtomicU64>,
}

impl Device for Endless {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < burst_max {
            self.frame.arrived = clock::now();
            let frame = self.frame.lend();
            taken += frame.cost();
            self.bytes
                .fetch_add(u64::from(frame.len), Ordering::Relaxed);
            take(frame);
        }
        Ok(taken)
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        Ok(frames.len())
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

/// The bytes that each of two devices delivers until the second one has delivered 10 MB, and the number of packets that
/// these have become.
fn shares(first: Frame, second: Frame) -> ([u64; 2], [u64; 2]) {
    let plane = Plane::new(4096, 1518, Streams::new(1));
    let mut worker = Worker::new(plane, Box::new(|_| {}));
    let mut handed = Vec::new();
    for (name, frame) in [("first", first), ("second", second)] {
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1514,
        };
        let spec = Spec::check("fifo", []).unwrap();
        worker
            .plane
            .add_port(name, name, Mode::Routed, spec, link, clock::now());
        let bytes = Arc::new(AtomicU64::new(0));
        handed.push(Arc::clone(&bytes));
        let device = Box::new(Endless { frame, bytes });
        worker.bind(
            Some(device),
            Box::new(|_| Err(io::ErrorKind::NotFound.into())),
        );
    }
    let (handle, thread) = worker.start().unwrap();
    // Read between two iterations, on the worker's own thread, so that both numbers belong together.
    loop {
        let handed = handed.clone();
        let read = move |worker: &mut Worker| {
            let bytes = [0, 1].map(|n: usize| handed[n].load(Ordering::Relaxed));
            let refused = worker.plane.fates().ended(Reason::SegmentsQueueFull);
            let received = [0, 1].map(|n: usize| worker.plane.ports()[n].received.packets);
            (bytes, [received[0] - refused.packets, received[1]])
        };
        let (bytes, packets) = handle.call(read).unwrap();
        if bytes[1] > 10_000_000 {
            handle.call(Worker::stop).unwrap();
            thread.join().unwrap();
            return (bytes, packets);
        }
    }
}

/// A frame that is not forwarded anywhere.
fn frame(len: usize) -> Frame {
    Frame::new(vec![0; len], Instant::ZERO)
}

fn superframe(len: usize, size: u16) -> Frame {
    let start = 34;
    Frame {
        offload: Offload {
            checksum: Some(PartialChecksum { start, offset: 16 }),
            segmentation: Some(Segmentation {
                kind: SegmentKind::TcpV4,
                size,
            }),
        },
        ..frame(len)
    }
}

#[test]
fn a_port_full_of_superframes_gets_no_more_bytes_than_one_full_of_frames() {
    for (first, most) in [
        (superframe(65_226, 1448), 1.1),
        (superframe(40_000, 1448), 1.1),
        (frame(9000), 1.1),
        // Small packets use as many iterations as large ones.
        (frame(60), 0.1),
    ] {
        let [first, second] = shares(first, frame(1514)).0;
        let ratio = first as f64 / second as f64;
        assert!(
            ratio < most && ratio > most / 4.0,
            "{first} and {second} bytes"
        );
    }
}

#[test]
fn a_port_full_of_superframes_of_tiny_segments_makes_no_more_packets_than_another() {
    for size in [1300, 700, 100, 32, 1] {
        // TCP over IPv4 that no route leads further.
        let len = if size == 1 { 2000 } else { 64_000 };
        let mut superframe = superframe(14 + 20 + 20 + len, size);
        let ip = &mut superframe.bytes[12..];
        ip[..4].copy_from_slice(&[0x08, 0, 0x45, 0]);
        ip[4..6].copy_from_slice(&(40 + len as u16).to_be_bytes());
        ip[10..12].copy_from_slice(&[64, 6]);
        ip[14..22].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = weir_wire::checksum::internet(&ip[2..22]);
        ip[12..14].copy_from_slice(&sum.to_be_bytes());
        ip[34] = 0x50;
        let (_, [first, second]) = shares(superframe, frame(1514));
        let ratio = first as f64 / second as f64;
        // Superframes that find no room are work too.
        assert!((0.2..1.1).contains(&ratio), "{size}: {first} and {second}");
    }
}

/// The names of threads on which devices were opened and closed.
type Threads = Arc<Mutex<Vec<String>>>;

fn remember(threads: &Threads) {
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    threads.lock().unwrap().push(name.to_owned());
}

/// A device that fails immediately, or never, and records the thread that closed it.
struct Closing {
    fails: bool,
    closed_on: Threads,
}

impl Device for Closing {
    fn receive(&mut self, _: usize, _: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        if self.fails {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            Ok(0)
        }
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        Ok(frames.len())
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        remember(&self.closed_on);
    }
}

#[test]
fn devices_are_opened_and_closed_beside_the_forwarding_thread() {
    let (opened_on, closed_on) = (Threads::default(), Threads::default());
    let device = |fails| Closing {
        fails,
        closed_on: Arc::clone(&closed_on),
    };
    let (tell, events) = mpsc::channel();
    let plane = Plane::new(64, 1518, Streams::new(1));
    let mut worker = Worker::new(plane, Box::new(move |event| drop(tell.send(event))));
    let (open, good) = (Arc::clone(&opened_on), Arc::clone(&closed_on));
    let opener = move |_: &str| -> io::Result<Box<dyn Device>> {
        remember(&open);
        let closed_on = Arc::clone(&good);
        Ok(Box::new(Closing {
            fails: false,
            closed_on,
        }))
    };
    let link = Link {
        rate: None,
        framing: weir_base::Framing::ETHERNET,
        frame_bytes_max: 1514,
    };
    let spec = Spec::check("fifo", []).unwrap();
    worker
        .plane
        .add_port("a", "a", Mode::Bridged, spec, link, clock::now());
    worker.bind(Some(Box::new(device(true))), Box::new(opener));
    let mut tables = Tables::default();
    let interface = Interface {
        name: "a".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
        carrier: true,
        addresses: Vec::new(),
    };
    tables.interfaces.insert(1, interface);
    worker.set_tables(Arc::new(tables));
    let (handle, thread) = worker.start().unwrap();
    let patience = Duration::from_secs(10);
    let next = || events.recv_timeout(patience).unwrap();
    assert!(matches!(next(), Event::Retired(_)));
    assert!(matches!(next(), Event::PortLost(port) if port == "a"));
    assert!(matches!(next(), Event::PortBack { port, .. } if port == "a"));
    handle.call(|worker| worker.remove_port(0)).unwrap();
    handle.call(Worker::stop).unwrap();
    thread.join().unwrap();
    drop(handle);
    while closed_on.lock().unwrap().len() < 2 {
        thread::sleep(Duration::from_millis(1)); // the removed port: its device is closed last
    }
    assert_eq!(*opened_on.lock().unwrap(), ["weir-devices"]);
    assert_eq!(*closed_on.lock().unwrap(), ["weir-devices"; 2]);
}
