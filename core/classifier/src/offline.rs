//! The classifier on a capture: frames in, flows out, and a count of the unread frames.

use weir_base::Instant;

use crate::classifier::{Classifier, Ended, Settings, Verdict};
use crate::frame::{self, Unparsed};

/// Maximum number of link types with a counter.
const LINK_TYPES_MAX: usize = 16;

/// Frames that belong to no flow, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Frames that do not carry IP.
    pub not_ip: u64,
    /// Fragments after the first fragment of their packet: they have no ports.
    pub fragments: u64,
    /// Frames whose headers are truncated or contradict themselves.
    pub malformed: u64,
    /// Frames by unsupported link type (`LINKTYPE_` of libpcap); the first 16 types.
    pub link_types: Vec<(u32, u64)>,
}

/// A classifier for captures.
#[derive(Debug)]
pub struct Offline {
    classifier: Classifier,
    now: Instant,
    unread: Unread,
}

impl Offline {
    /// A classifier that has seen nothing. It keeps flows that have left its table until they are taken.
    pub fn new(settings: Settings, secret: (u64, u64)) -> Self {
        let settings = Settings {
            reports: true,
            ..settings
        };
        Self {
            classifier: Classifier::new(settings, secret),
            now: Instant::ZERO,
            unread: Unread::default(),
        }
    }

    /// Takes a frame of this link type. `at` is the time of its stamp in nanoseconds; a stamp that goes back, as in
    /// joined captures, counts as the latest stamp. Returns the verdict on its flow, if it belongs to a flow.
    pub fn take(&mut self, at: Option<u64>, link_type: u32, bytes: &[u8]) -> Option<Verdict> {
        let at = at.map_or(self.now, Instant::from_nanos);
        self.now = self.now.max(at);
        match frame::parse(link_type, bytes) {
            Ok(packet) => {
                let verdict = self
                    .classifier
                    .observe(self.now, &packet.key, packet.segment);
                return Some(verdict);
            }
            Err(Unparsed::NotIp) => self.unread.not_ip += 1,
            Err(Unparsed::Fragment) => self.unread.fragments += 1,
            Err(Unparsed::Malformed) => self.unread.malformed += 1,
            Err(Unparsed::LinkType(kind)) => self.unread.count_link_type(kind),
        }
        None
    }

    /// The next flow that has left the table. Drain these flows regularly, because they are kept until then.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.classifier.take_ended()
    }

    /// Ends all flows, and returns the counts of unread frames.
    pub fn finish(&mut self) -> Unread {
        self.classifier.finish();
        std::mem::take(&mut self.unread)
    }
}

impl Unread {
    fn count_link_type(&mut self, kind: u32) {
        if let Some((_, frames)) = self.link_types.iter_mut().find(|(known, _)| *known == kind) {
            *frames += 1;
        } else if self.link_types.len() < LINK_TYPES_MAX {
            self.link_types.push((kind, 1));
        }
    }
}
