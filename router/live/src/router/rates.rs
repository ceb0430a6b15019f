//! The rates that ports find, for the threads that find them and for all readers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use weir_autorate::Autorate;
use weir_base::Rate;
use weir_lfb::auto_rate::AutoRate;
use weir_lfb::class::rates::{Finding, State};

use crate::clock;
use crate::mutex::lock;

/// The limit of the machine's own packets follows a rate that has changed by more than this share.
const ANNOUNCED_CHANGE: f64 = 0.2;

/// A port that must find its rate, per the active plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) port: String,
    pub(super) interface: String,
    pub(super) auto: Arc<AutoRate>,
    /// The mark of probes.
    pub(super) mark: u32,
}

/// A thread that finds the rate of a port. It ends after this value is dropped.
pub(super) struct Started {
    pub(super) wanted: Arc<ArcSwapOption<Wanted>>,
    pub(super) found: Arc<Mutex<Found>>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.wanted.store(None);
    }
}

/// The ports that find their rate, by name.
#[derive(Default)]
pub(super) struct Finders(pub(super) Mutex<BTreeMap<String, Started>>);

impl Finders {
    /// The rate that determines the limit on the machine's own packets at a port; `None` if the port does not find its
    /// rate.
    pub(super) fn rate(&self, port: &str) -> Option<Rate> {
        let finders = lock(&self.0);
        finders
            .get(port)
            .map(|finder| lock(&finder.found).announced)
    }

    /// The state of each port.
    pub(super) fn report(&self) -> Vec<Finding> {
        let finders = lock(&self.0);
        let each = finders.values();
        each.filter_map(|finder| {
            let wanted = finder.wanted.load_full()?;
            let found = lock(&finder.found);
            Some(found.report(&wanted.port, &wanted.auto))
        })
        .collect()
    }
}

/// Everything known about a port's rate. A reader stops the thread for as long as it holds the lock.
pub(super) struct Found {
    pub(super) law: Autorate,
    /// The rate that determines the limit on the machine's own packets.
    announced: Rate,
    refused: u64,
    trouble: Option<String>,
    /// Answers that earlier laws did not recognise.
    strange: u64,
}

impl Found {
    /// The state before the first answer.
    pub(super) fn new(auto: &AutoRate) -> Self {
        Self {
            law: Autorate::new(auto.params.clone(), clock::now(), 0),
            announced: auto.params.base,
            refused: 0,
            trouble: None,
            strange: 0,
        }
    }

    /// The state, for an operator.
    pub(super) fn report(&self, port: &str, auto: &AutoRate) -> Finding {
        Finding {
            port: port.to_owned(),
            auto: auto.clone(),
            state: State::of(&self.law),
            reflectors: self.law.reflectors().collect(),
            traffic: auto.by_traffic.then(|| self.law.traffic()),
            strange: self.strange + self.law.strange(),
            refused: self.refused,
            trouble: self.trouble.clone(),
        }
    }

    /// Replaces the law by a new one, for other reflectors or another use of traffic.
    pub(super) fn renew(&mut self, auto: &AutoRate, sent: u64) {
        self.strange += self.law.strange();
        self.law = Autorate::new(auto.params.clone(), clock::now(), sent);
    }

    /// Whether the limit on the machine's own packets must follow now.
    pub(super) fn announce(&mut self) -> bool {
        let (found, announced) = (self.law.found(), self.announced);
        let change = found.as_bps() as f64 / announced.as_bps() as f64 - 1.0;
        let follow = change.abs() > ANNOUNCED_CHANGE;
        if follow {
            self.announced = found;
        }
        follow
    }

    /// Records the outcome of sending a probe; logs a failure that differs from the previous outcome, and the end of
    /// failures.
    pub(super) fn note(&mut self, port: &str, outcome: io::Result<()>) {
        let trouble = outcome.err().map(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "{error}; a rule of this machine blocks the probes: list the reflectors in IPAddressAllow= of the \
                 service"
            ),
            _ => error.to_string(),
        });
        self.refused += u64::from(trouble.is_some());
        match &trouble {
            Some(why) if self.trouble != trouble => {
                tracing::warn!(port, why, "cannot send rate probes");
            }
            None if self.trouble.is_some() => {
                tracing::info!(port, "sending rate probes works again");
            }
            _ => {}
        }
        self.trouble = trouble;
    }
}
