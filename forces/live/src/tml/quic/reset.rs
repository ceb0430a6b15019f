//! Stateless resets (RFC 9000, 10.3), with which a restarted CE ends its earlier connections.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use ring::hmac;

use crate::tml::identity::Identity;

/// Label of the key from which a CE derives its stateless reset tokens.
const RESET_LABEL: &[u8] = b"weir quic stateless reset";

/// An endpoint configuration that lets a CE reset connections from before its restart.
pub(super) fn endpoint(identity: &Identity) -> EndpointConfig {
    let resets = hmac::Key::new(hmac::HMAC_SHA256, &identity.derived(RESET_LABEL));
    let mut config = EndpointConfig::new(Arc::new(resets));
    config.cid_generator(|| Box::<RandomIds>::default());
    config
}

/// Generates connection IDs of any eight octets. QUIC's default IDs are valid only in the process that created them,
/// and it sends no reset for packets with other IDs.
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
