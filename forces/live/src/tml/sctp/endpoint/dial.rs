//! Opens a link: the low, medium and high channel, one after the other (RFC 5811, 4.2.1).

use std::net::SocketAddr;

use weir_base::Instant;

use super::super::channel::Channel;
use super::super::cookie::Path;
use super::super::opening::{Opening, Progress};
use super::super::outcome::End;
use super::super::packet::Packet;
use super::{Endpoint, Event, Settings};

/// The channel that is being opened.
pub(super) struct Dial {
    pub(super) opening: Opening,
    pub(super) path: Path,
    channel: Channel,
    first_port: u16,
}

impl Endpoint {
    /// Creates an endpoint that opens one link to `remote`, from `local_port` to `first_port` and the next two ports.
    pub fn connect(
        now: Instant,
        settings: Settings,
        remote: SocketAddr,
        first_port: u16,
        local_port: u16,
    ) -> Self {
        let mut endpoint = Self::new(settings, None);
        let path = Path {
            remote,
            remote_port: first_port,
            local_port,
        };
        endpoint.dial(now, path, Channel::Low, first_port);
        endpoint
    }

    fn dial(&mut self, now: Instant, path: Path, channel: Channel, first_port: u16) {
        let path = Path {
            remote_port: first_port.saturating_add(channel.index() as u16),
            ..path
        };
        let ours = self.statement();
        let opening = Opening::new(now, path, ours);
        self.dial = Some(Dial {
            opening,
            path,
            channel,
            first_port,
        });
        self.try_dial(now);
    }

    /// Sends due packets that open the link.
    pub(super) fn try_dial(&mut self, now: Instant) {
        let Some(dial) = &mut self.dial else {
            return;
        };
        match dial.opening.poll_packet(now) {
            Ok(packet) => {
                let remote = dial.path.remote;
                self.outbox.extend(packet.map(|packet| (remote, packet)));
            }
            Err(progress) => self.dial_failed(now, progress),
        }
    }

    /// Handles a packet from the port that is being opened.
    pub(super) fn handle_answer(&mut self, now: Instant, packet: &Packet<'_>) {
        let Some(dial) = &mut self.dial else {
            return;
        };
        let (path, channel, first_port) = (dial.path, dial.channel, dial.first_port);
        match dial.opening.handle_packet(now, packet) {
            Progress::Waiting => self.try_dial(now),
            Progress::Open(contract) => {
                self.dial = None;
                self.establish(now, path, channel, contract);
                self.hand_over(now, path, packet);
                match channel {
                    Channel::Low => self.dial(now, path, Channel::Medium, first_port),
                    Channel::Medium => self.dial(now, path, Channel::High, first_port),
                    Channel::High => {}
                }
            }
            failed => self.dial_failed(now, failed),
        }
    }

    fn dial_failed(&mut self, now: Instant, progress: Progress) {
        let Some(dial) = self.dial.take() else {
            return;
        };
        let port = dial.path.remote_port;
        let why = match progress {
            Progress::Refused => format!("port {port} refuses the association"),
            _ => format!("no answer from port {port}"),
        };
        match self.links.oldest_incomplete() {
            Some(link) => self.end_link(now, link, End::Violation(why)),
            None => self.events.push_back(Event::Failed(why)),
        }
    }
}
