//! Captures of a running router: writes the packets recorded by a plane's watch as pcapng.
//!
//! ```text
//!  worker: [ watch ] --sightings, by commands--> [ Captures ] --pcapng, a chunk at a time--> file
//!               <------- memory, emptied ------------+
//! ```
//!
//! The forwarding thread copies and counts. The fetching thread converts stamps to Unix time and writes blocks. One
//! capture runs at a time. It ends after its number of packets or its time, when a client ends it, or when no client
//! has fetched for [`weir_path::plane::watch::LEASE`].

use std::sync::Mutex;

use weir_base::{Rate, Span};
use weir_capture::{Interface, Seen, Writer};
use weir_lfb::packet_filter;
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_path::plane::Plane;
use weir_path::plane::filter::Filter;
use weir_path::plane::watch::{Fetched, Sightings, Want};

use crate::clock;
use crate::mutex::lock;
use crate::worker::Handle;

/// The capture of a router, if there is one, and the number of the latest capture.
#[derive(Debug)]
pub struct Captures {
    handle: Handle,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    capture: Option<Capture>,
}

/// A capture that is running, or that has ended and is not closed yet.
#[derive(Debug)]
struct Capture {
    writer: Writer,
    interfaces: Vec<Interface>,
    /// Bytes written but not fetched yet.
    written: Vec<u8>,
    /// Memory for the watch to record into while we write; `None` once the watch has ended.
    spare: Option<Sightings>,
    report: CaptureReport,
}

impl Captures {
    /// Captures of the router behind `handle`; no capture runs yet.
    pub fn new(handle: Handle) -> Self {
        Self {
            handle,
            state: Mutex::default(),
        }
    }

    /// Starts a capture.
    pub fn start(&self, request: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal> {
        request.check()?;
        let filter = packet_filter::check(&request.filter).map_err(CaptureRefusal::Wrong)?;
        let mut state = self.lock();
        let empty = Sightings::default();
        let snap = request.snap;
        let ports = self
            .handle
            .call(move |worker| watch(&mut worker.plane, request, filter, empty))
            .map_err(silent)??;
        state.last += 1;
        state.capture = Some(Capture::begin(snap, &ports));
        Ok(CaptureTicket { id: state.last })
    }

    /// New bytes of a capture; `None` if it has ended and all bytes were fetched.
    pub fn fetch(&self, id: u64) -> Result<Option<Vec<u8>>, CaptureRefusal> {
        let mut state = self.lock();
        let capture = state.of(id)?;
        let Some(empty) = capture.spare.take() else {
            return Ok(None);
        };
        let fetched = self
            .handle
            .call(move |worker| worker.plane.sightings(empty, clock::now()))
            .map_err(silent)
            .and_then(|fetched| fetched.ok_or(CaptureRefusal::Gone));
        match fetched {
            Ok(fetched) => {
                capture.write(fetched);
                Ok(Some(std::mem::take(&mut capture.written)))
            }
            Err(refusal) => {
                state.capture = None; // a leftover watch ends by itself
                Err(refusal)
            }
        }
    }

    /// Ends a capture, unless it has ended by itself. Bytes that were not fetched are lost.
    pub fn end(&self, id: u64) -> Result<CaptureReport, CaptureRefusal> {
        let mut state = self.lock();
        let report = state.of(id)?.report;
        let running = state.capture.take().is_some_and(|c| c.spare.is_some());
        if running {
            let unwatched = self.handle.call(|worker| worker.plane.unwatch());
            unwatched.map_err(silent)?;
        }
        Ok(report)
    }

    /// Locks the state. A fetch that panicked has lost `spare`; the capture then ends as if all bytes had been fetched.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn of(&mut self, id: u64) -> Result<&mut Capture, CaptureRefusal> {
        let last = self.last;
        let capture = self.capture.as_mut().filter(|_| id == last);
        capture.ok_or(CaptureRefusal::Gone)
    }
}

impl Capture {
    fn begin(snap: u32, ports: &[(String, Option<Rate>)]) -> Self {
        let mut written = Vec::new();
        let mut writer = Writer::new(snap, clock::epoch(), &mut written);
        let interfaces = ports
            .iter()
            .map(|(name, rate)| writer.interface(name, *rate, &mut written))
            .collect();
        Self {
            writer,
            interfaces,
            written,
            spare: Some(Sightings::default()),
            report: CaptureReport::default(),
        }
    }

    fn write(&mut self, fetched: Fetched) {
        for (sighting, frame) in fetched.sightings.iter() {
            let seen = Seen {
                interface: self.interfaces[usize::from(sighting.port)],
                at: sighting.at,
                frame,
                original_len: sighting.len,
                direction: sighting.direction,
                fate: sighting.fate,
            };
            self.writer.packet(&seen, &mut self.written);
        }
        self.report = CaptureReport {
            captured: fetched.captured,
            missed: fetched.missed.iter().sum(),
        };
        if !fetched.done {
            self.spare = Some(fetched.sightings);
            return;
        }
        for (interface, missed) in self.interfaces.iter().zip(fetched.missed) {
            let now = clock::now();
            self.writer
                .statistics(*interface, now, missed, &mut self.written);
        }
    }
}

/// On the forwarding thread: starts to watch, and returns names and rates of the watched ports.
fn watch(
    plane: &mut Plane,
    request: CaptureRequest,
    filter: Filter,
    empty: Sightings,
) -> Result<Vec<(String, Option<Rate>)>, CaptureRefusal> {
    let known: Vec<_> = plane.ports().iter().map(|p| p.name.clone()).collect();
    if let Some(unknown) = request.ports.iter().find(|p| !known.contains(p)) {
        let known = known.join(", ");
        let what = format!("there is no port `{unknown}`; the ports are: {known}");
        return Err(CaptureRefusal::Wrong(what));
    }
    let all = request.ports.is_empty();
    let watched = |name: &str| all || request.ports.iter().any(|p| p == name);
    let ports: Vec<_> = plane
        .ports()
        .iter()
        .filter(|p| watched(&p.name))
        .map(|p| (p.name.clone(), p.port.link().rate))
        .collect();
    let now = clock::now();
    let want = Want {
        ports: ports.iter().map(|(name, _)| name.clone()).collect(),
        drops: request.drops,
        filter,
        snap: request.snap as usize,
        packets: request.packets,
        until: now + Span::from_secs_f64(request.seconds),
    };
    match plane.watch(want, empty, now) {
        Ok(()) => Ok(ports),
        Err(weir_path::plane::watch::Watched) => Err(CaptureRefusal::Busy),
    }
}

fn silent(error: weir_layer::NoAnswer) -> CaptureRefusal {
    CaptureRefusal::Silent(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::worker::Worker;
    use weir_base::{Instant, Streams};
    use weir_discipline::Spec;
    use weir_path::egress::port::Link;
    use weir_path::plane::Mode;

    /// A router with two ports and no devices.
    fn router() -> Handle {
        let plane = Plane::new(16, 1518, Streams::new(1));
        let mut worker = Worker::new(plane, Box::new(|_| {}));
        for name in ["lan", "wan"] {
            let link = Link {
                rate: None,
                framing: weir_base::Framing::ETHERNET,
                frame_bytes_max: 1518,
            };
            let spec = Spec::check("fifo", []).unwrap();
            worker
                .plane
                .add_port(name, name, Mode::Routed, spec, link, Instant::ZERO);
            let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
            worker.bind(None, Box::new(move |_| Err(gone())));
        }
        worker.start().unwrap().0
    }

    fn request(seconds: f64) -> CaptureRequest {
        CaptureRequest {
            seconds,
            ..CaptureRequest::default()
        }
    }

    #[test]
    fn a_capture_without_packets_is_a_file_and_ends() {
        let handle = router();
        let captures = Captures::new(handle.clone());
        let CaptureTicket { id } = captures.start(request(0.1)).unwrap();
        let mut file = captures.fetch(id).unwrap().unwrap();
        while let Some(more) = captures.fetch(id).unwrap() {
            file.extend(more);
        }
        assert_eq!(captures.end(id), Ok(CaptureReport::default()));
        assert_eq!(captures.fetch(id), Err(CaptureRefusal::Gone));
        let mut reader = pcap_file::pcapng::PcapNgReader::new(file.as_slice()).unwrap();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block() {
            blocks.push(block.unwrap().into_owned());
        }
        assert_eq!(
            blocks.len(),
            4,
            "two interfaces with statistics: {blocks:?}"
        );
        handle.call(Worker::stop).unwrap();
    }

    #[test]
    fn one_capture_runs_at_a_time_until_it_is_ended() {
        let handle = router();
        let captures = Captures::new(handle.clone());
        let CaptureTicket { id } = captures.start(request(600.0)).unwrap();
        assert_eq!(captures.start(request(600.0)), Err(CaptureRefusal::Busy));
        assert_eq!(captures.end(id + 1), Err(CaptureRefusal::Gone));
        captures.end(id).unwrap();
        let next = captures.start(request(600.0)).unwrap();
        assert_ne!(next.id, id);
        handle.call(Worker::stop).unwrap();
    }

    #[test]
    fn a_request_out_of_bounds_is_refused() {
        let handle = router();
        let captures = Captures::new(handle.clone());
        let good = || request(1.0);
        for wrong in [
            request(0.0),
            request(f64::NAN),
            request(601.0),
            CaptureRequest { snap: 0, ..good() },
            CaptureRequest {
                packets: 1_000_001,
                ..good()
            },
            CaptureRequest {
                ports: vec!["wann".to_owned()],
                ..good()
            },
        ] {
            let refused = captures.start(wrong);
            assert!(
                matches!(refused, Err(CaptureRefusal::Wrong(_))),
                "{refused:?}"
            );
        }
        handle.call(Worker::stop).unwrap();
        // The worker ends with its current iteration, and still answers during that iteration.
        let ended = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            handle.call(|_| ()).is_err()
        });
        assert!(ended);
        let silent = captures.start(good());
        assert!(matches!(silent, Err(CaptureRefusal::Silent(_))));
    }
}
