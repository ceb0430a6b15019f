//! A test rig: the tests of this crate drive a discipline with it.

use weir_base::setting::{Scalar, SettingError, Settings};
use weir_base::{Instant, Streams};
use weir_packet::{DropCounters, Ecn, FlowKey, Keys, Packet, Slot};

use crate::contract::{Admission, Configured, Cx, Discipline, Ready};
use crate::params::Parameters;

/// Time, flow keys and counters. Flow `n` has its key at slot `n`.
pub(crate) struct Rig {
    pub(crate) now: Instant,
    pub(crate) ecn: Ecn,
    pub(crate) keys: Keys,
    pub(crate) fates: DropCounters,
    id: u64,
}

impl Rig {
    /// A rig with this many flows.
    pub(crate) fn new(flows: usize) -> Self {
        let mut keys = Keys::new(flows, (1, 2));
        for flow in 0..flows {
            keys.set(Slot(flow as u32), flow_key(flow));
        }
        Self {
            now: Instant::ZERO,
            ecn: Ecn::NotCapable,
            keys,
            fates: DropCounters::default(),
            id: 0,
        }
    }

    /// A rig whose flows hash to different bins of `bins`.
    pub(crate) fn apart(flows: usize, bins: usize) -> Self {
        let mut rig = Self::new(flows);
        let mut taken = Vec::new();
        let mut candidates = (0..).map(flow_key);
        for flow in 0..flows {
            let key = candidates
                .by_ref()
                .find(|key| {
                    let hash = u128::from(rig.keys.hash_key(key));
                    let bin = (hash * bins as u128) >> 64;
                    let free = !taken.contains(&bin);
                    taken.push(bin);
                    free
                })
                .unwrap();
            rig.keys.set(Slot(flow as u32), key);
        }
        rig
    }

    /// The number of the next packet.
    pub(crate) fn next_id(&self) -> u64 {
        self.id
    }

    /// The next packet, of this flow and length.
    pub(crate) fn packet(&mut self, flow: usize, bytes: u32) -> Packet {
        let mut packet = Packet::new(self.id, Slot(flow as u32), bytes, self.now);
        packet.ecn = self.ecn;
        self.id += 1;
        packet
    }

    /// The context of a call.
    pub(crate) fn cx(&mut self) -> Cx<'_> {
        Cx {
            now: self.now,
            keys: &self.keys,
            fates: &mut self.fates,
            heavy: false,
        }
    }

    /// Offers a packet.
    pub(crate) fn offer(
        &mut self,
        discipline: &mut dyn Discipline,
        flow: usize,
        bytes: u32,
    ) -> Admission {
        let packet = self.packet(flow, bytes);
        let mut cx = self.cx();
        discipline.prefetch(&cx, &packet);
        discipline.enqueue(&mut cx, packet)
    }

    /// Takes a packet as a port does: only if the discipline reports `Ready::Now`.
    pub(crate) fn take(&mut self, discipline: &mut dyn Discipline) -> Option<Packet> {
        if discipline.ready(self.now) != Ready::Now {
            return None;
        }
        discipline.dequeue(&mut self.cx())
    }
}

/// The key of flow `n`: senders 10.0.0.0 and up, one receiver.
pub(crate) fn flow_key(n: usize) -> FlowKey {
    let [_, a, b, c] = (n as u32).to_be_bytes();
    FlowKey::ip(
        [10, a, b, c].into(),
        [192, 0, 2, 1].into(),
        17,
        5000 + n as u16,
        53,
    )
}

/// The parameters of a discipline from text; all others have their defaults.
pub(crate) fn params<D: Configured>(given: &[(&str, &str)]) -> Result<D::Params, SettingError> {
    let given = given
        .iter()
        .map(|(name, text)| (*name, Scalar::Text((*text).into())));
    let given: Vec<_> = given.collect();
    let given = given.iter().map(|(name, scalar)| (*name, scalar));
    let params = D::Params::read(&Settings::check(D::Params::TABLE, given)?)?;
    D::limit(&params).map(|_| params)
}

/// The default parameters of a discipline.
pub(crate) fn defaults<D: Configured>() -> D::Params {
    params::<D>(&[]).unwrap()
}

/// An empty discipline at time zero.
pub(crate) fn built<D: Configured>(params: D::Params) -> D {
    D::build(params, Instant::ZERO, &Streams::new(1))
}

/// The value of a gauge.
pub(crate) fn gauge(discipline: &dyn Discipline, name: &str) -> u64 {
    let mut value = None;
    discipline.inspect(&mut |n, v| {
        if n == name {
            value = Some(v);
        }
    });
    value.unwrap_or_else(|| panic!("no gauge {name}"))
}
