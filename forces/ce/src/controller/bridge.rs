//! Carries commands of controllers to a [`Control`], and its answers to them.
//!
//! ```text
//!   Controllers --command--> Bridge --request--> Control --> FEs
//!               <--outcome--        <--output---
//!                               '--- every other output --> driver
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use weir_base::{Instant, Span};
use weir_controller::Sample;
use weir_model::{Component, Value};

use super::{Command, CommandId, ControllerPlan, Controllers, Done, Note, Report};
use crate::Control;
use crate::contract::{Answer, Journal, Output, Place, Refusal, Request, Ticket, Watch, WatchId};
use crate::tables::CONTROLLERS;

/// Tickets of the bridge have this bit; those of the driver must not.
const OWN: u64 = 1 << 63;
/// A watch is fetched at least so often: one that nobody fetches from ends.
const FETCH_INTERVAL: Span = Span::from_secs(20);

/// A command for a device that is not weir.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRequest {
    /// For the outcome.
    pub id: CommandId,
    /// The device.
    pub device: Arc<str>,
    /// The ports to sample.
    pub ports: Vec<Arc<str>>,
}

/// Controllers at a control element. The driver hands every output of the [`Control`] to
/// [`handle_output`](Self::handle_output) first, and calls [`settle`](Self::settle) after every input of either.
pub struct Bridge {
    controllers: Controllers,
    /// FEs that the controllers know.
    there: BTreeSet<String>,
    open: BTreeMap<Ticket, Asked>,
    watches: BTreeMap<WatchId, Watched>,
    /// The watches by the time at which they are fetched from.
    due: BTreeSet<(Instant, WatchId)>,
    /// Watches that have notices.
    noticed: BTreeSet<WatchId>,
    devices: VecDeque<DeviceRequest>,
    last_ticket: u64,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Command(CommandId),
    Fetch(WatchId),
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    command: CommandId,
    /// When it is fetched from without a notice.
    due: Instant,
}

impl Bridge {
    /// These controllers, which begin at `now`.
    pub fn new(now: Instant, plans: &[ControllerPlan]) -> Self {
        Self {
            controllers: Controllers::new(now, plans),
            there: BTreeSet::new(),
            open: BTreeMap::new(),
            watches: BTreeMap::new(),
            due: BTreeSet::new(),
            noticed: BTreeSet::new(),
            devices: VecDeque::new(),
            last_ticket: OWN,
        }
    }

    /// Takes an output of the control element, and returns it if the driver has to do with it.
    pub fn handle_output(&mut self, now: Instant, output: Output) -> Option<Output> {
        match &output {
            Output::Answer(ticket, _) => match self.open.remove(ticket) {
                Some(asked) => {
                    if let Output::Answer(_, answer) = output {
                        self.answered(now, asked, answer);
                    }
                    return None;
                }
                None => return Some(output),
            },
            Output::Noticed(watch) if self.watches.contains_key(watch) => {
                self.noticed.insert(*watch);
                return None;
            }
            // An FE that refuses a part of its desired state can be steered all the same.
            Output::Journal(Journal::InSync(fe, _) | Journal::Refused(fe, _)) => {
                self.comes(now, fe);
            }
            Output::Journal(Journal::Lost(fe, _)) => self.goes(now, fe),
            _ => {}
        }
        Some(output)
    }

    fn comes(&mut self, now: Instant, fe: &str) {
        if self.there.insert(fe.to_owned()) {
            self.controllers.handle_associated(now, fe);
        }
    }

    fn goes(&mut self, now: Instant, fe: &str) {
        if self.there.remove(fe) {
            self.controllers.handle_lost(now, fe);
        }
    }

    /// The outcome of a request to a device.
    pub fn handle_device(
        &mut self,
        now: Instant,
        id: CommandId,
        done: Result<Vec<(Arc<str>, Sample)>, String>,
    ) {
        let done = done.map_or_else(Done::Silent, Done::Samples);
        self.controllers.handle_done(now, id, done);
    }

    /// Does everything that is due at `now`, and asks the control element what the controllers want.
    pub fn settle(&mut self, now: Instant, control: &mut Control) {
        self.controllers.handle_timeout(now);
        while let Some((at, watch)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            self.noticed.insert(watch);
        }
        for watch in std::mem::take(&mut self.noticed) {
            self.fetch_by(watch, now + FETCH_INTERVAL);
            self.ask(now, control, Asked::Fetch(watch), Request::Fetch(watch));
        }
        while let Some((id, command)) = self.controllers.poll_command() {
            match request(command) {
                Ok(request) => self.ask(now, control, Asked::Command(id), request),
                Err((device, ports)) => self.devices.push_back(DeviceRequest { id, device, ports }),
            }
        }
    }

    /// When to call [`settle`](Self::settle), if not earlier.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let fetch = self.due.first().map(|(at, _)| *at);
        self.controllers
            .poll_timeout()
            .into_iter()
            .chain(fetch)
            .min()
    }

    /// The next request to a device.
    pub fn poll_device(&mut self) -> Option<DeviceRequest> {
        self.devices.pop_front()
    }

    /// The next note for the log.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.controllers.poll_note()
    }

    /// The rows of the table [`CONTROLLERS`].
    pub fn table(&self, now: Instant) -> Value {
        let row = |report: Report| {
            let gauges = report.gauges.iter();
            let gauges = gauges.map(|(name, value)| ((*name).into(), (*value).into()));
            let gauges = Value::Struct(gauges.collect());
            let troubles = report.troubles.iter();
            let troubles: Vec<_> = troubles
                .map(|(element, why)| format!("{element}: {why}"))
                .collect();
            let [there, all] = report.elements.map(|n| Value::Whole(n as u64));
            Component::values(CONTROLLERS.components, |component| match component.name {
                "controller" => report.name.as_str().into(),
                "kind" => report.kind.into(),
                "elements" => there.clone(),
                "configured" => all.clone(),
                "gauges" => gauges.clone(),
                _ if troubles.is_empty() => Value::Absent,
                _ => troubles.join("; ").into(),
            })
        };
        Value::List(self.controllers.report(now).into_iter().map(row).collect())
    }

    fn ask(&mut self, now: Instant, control: &mut Control, asked: Asked, request: Request) {
        self.last_ticket = (self.last_ticket + 1) | OWN;
        let ticket = Ticket(self.last_ticket);
        self.open.insert(ticket, asked);
        control.request(now, ticket, request);
    }

    fn answered(&mut self, now: Instant, asked: Asked, answer: Result<Answer, Refusal>) {
        let id = match asked {
            Asked::Fetch(watch) => return self.fetched(now, watch, answer),
            Asked::Command(id) => id,
        };
        let done = match answer {
            Ok(Answer::Watching(watch)) => {
                self.watches.insert(
                    watch,
                    Watched {
                        command: id,
                        due: now,
                    },
                );
                self.fetch_by(watch, now + FETCH_INTERVAL);
                Done::Watching
            }
            Ok(Answer::Value(rows)) => Done::Rows(rows),
            Ok(_) => Done::Changed,
            Err(why @ (Refusal::Silent(_) | Refusal::Busy)) => Done::Silent(why.to_string()),
            Err(why) => Done::Refused(why.to_string()),
        };
        self.controllers.handle_done(now, id, done);
    }

    /// The next fetch from a watch is due at `due`.
    fn fetch_by(&mut self, watch: WatchId, due: Instant) {
        if let Some(watched) = self.watches.get_mut(&watch) {
            self.due.remove(&(watched.due, watch));
            self.due.insert((due, watch));
            watched.due = due;
        }
    }

    fn fetched(&mut self, now: Instant, watch: WatchId, answer: Result<Answer, Refusal>) {
        let Some(watched) = self.watches.get(&watch).copied() else {
            return;
        };
        let is_over = match answer {
            Ok(Answer::Notices(notices)) => {
                // Each report replaces the one before.
                let mut reports = notices
                    .notices
                    .iter()
                    .filter_map(|notice| notice.get("reports"));
                if let Some(report) = reports.next_back() {
                    self.controllers.handle_report(now, watched.command, report);
                }
                let has_failed = |notice: &Value| notice.get("error").is_some();
                notices.notices.iter().any(has_failed)
            }
            Err(Refusal::NotFound(_)) => true,
            _ => false,
        };
        if is_over {
            self.watches.remove(&watch);
            self.due.remove(&(watched.due, watch));
            self.controllers.handle_unwatched(now, watched.command);
        }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Bridge");
        shown.field("there", &self.there).finish_non_exhaustive()
    }
}

/// The request that a command is; the error is a device with its ports.
fn request(command: Command) -> Result<Request, (Arc<str>, Vec<Arc<str>>)> {
    Ok(match command {
        Command::Watch {
            fe,
            class,
            instance,
            event,
            filter,
        } => Request::Watch(Watch {
            fe: fe.to_string(),
            place: Place {
                class: class.to_owned(),
                instance: instance.to_string(),
                path: vec![event.to_owned()],
            },
            filter,
        }),
        Command::Read { fe, class } => Request::Read {
            fe: fe.to_string(),
            class: class.to_owned(),
        },
        Command::Steer { fe, changes } => Request::Steer(fe.to_string(), changes),
        Command::Sample { device, ports } => return Err((device, ports)),
    })
}
