//! Common parts of both sides of a load test with sessions: transports, certificates, reports.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_forces_live::tml::identity::{Certificate, Identity, Pins, generate};
use weir_forces_live::tml::{Pinned, Security, Transport};
use weir_live::thread_times::ThreadTimes;
use weir_protocol::wire::Id;

use crate::message::CE;

/// No security: for processes of one load test on loopback.
pub(crate) const OPEN: Security = Security {
    pinned: None,
    insecure: true,
};

/// Name of the CE's certificate and key.
const CE_NAME: &str = "ce";

/// The transport and the certificates of both sides.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Channel {
    /// Transport: quic, tcp_udp, sctp, sctp_udp.
    #[arg(long, default_value = "tcp_udp", value_parser = transport)]
    pub transport: Transport,
    /// Folder with the certificates and keys of the CE and all FEs [default: none, insecure].
    #[arg(long, value_name = "FOLDER")]
    pub keys: Option<PathBuf>,
}

fn transport(word: &str) -> Result<Transport, String> {
    let known = || {
        format!(
            "unknown transport; permitted: {}",
            Transport::WORDS.join(", ")
        )
    };
    Transport::from_word(word).ok_or_else(known)
}

impl Channel {
    /// As arguments of `weir traffic load`.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args = vec![format!("--transport={}", self.transport.word())];
        let keys = self.keys.iter().map(|keys| keys.display());
        args.extend(keys.map(|keys| format!("--keys={keys}")));
        args
    }

    /// The security of the CE, with FEs of these numbers.
    pub(crate) fn of_ce(&self, fes: u32) -> io::Result<Security> {
        let peers = (1..=fes).map(|fe| (Id(fe), fe_name(fe)));
        self.security(CE_NAME, peers.collect())
    }

    /// The security of an FE.
    pub(crate) fn of_fe(&self, fe: u32) -> io::Result<Security> {
        self.security(&fe_name(fe), vec![(CE, CE_NAME.to_owned())])
    }

    fn security(&self, own: &str, peers: Vec<(Id, String)>) -> io::Result<Security> {
        let Some(folder) = &self.keys else {
            return Ok(OPEN);
        };
        let [certificate, key] = paths(folder, own);
        let identity = Identity::read(&certificate, &key).map_err(io::Error::other)?;
        let pins = peers.iter().map(|(id, name)| {
            let [certificate, _] = paths(folder, name);
            let certificate = Certificate::read(&certificate).map_err(io::Error::other)?;
            Ok((*id, certificate))
        });
        let pins = pins.collect::<io::Result<Vec<_>>>()?;
        let pinned = Pinned {
            identity: Arc::new(identity),
            peers: Arc::new(Pins::new(pins).map_err(io::Error::other)?),
        };
        Ok(Security {
            pinned: Some(pinned),
            insecure: false,
        })
    }
}

fn fe_name(fe: u32) -> String {
    format!("fe-{fe}")
}

fn paths(folder: &Path, name: &str) -> [PathBuf; 2] {
    ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")))
}

/// Writes certificates and keys for a CE and for FEs with the numbers from 1 into a private folder.
pub(crate) fn write_keys(folder: &Path, fes: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let names = (1..=fes).map(fe_name);
    for name in names.chain([CE_NAME.to_owned()]) {
        let new = generate(&name, 1).map_err(io::Error::other)?;
        let [certificate, key] = paths(folder, &name);
        std::fs::write(certificate, new.certificate)?;
        std::fs::write(&key, new.key)?;
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// The counts of a CE since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CeReport {
    /// Number of FEs that are associated now.
    pub(crate) associated: u64,
    /// Number of associations that ended.
    pub(crate) lost: u64,
    /// Number of events that arrived.
    pub(crate) events: u64,
    /// Number of events missing in the sequence of each FE's numbers.
    pub(crate) missing: u64,
    /// Number of redirected packets that arrived.
    pub(crate) packets: u64,
    /// Number of heartbeats sent to the FEs that are associated now, and of their answers.
    pub(crate) heartbeats: [u64; 2],
    /// Time from creating an event to its arrival at the session: median, 99th percentile, maximum.
    pub(crate) delay_ms: [f64; 3],
    /// Time from a Config to its answer: median, 99th percentile.
    pub(crate) round_trip_us: [f64; 2],
    /// Number of answered Configs.
    pub(crate) round_trips: u64,
    /// Resident memory.
    pub(crate) memory_bytes: u64,
    /// Processor time by thread.
    pub(crate) threads: Vec<ThreadTimes>,
}

/// Resident memory of this process.
pub(crate) fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
