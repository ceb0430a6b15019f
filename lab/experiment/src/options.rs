//! Options of a run: the scenario, the habitat, the values.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_config::ConfigError;

use crate::habitat::Habitat;
use crate::scenario::{self, Choices, Given, Override, Plan, Reading, Sweep};
use crate::transports::Transports;

/// The scenario to run, and the options of the run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The scenario's file.
    pub scenario: PathBuf,
    /// The habitat.
    pub on: Habitat,
    /// The scenario's text, if it is built into the program instead of read from a file.
    pub text: Option<String>,
    /// Chooses between calibrated and printed values.
    pub reading: Reading,
    /// Uses the short runs of the scenario's `[quick]`.
    pub quick: bool,
    /// Values to set at paths of the file.
    pub overrides: Vec<Override>,
    /// Values to sweep at paths of the file.
    pub sweeps: Vec<Sweep>,
    /// Names of the variants to run; all if empty.
    pub variants: Vec<String>,
    /// Variants that replace the file's; if empty, the file's.
    pub given: Vec<Given>,
    /// Seed of the first run; if `None`, the scenario's.
    pub seed: Option<u64>,
    /// Runs of each point; if `None`, the scenario's.
    pub runs: Option<u64>,
    /// Number of concurrent simulations; by default the number of processors. The lab performs one run at a time,
    /// because it needs the machine for itself.
    pub jobs: Option<usize>,
    /// A folder that stores finished runs until [`crate::forget`]: a call with the same options resumes with the
    /// others.
    pub keep: Option<PathBuf>,
    /// Links whose packets to capture; in simulation only.
    pub captures: Vec<Capture>,
    /// A stand-in for the programs that the lab starts; if `None`, this program and those in its folder.
    pub executable: Option<PathBuf>,
    /// The transports between control elements and routers; `None` if the program has none.
    pub transports: Option<&'static dyn Transports>,
    /// Shows progress on standard error.
    pub progress: bool,
    /// Ends the run when it becomes true; see [`crate::interrupt_flag`].
    pub interrupt: Arc<AtomicBool>,
}

/// A link whose packets are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The link's name.
    pub link: String,
    /// Maximum number of packets, counted from the first one.
    pub packets: usize,
}

impl Capture {
    /// Default number of packets.
    pub const PACKETS: usize = 10_000;
    /// Maximum number of packets that can be requested.
    pub const PACKETS_MAX: usize = 1_000_000;
}

impl FromStr for Capture {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (link, packets) = match text.rsplit_once('=') {
            Some((link, packets)) => (link, packets.parse().unwrap_or(0)),
            None => (text, Self::PACKETS),
        };
        match (link, packets) {
            ("", _) => Err(format!(
                "\"{text}\" must be LINK or LINK=PACKETS, like uplink=1000"
            )),
            (_, 1..=Self::PACKETS_MAX) => Ok(Self {
                link: link.to_owned(),
                packets,
            }),
            _ => Err(format!(
                "\"{text}\": PACKETS must be an integer from 1 to {}",
                Self::PACKETS_MAX
            )),
        }
    }
}

impl RunOptions {
    /// The points to run.
    pub(crate) fn plan(&self) -> Result<Plan, ConfigError> {
        let choices = Choices {
            overrides: &self.overrides,
            sweeps: &self.sweeps,
            variants: &self.variants,
            given: &self.given,
            reading: self.reading,
            quick: self.quick,
        };
        match &self.text {
            Some(text) => scenario::load_text(&self.scenario, text, choices),
            None => scenario::load(&self.scenario, choices),
        }
    }

    /// The number of runs of each point of a plan, and the seed of the first.
    pub(crate) fn runs_of(&self, plan: &Plan) -> (u64, u64) {
        let runs = self.runs.unwrap_or(plan.base.runs);
        (runs, self.seed.unwrap_or(plan.base.seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_links_and_numbers_of_packets() {
        let capture = |text: &str| text.parse::<Capture>().map(|c| (c.link, c.packets));
        assert_eq!(capture("out"), Ok(("out".into(), 10_000)));
        assert_eq!(capture("out.reverse=5"), Ok(("out.reverse".into(), 5)));
        assert!(capture("=5").is_err() && capture("out=0").is_err());
        assert!(capture("out=many").is_err() && capture("out=2000000").is_err());
    }
}
