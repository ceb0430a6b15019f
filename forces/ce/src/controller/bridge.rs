//! Carries commands from controllers to a [`Control`], and the outcomes back.
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
use weir_model::column::rows;
use weir_model::{ComponentPath, ElementPath, Value};

use super::table::COLUMNS;
use super::{Command, CommandId, ControllerPlan, Controllers, Done, Note};
use crate::Control;
use crate::contract::{
    Answer, CeSubscription, LogEvent, Output, Refusal, Request, Ticket, WatchId,
};

/// Tickets of the bridge have this bit set; tickets of the driver must not.
const OWN: u64 = 1 << 63;
/// Maximum interval between fetches from a watch: a watch from which nobody fetches ends.
const FETCH_INTERVAL: Span = Span::from_secs(20);

/// A command for a device that is not a weir FE.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRequest {
    /// ID for the outcome.
    pub id: CommandId,
    /// Name of the device.
    pub device: Arc<str>,
    /// The ports to sample.
    pub ports: Vec<Arc<str>>,
}

/// Controllers at a control element. The driver hands every output of the [`Control`] to
/// [`handle_output`](Self::handle_output) first, and calls [`settle`](Self::settle) after every input of either.
pub struct Bridge {
    controllers: Controllers,
    /// FEs that the controllers treat as associated.
    there: BTreeSet<String>,
    open: BTreeMap<Ticket, Asked>,
    watches: BTreeMap<WatchId, Watched>,
    /// The watches, by the time of the next fetch.
    due: BTreeSet<(Instant, WatchId)>,
    /// Watches with notices to fetch.
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
    /// Time of the next fetch if no notice comes first.
    due: Instant,
}

impl Bridge {
    /// Creates the controllers, which start at `now`.
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

    /// Handles an output of the control element, and returns the output if it is for the driver.
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
            // Controllers can steer an FE even if it refuses a part of its desired state.
            Output::LogEvent(LogEvent::InSync(fe, _) | LogEvent::Refused(fe, _)) => {
                self.comes(now, fe);
            }
            Output::LogEvent(LogEvent::Lost(fe, _)) => self.goes(now, fe),
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

    /// Handles the outcome of a request to a device.
    pub fn handle_device(
        &mut self,
        now: Instant,
        id: CommandId,
        done: Result<Vec<(Arc<str>, Sample)>, String>,
    ) {
        let done = done.map_or_else(Done::Silent, Done::Samples);
        self.controllers.handle_done(now, id, done);
    }

    /// Does everything that is due at `now`, and passes the controllers' commands to the control element.
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

    /// Latest time for the next call of [`settle`](Self::settle).
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

    /// The rows of the table [`CONTROLLERS`](super::CONTROLLERS).
    pub fn table(&self, now: Instant) -> Value {
        rows(COLUMNS, self.controllers.report(now))
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

    /// Schedules the next fetch from a watch for `due`.
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
                // Each report replaces the previous one.
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

/// Converts a command to a request; a command for a device yields the device and its ports as the error.
fn request(command: Command) -> Result<Request, (Arc<str>, Vec<Arc<str>>)> {
    Ok(match command {
        Command::Watch {
            fe,
            class,
            instance,
            event,
            filter,
        } => Request::Watch(CeSubscription {
            path: ElementPath {
                fe: fe.to_string(),
                path: ComponentPath::new([class, &*instance, event]),
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
