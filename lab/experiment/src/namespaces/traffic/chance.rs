//! The random choices of a tool's flows: the same as those of the flows in simulation.
//!
//! Each flow draws from a stream of its own, so with the same seed a source is on and off at the same times in both
//! habitats. The remaining differences come from the network.

use weir_base::{Stream, Streams};
use weir_sim::{client_stream, flow_stream};

use crate::scenario::flow_name;

/// The random streams of a tool's flows, or clients.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Chance {
    /// Seed of the random choices.
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Name of the traffic to which the flows belong.
    #[arg(long, default_value = "traffic")]
    pub name: String,
    /// Index of the first flow within the traffic.
    #[arg(long, default_value = "0")]
    pub first: u32,
    /// Step between the indices of two flows: the number of hosts that send the traffic.
    #[arg(long, default_value = "1")]
    pub step: u32,
}

impl Chance {
    /// The options as command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        vec![
            format!("--seed={}", self.seed),
            format!("--name={}", self.name),
            format!("--first={}", self.first),
            format!("--step={}", self.step),
        ]
    }

    /// The stream of the n-th flow of this tool.
    pub(crate) fn flow(&self, n: usize) -> Stream {
        flow_stream(&Streams::new(self.seed), &self.flow_name(n))
    }

    /// The stream of the n-th web client of this tool.
    pub(crate) fn client(&self, n: usize) -> Stream {
        client_stream(&Streams::new(self.seed), &self.flow_name(n))
    }

    /// The stream for a choice that no flow of a simulation makes: the offsets at which this sender's flows begin.
    pub(crate) fn places(&self) -> Stream {
        let streams = Streams::new(self.seed).below("traffic").below(&self.name);
        streams.stream(&format!("places{}", self.first))
    }

    fn flow_name(&self, n: usize) -> String {
        let place = u64::from(self.first) + n as u64 * u64::from(self.step);
        flow_name(&self.name, place as usize)
    }
}
