//! How a CE that has started again ends the connections of before: by stateless resets (RFC 9000, 10.3).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use ring::hmac;

use crate::tml::identity::Identity;

/// Label of the key from which a CE derives the tokens that reset connections.
const RESET_LABEL: &[u8] = b"weir quic stateless reset";

/// A configuration by which a CE can reset connections of before its restart.
pub(super) fn endpoint(identity: &Identity) -> EndpointConfig {
    let resets = hmac::Key::new(hmac::HMAC_SHA256, &identity.derived(RESET_LABEL));
    let mut config = EndpointConfig::new(Arc::new(resets));
    config.cid_generator(|| Box::<RandomIds>::default());
    config
}

/// Makes IDs of connections of any eight octets. Those that QUIC makes by default are known to their own process only,
/// and packets with others get no reset.
#[derive(Default)]
struct RandomIds {
    keys: RandomState,
    made: u64,
}

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.made += 1;
        ConnectionId::new(&self.keys.hash_one(self.made).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
