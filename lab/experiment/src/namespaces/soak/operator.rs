//! An operator who changes something all the time: changes, reloads, captures, queries, and links that go down and up.
//!
//! The router must apply a valid change, and refuse an invalid one. Anything else ends the run.

use std::time::{Duration, Instant};

use rand::RngExt;
use weir_base::{Stream, Streams};
use weir_model::capture::{CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::{ApplyReport, ChangeRequest, ChangeValue, DeleteRequest};
use weir_northbound::client::{self, ClientError};

use super::bed::Bed;
use super::{Done, Stop};
use crate::error::Error;

/// Maximum pause between two actions, in milliseconds.
const PAUSE_MS_MAX: u64 = 500;
/// Maximum time for which a link stays down, in milliseconds.
const DOWN_MS_MAX: u64 = 700;
/// Maximum number of attempts to apply the last configuration.
const TRIES_MAX: u32 = 10;
/// Length of a capture.
const CAPTURE: Duration = Duration::from_millis(700);
const FETCH: Duration = Duration::from_millis(100);
/// The pages to read; routes are many, and are compared at the end.
const PAGES: [&str; 9] = [
    "status",
    "ports",
    "queues",
    "hogs",
    "flows",
    "neighbours",
    "drops",
    "netfilter",
    "config",
];
/// Invalid changes: a component and its value.
const MISTAKES: [(&str, &str); 5] = [
    ("port.wan.rate", "-1 Mbit"),
    ("port.wan.rate", "fast"),
    ("port.nowhere.rate", "1 Mbit"),
    ("port.wan.discipline.kind", "fq_codl"),
    ("mode", "bridged"),
];
/// Configuration files with a mistake.
const WRONG_FILES: [&str; 4] = [
    "[port.wan\n",
    "[port.wan]\ninterface = \"wan\"\nspeed = 7\n",
    "[port.wan]\ninterface = \"wan\"\n[port.lan]\ninterface = \"wan\"\n",
    "pool = 1\n[port.wan]\ninterface = \"wan\"\n",
];

/// An action of the operator.
type Action<'a> = fn(&mut Operator<'a>) -> Result<(), Error>;

/// The operator.
pub(super) struct Operator<'a> {
    bed: &'a Bed,
    random: Stream,
    done: Done,
}

impl<'a> Operator<'a> {
    /// All actions of the operator.
    const ACTIONS: [Action<'a>; 11] = [
        Self::set_rate,
        Self::set_wrong,
        Self::other_discipline,
        Self::default_discipline,
        Self::apply,
        Self::apply_wrong,
        Self::reload,
        Self::capture,
        Self::read,
        Self::flap,
        Self::flap_far,
    ];

    pub(super) fn new(bed: &'a Bed, streams: &Streams) -> Self {
        Self {
            bed,
            random: streams.stream("operator"),
            done: Done::new(),
        }
    }

    /// Acts until `stop` is set, each action once before any is repeated; returns the counts of actions.
    pub(super) fn run(mut self, stop: &Stop) -> Result<Done, Error> {
        self.get("/v1/routes")?; // a long answer needs memory: request one before the warm-up ends
        for action in Self::ACTIONS {
            if stop.is_set() {
                break;
            }
            action(&mut self)?;
        }
        while !stop.is_set() {
            let action = Self::ACTIONS[self.random.random_range(0..Self::ACTIONS.len())];
            action(&mut self)?;
            stop.sleep(Duration::from_millis(
                self.random.random_range(0..PAUSE_MS_MAX),
            ));
        }
        self.come_to_rest()?;
        Ok(self.done)
    }

    /// Applies the first configuration again, whose disciplines hold no packet.
    fn come_to_rest(&mut self) -> Result<(), Error> {
        let text = self.bed.configure(true)?;
        for _ in 0..TRIES_MAX {
            let applied: Result<ApplyReport, _> =
                client::put(self.bed.socket(), "/v1/config", text.clone());
            match self.bed.answer(applied) {
                Ok(Some(ApplyReport { applied: true, .. })) => return Ok(()),
                Ok(_) => {} // late, or another change is in progress
                Err(error) => return Err(unexpected("the last configuration", &error.to_string())),
            }
        }
        Err(unexpected("the last configuration", "it was not applied"))
    }

    fn count(&mut self, what: &str) {
        *self.done.entry(what.to_owned()).or_default() += 1;
    }

    fn permitted(
        &mut self,
        what: &str,
        answer: Result<ApplyReport, ClientError>,
    ) -> Result<(), Error> {
        self.expected(what, answer, true)
    }

    fn refused(
        &mut self,
        what: &str,
        answer: Result<ApplyReport, ClientError>,
    ) -> Result<(), Error> {
        self.expected(what, answer, false)
    }

    /// Counts a change that was applied or refused as expected.
    fn expected(
        &mut self,
        what: &str,
        answer: Result<ApplyReport, ClientError>,
        applied: bool,
    ) -> Result<(), Error> {
        match self.bed.answer(answer) {
            Ok(None) => Ok(()),
            Ok(Some(report)) if report.applied == applied => {
                self.count(what);
                Ok(())
            }
            Ok(Some(report)) if report.applied => {
                Err(unexpected(what, "it was applied, but must be refused"))
            }
            Ok(Some(report)) => Err(unexpected(what, &report.messages.join("; "))),
            Err(error) => Err(unexpected(what, &error.to_string())),
        }
    }

    fn patch(&self, path: &str, value: &str) -> Result<ApplyReport, ClientError> {
        let request = ChangeRequest {
            path: path.to_owned(),
            value: ChangeValue::Text(value.to_owned()),
        };
        client::patch(self.bed.socket(), "/v1/config", &[request])
    }

    fn set_rate(&mut self) -> Result<(), Error> {
        let rate = format!("{} Mbit", self.random.random_range(10..200));
        let answer = self.patch("port.wan.rate", &rate);
        self.permitted("rates set", answer)
    }

    fn set_wrong(&mut self) -> Result<(), Error> {
        let (path, value) = MISTAKES[self.random.random_range(0..MISTAKES.len())];
        let answer = self.patch(path, value);
        self.refused("invalid values refused", answer)
    }

    fn other_discipline(&mut self) -> Result<(), Error> {
        let kinds: Vec<&str> = weir_discipline::manuals()
            .map(|manual| manual.name)
            .collect();
        let kind = kinds[self.random.random_range(0..kinds.len())];
        let port = ["lan", "wan", "guest"][self.random.random_range(0..3)];
        // Some disciplines need features that these ports do not have; the router refuses them.
        let answer = self.patch(&format!("port.{port}.discipline.kind"), kind);
        match self.bed.answer(answer) {
            Ok(None) => {}
            Ok(Some(report)) if report.applied => self.count("disciplines replaced"),
            Ok(Some(_)) => self.count("unsuitable disciplines refused"),
            Err(error) => return Err(unexpected(kind, &error.to_string())),
        }
        Ok(())
    }

    fn default_discipline(&mut self) -> Result<(), Error> {
        let request = DeleteRequest {
            path: "port.wan.discipline".to_owned(),
        };
        let answer = client::delete_named(self.bed.socket(), "/v1/config", &[request]);
        self.permitted("disciplines replaced", answer)
    }

    fn apply(&mut self) -> Result<(), Error> {
        let text = self.bed.configure(self.random.random())?;
        let answer = client::put(self.bed.socket(), "/v1/config", text);
        self.permitted("configurations applied", answer)
    }

    fn apply_wrong(&mut self) -> Result<(), Error> {
        let text = WRONG_FILES[self.random.random_range(0..WRONG_FILES.len())];
        let answer = client::put(self.bed.socket(), "/v1/config", text.to_owned());
        self.refused("invalid configurations refused", answer)
    }

    fn reload(&mut self) -> Result<(), Error> {
        self.bed.configure(self.random.random())?;
        self.bed.reload()?;
        self.count("reloads by signal");
        Ok(())
    }

    /// Runs a capture for [`CAPTURE`]. A capture whose fetches are late ends by itself.
    fn capture(&mut self) -> Result<(), Error> {
        let socket = self.bed.socket();
        let request = CaptureRequest {
            drops: self.random.random(),
            ..CaptureRequest::default()
        };
        let begun = client::post(socket, "/v1/capture", &request);
        let Some(CaptureTicket { id }) = self.of_capture(begun)? else {
            return Ok(());
        };
        let (path, began) = (format!("/v1/capture/{id}"), Instant::now());
        while began.elapsed() < CAPTURE {
            let fetched = self.of_capture(client::get_bytes(socket, &path))?;
            if fetched.is_none_or(|bytes| bytes.is_none()) {
                break;
            }
            std::thread::sleep(FETCH);
        }
        let ended = client::delete::<CaptureReport>(socket, &path);
        if let Some(report) = self.of_capture(ended)? {
            *self.done.entry("packets captured".to_owned()).or_default() += report.captured;
            self.count("captures");
        }
        Ok(())
    }

    /// An answer about a capture; `None` if this answer or an earlier one came too late.
    fn of_capture<T>(&self, answer: Result<T, ClientError>) -> Result<Option<T>, Error> {
        const NOT_FOUND: u16 = 404;
        const CONFLICT: u16 = 409;
        match self.bed.answer(answer) {
            Err(ClientError::Unexpected {
                status: NOT_FOUND | CONFLICT,
                ..
            }) => Ok(None),
            other => other.map_err(|error| unexpected("a capture", &error.to_string())),
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        for name in PAGES {
            self.get(&format!("/v1/{name}"))?;
        }
        self.get("/metrics")?;
        self.count("reads of all tables");
        Ok(())
    }

    fn get(&self, path: &str) -> Result<(), Error> {
        let page = client::get_bytes(self.bed.socket(), path);
        match self.bed.answer(page) {
            Ok(_) | Err(ClientError::TooLong) => Ok(()), // the answer has very many routes
            Err(error) => Err(unexpected(path, &error.to_string())),
        }
    }

    /// Takes the guest's port down and up, at the router.
    fn flap(&mut self) -> Result<(), Error> {
        let bed = self.bed;
        bed.ip(&bed.middle, "link set guest down\n")?;
        self.pause();
        bed.ip(
            &bed.middle,
            "link set guest up\naddr replace fd83:3::1/64 dev guest nodad\n",
        )?;
        self.count("times a port went down and up");
        Ok(())
    }

    /// Takes the other end of the link down and up: the router's port loses its carrier.
    fn flap_far(&mut self) -> Result<(), Error> {
        let bed = self.bed;
        bed.ip(&bed.guest, "link set g0 down\n")?;
        self.pause();
        bed.ip(&bed.guest, "link set g0 up\n")?;
        self.count("times a port lost and regained its carrier");
        Ok(())
    }

    fn pause(&mut self) {
        let time = self.random.random_range(0..DOWN_MS_MAX);
        std::thread::sleep(Duration::from_millis(time));
    }
}

fn unexpected(what: &str, why: &str) -> Error {
    Error::Program {
        what: format!("the router ({what})"),
        output: why.to_owned(),
    }
}
