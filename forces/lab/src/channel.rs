//! The channel between both sides of a load test: transports, certificates, heartbeats.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_base::Span;
use weir_forces_live::tml::identity::{Certificate, Identity, Pins, generate};
use weir_forces_live::tml::{Pinned, Security, Transport};
use weir_protocol::session::Heartbeats;
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
    #[arg(long, default_value = "tcp_udp")]
    pub transport: Transport,
    /// Folder with the certificates and keys of the CE and all FEs [default: none, insecure].
    #[arg(long, value_name = "FOLDER")]
    pub keys: Option<PathBuf>,
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

/// The heartbeats of a load test: the CE sends them, the FE answers.
pub(crate) fn heartbeats(dead: Span) -> Heartbeats {
    Heartbeats {
        ce_sends: true,
        ce_dead: dead,
        ..Heartbeats::default()
    }
}

/// An input of a link for a session.
pub(crate) enum Input {
    Message(Vec<u8>),
    Writable,
    Ended,
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
