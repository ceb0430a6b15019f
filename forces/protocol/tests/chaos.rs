//! Arbitrary bytes at arbitrary times: neither side panics, exceeds its memory limits, or loops endlessly.

use crate::world::{BACKUP, CE, World, ce_params, fe_params, ms};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_base::Span;
use weir_protocol::session::fe::{Failover, Standby};
use weir_protocol::session::{ce, fe};

use crate::common;

/// An action of a malicious peer.
#[derive(Clone, Debug)]
enum Act {
    ToFe(Vec<u8>),
    ToCe(Vec<u8>),
    Cut,
    Wait(u64),
    Flood(Vec<u8>),
}

/// A message of any kind, as if it came from the peer.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let posed = (common::message(), any::<bool>()).prop_map(|(message, known)| {
        let mut bytes = message.to_bytes();
        if known {
            let is_ce = bytes[4] >= 0x40;
            let (ce, fe) = (CE.0.to_be_bytes(), [0, 0, 0, 2]);
            bytes[4..8].copy_from_slice(if is_ce { &ce } else { &fe });
            bytes[8..12].copy_from_slice(if is_ce { &fe } else { &ce });
            bytes[12..19].fill(0);
        }
        bytes
    });
    prop_oneof![4 => posed, 1 => vec(any::<u8>(), 0..80)]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => bytes().prop_map(Act::ToFe),
        4 => bytes().prop_map(Act::ToCe),
        1 => Just(Act::Cut),
        2 => (0_u64..20_000).prop_map(Act::Wait),
        1 => bytes().prop_map(Act::Flood),
    ]
}

proptest! {
    #[test]
    fn no_peer_does_harm(acts in vec(act(), 0..30), standby in 0_usize..3) {
        let standby = [Standby::None, Standby::Cold, Standby::Hot][standby];
        let keeps = Some(Span::from_secs(60));
        let params = fe::Params {
            failover: Failover { keeps, standby },
            ..fe_params(2, &[CE, BACKUP])
        };
        let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
        world.run(ms(100));
        for act in acts {
            let now = world.now;
            let link = world.link_of(0, CE);
            match act {
                Act::ToFe(bytes) => world.fe().handle_message(now, CE, &bytes),
                Act::ToCe(bytes) => {
                    if let Some((link, _)) = link {
                        world.ce().handle_message(now, link, &bytes);
                    }
                }
                Act::Cut => world.cut(0, CE),
                Act::Wait(millis) => world.run(now + Span::from_millis(millis)),
                Act::Flood(bytes) => {
                    for _ in 0..300 {
                        world.fe().handle_message(now, CE, &bytes);
                        let waiting: usize = world.fes[0].events.len();
                        prop_assert!(waiting < 10_000);
                    }
                }
            }
            world.settle();
        }
        let now = world.now;
        world.run(now + Span::from_secs(120));
        prop_assert!(world.fe().master().is_some(), "it finds a CE again");
        prop_assert!(world.ces.iter().any(|c| c.ce.fes().count() == 1));
        let associated = |e: &ce::Event| matches!(e, ce::Event::Associated { .. });
        prop_assert!(world.ces.iter().any(|c| c.events.iter().any(associated)));
    }
}
