//! What a router said at one moment.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use weir_model::report::{
    AdmissionReport, BypassReport, Count, DropReport, HogReport, NeighbourReport, PortReport,
    QueueReport, RouteReport, StatusReport,
};
use weir_northbound::client::{self, ClientError};

use super::Subject;

/// Reports, and when they came.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: StatusReport,
    /// Chains of netfilter rules that transit bypasses.
    pub(super) bypassed: usize,
    /// Kinds of discipline at the ports.
    pub(super) disciplines: Vec<String>,
    pub(super) reports: Reports,
}

/// What was asked for; in JSON it is the router's own answer.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Reports {
    Status(StatusReport),
    Ports(Vec<PortReport>),
    Queues(Vec<QueueReport>),
    Hogs(Vec<HogReport>),
    Flows(Vec<AdmissionReport>),
    Routes(Vec<RouteReport>),
    Neighbours(Vec<NeighbourReport>),
    Drops(Vec<DropReport>),
    Netfilter(Vec<BypassReport>),
}

impl Sample {
    /// Asks the router on `socket`.
    pub(super) fn take(
        socket: &Path,
        subject: Subject,
        all: bool,
        limit: Option<u64>,
    ) -> Result<Self, ClientError> {
        fn get<T: serde::de::DeserializeOwned>(
            socket: &Path,
            path: &str,
        ) -> Result<T, ClientError> {
            client::get(socket, &format!("/v1/{path}"))
        }
        let status: StatusReport = get(socket, "status")?;
        let limit = limit.map_or_else(String::new, |limit| format!("limit={limit}"));
        let mut disciplines = Vec::new();
        if matches!(subject, Subject::Hogs | Subject::Flows) {
            let ports: Vec<PortReport> = get(socket, "ports")?;
            disciplines = ports.into_iter().map(|port| port.discipline).collect();
        }
        let mut bypassed = 0;
        if subject == Subject::Ports {
            bypassed = get::<Vec<BypassReport>>(socket, "netfilter")?.len();
        }
        let at = Instant::now();
        let reports = match subject {
            Subject::Status => Reports::Status(status.clone()),
            Subject::Ports => Reports::Ports(get(socket, "ports")?),
            Subject::Queues => Reports::Queues(get(socket, "queues")?),
            Subject::Hogs => Reports::Hogs(get(socket, &format!("hogs?all={all}&{limit}"))?),
            Subject::Flows => Reports::Flows(get(socket, &format!("flows?{limit}"))?),
            Subject::Routes => Reports::Routes(get(socket, "routes")?),
            Subject::Neighbours => Reports::Neighbours(get(socket, "neighbours")?),
            Subject::Drops => Reports::Drops(get(socket, "drops")?),
            Subject::Netfilter => Reports::Netfilter(get(socket, "netfilter")?),
        };
        Ok(Self {
            at,
            status,
            bypassed,
            disciplines,
            reports,
        })
    }

    /// Whether two samples tell more than one.
    pub(super) fn has_rates(&self) -> bool {
        match &self.reports {
            Reports::Ports(_) | Reports::Queues(_) => true,
            Reports::Drops(drops) => !drops.is_empty(),
            _ => false,
        }
    }
}

/// Packets and bits a second between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Speed {
    pub(super) packets_per_s: f64,
    pub(super) mbps: f64,
}

impl Speed {
    /// From `before` to `now`, `seconds` apart; none if the counter began anew or no time has passed.
    pub(super) fn between(before: Count, now: Count, seconds: f64) -> Option<Self> {
        let packets = now.packets.checked_sub(before.packets)?;
        let bytes = now.bytes.checked_sub(before.bytes)?;
        (seconds > 0.0).then(|| Self {
            packets_per_s: packets as f64 / seconds,
            mbps: bytes as f64 * 8.0 / 1e6 / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_by_hand() {
        let count = |packets, bytes| Count { packets, bytes };
        let speed = Speed::between(count(100, 1_000), count(150, 126_000), 0.5).unwrap();
        assert_eq!((speed.packets_per_s, speed.mbps), (100.0, 2.0));
        assert_eq!(Speed::between(count(9, 9), count(1, 1), 1.0), None);
        assert_eq!(Speed::between(count(1, 1), count(9, 9), 0.0), None);
    }
}
