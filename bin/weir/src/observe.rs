//! `weir observe`: prints drops and backlogged flows of a running router as they happen. `weir capture` uses the same
//! filter.

use std::io::{self, IsTerminal};

use weir_lfb::packet_filter;
use weir_model::observe::{EVENTS, LAST_MAX, ObserveRequest, Observed, ObservedFlow, PacketFilter};
use weir_northbound::client;

use crate::component::escaped;
use crate::numbers::{bytes, count, delay, time_of_day};
use crate::output::{note, one_line, print_json_to_reader, print_to_reader};
use crate::{Failure, RouterSocket, complete};

/// The heading of the filter in the help.
const HEADING: &str = "Filter (values of an option are alternatives; every option must match)";

/// The packets that are wanted.
#[derive(Debug, clap::Args)]
pub struct FilterArguments {
    /// Packets from or to an address or a prefix; may be repeated, like all of these
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS|PREFIX")]
    host: Vec<String>,
    /// Packets from an address or a prefix
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS|PREFIX")]
    src: Vec<String>,
    /// Packets to an address or a prefix
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS|PREFIX")]
    dst: Vec<String>,
    /// Packets of a protocol: tcp, udp, icmp (both versions), .., or a number
    #[arg(long, help_heading = HEADING, value_name = "PROTOCOL", add = complete::protocols())]
    proto: Vec<String>,
    /// Packets from or to a port number or a range of them: 53, 5000-5999
    #[arg(long, help_heading = HEADING, value_name = "NUMBER|RANGE")]
    port_number: Vec<String>,
    /// Packets dropped for a reason: queue-full
    #[arg(long, help_heading = HEADING, value_name = "REASON", add = complete::reasons())]
    reason: Vec<String>,
}

impl FilterArguments {
    /// The checked filter.
    pub fn filter(self) -> Result<PacketFilter, Failure> {
        let filter = PacketFilter {
            host: self.host,
            src: self.src,
            dst: self.dst,
            proto: self.proto,
            port_number: self.port_number,
            reason: self.reason,
        };
        match packet_filter::check(&filter) {
            Ok(_) => Ok(filter),
            Err(why) => Err(Failure::Usage(why)),
        }
    }
}

/// Arguments of `weir observe`.
#[derive(Debug, clap::Args)]
pub struct ObserveArguments {
    /// A port of the router; may be repeated [default: all ports]
    #[arg(long = "port", value_name = "NAME")]
    ports: Vec<String>,
    /// Only drops, or only backlogged flows
    #[arg(long = "event", value_name = "EVENT", value_parser = EVENTS)]
    events: Vec<String>,
    #[command(flatten)]
    filter: FilterArguments,
    /// Print the last COUNT events, and exit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=i64::from(LAST_MAX)))]
    last: Option<u32>,
    /// Continue with new events until Ctrl-C; the default without --last
    #[arg(short, long)]
    follow: bool,
    /// Stop after this time, once its last drops are reported
    #[arg(long)]
    seconds: Option<f64>,
    /// Print each event as a line of JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    router: RouterSocket,
}

/// `weir observe`.
pub fn run(arguments: ObserveArguments) -> Result<(), Failure> {
    let request = ObserveRequest {
        port: arguments.ports,
        event: arguments.events,
        filter: arguments.filter.filter()?,
        last: arguments.last,
        follow: arguments.follow.then_some(true),
        seconds: arguments.seconds,
    };
    request.check().map_err(Failure::Usage)?;
    if request.follows() && io::stdout().is_terminal() {
        note("weir: waiting for events; Ctrl-C stops");
    }
    let query = request.query().into_iter();
    let query: Vec<_> = query
        .map(|(name, value)| format!("{name}={}", escaped(&value)))
        .collect();
    let path = format!("/v1/observe?{}", query.join("&"));
    let socket = arguments.router.path()?;
    let mut shown = Ok(true);
    let take = |bytes: &[u8]| {
        shown = show(bytes, arguments.json);
        matches!(shown, Ok(true))
    };
    let ended = client::get_lines(&socket, &path, take);
    match (ended, shown?) {
        (Ok(()), true) if request.follows() && request.seconds.is_none() => {
            Err(Failure::Run("the router closed the connection".to_owned()))
        }
        (Ok(()), _) => Ok(()),
        (Err(error), _) => Err(Failure::Run(error.to_string())),
    }
}

/// Prints a line of the response. Returns whether standard output still has a reader.
fn show(bytes: &[u8], json: bool) -> Result<bool, Failure> {
    if let Ok(event) = serde_json::from_slice::<Observed>(bytes) {
        return if json {
            print_json_to_reader(&String::from_utf8_lossy(bytes))
        } else {
            print_to_reader(&format!("{}\n", one_line(&line(&event))))
        };
    }
    let other: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|error| Failure::Run(format!("cannot parse an event: {error}")))?;
    match (other["lost"].as_u64(), other["error"].as_str()) {
        (Some(lost), _) => {
            note(&format!(
                "weir: {lost} events were lost, because they were not read in time"
            ));
            Ok(true)
        }
        (None, Some(why)) => Err(Failure::Run(why.to_owned())),
        (None, None) => Err(Failure::Run(format!("cannot parse an event: {other}"))),
    }
}

/// An event as text.
fn line(event: &Observed) -> String {
    let time = time_of_day(event.unix_s);
    let reason = event.reason.as_deref().unwrap_or_default();
    let Some(flow) = &event.flow else {
        let (packets, size) = (count(event.packets), bytes(event.bytes as f64));
        return format!(
            "{time}  {reason}  {packets} more, of other flows, {size} in {:.2} s",
            event.over_s
        );
    };
    let port = flow.port.as_deref().unwrap_or("-");
    let head = format!("{time}  {port} {}", flow.direction);
    if let Some(phase) = &event.phase {
        return format!("{head}  {}", held_back(event, flow, phase));
    }
    let mut line = format!("{head}  {reason}  {}", flow.text);
    if let Some(bytes) = flow.frame_bytes {
        line += &format!("  {bytes} B");
    }
    line += &waited(flow);
    if event.packets > 1 {
        let more = count(event.packets - 1);
        line += &format!("  and {more} more in {:.2} s", event.over_s);
    }
    line
}

/// The backlogged flow or host with the reason, or with the length of its backlog.
fn held_back(event: &Observed, flow: &ObservedFlow, phase: &str) -> String {
    let mut text = format!("{} {phase}  {}", event.event, flow.text);
    if let Some(flows) = event.flows.filter(|flows| *flows > 1) {
        text += &format!("  {} flows", count(flows.into()));
    }
    if phase == "ends" {
        return text + &format!("  after {:.1} s", event.over_s);
    }
    let noun = if event.packets == 1 {
        "packet"
    } else {
        "packets"
    };
    text += &format!("  {} {noun}", count(event.packets));
    text += &waited(flow);
    if let Some(share) = event.link_share_ratio {
        text += &format!("  gets {:.0} % of the link", share * 100.0);
    }
    match &event.why {
        Some(why) => text + ": " + why,
        None => text,
    }
}

fn waited(flow: &ObservedFlow) -> String {
    match flow.waited_s {
        short if short < 0.001 => String::new(),
        waited => format!("  waited {}", delay(waited)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::observe::ObservedFlow;

    #[test]
    fn a_line_says_how_many_drops_it_stands_for() {
        let mut event = Observed {
            event: "drop".to_owned(),
            unix_s: 1_764_081_600.25,
            over_s: 0.24,
            reason: Some("queue-full".to_owned()),
            packets: 12_345,
            bytes: 18_690_330,
            flow: Some(ObservedFlow {
                port: Some("wan".to_owned()),
                direction: "out".to_owned(),
                text: "192.0.2.7:5000 > 198.51.100.1:53 udp".to_owned(),
                source: Some("192.0.2.7".to_owned()),
                source_port: Some(5000),
                destination: Some("198.51.100.1".to_owned()),
                destination_port: Some(53),
                protocol: Some(17),
                frame_bytes: Some(1514),
                waited_s: 0.0123,
            }),
            phase: None,
            flows: None,
            link_share_ratio: None,
            why: None,
        };
        let head = "14:40:00.250Z  wan out  queue-full  192.0.2.7:5000 > 198.51.100.1:53 udp  1514 B  waited 12.3 ms";
        assert_eq!(line(&event), format!("{head}  and 12,344 more in 0.24 s"));
        event.packets = 1;
        assert_eq!(line(&event), head);
        let flow = event.flow.take();
        event.packets = 1_000_000;
        assert_eq!(
            line(&event),
            "14:40:00.250Z  queue-full  1,000,000 more, of other flows, 18.7 MB in 0.24 s"
        );
        // The same flow is backlogged.
        event = Observed {
            event: "held-back".to_owned(),
            over_s: 7.0,
            reason: None,
            phase: Some("begins".to_owned()),
            flows: Some(40),
            link_share_ratio: Some(0.5),
            why: Some("Served round-robin; other waiting hosts: 1.".to_owned()),
            flow,
            ..event
        };
        let head = "14:40:00.250Z  wan out  held-back";
        let who = "192.0.2.7:5000 > 198.51.100.1:53 udp  40 flows";
        assert_eq!(
            line(&event),
            format!(
                "{head} begins  {who}  1,000,000 packets  waited 12.3 ms  gets 50 % of the link: Served round-robin; other waiting hosts: 1."
            )
        );
        event.phase = Some("ends".to_owned());
        assert_eq!(line(&event), format!("{head} ends  {who}  after 7.0 s"));
    }
}
