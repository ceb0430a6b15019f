//! At which instant transit goes from the kernel to the router, and back.
//!
//! ```text
//!  kernel forwards | router forwards                    router forwards | kernel forwards
//!  ----------------+----------------> time              ----------------+----------------> time
//!                 from                                                 until
//!  chain: meta time < FROM accept; RULES; drop          chain: meta time >= UNTIL accept; RULES; drop
//!  ring:  frames stamped before FROM are forgotten      ring:  frames stamped from UNTIL on are forgotten
//! ```
//!
//! Both sides see each frame, and each goes by the wall clock: the chain by the time at which it judges
//! a frame, the router by the stamp that the packet tap gave it, on the same processor and less than a
//! microsecond before. So an instant that lies ahead when the rule is committed parts the frames: none is
//! forwarded twice or by nobody, but for one that the instant falls into the middle of. (Where some
//! program on the machine asks for software time stamps the kernel stamps frames before they wait in a
//! processor's backlog, and what waits there in that instant is such a frame too.)
//!
//! The rule with the time is needed for an instant only: [`TransitGuard::settle`] removes it, so that
//! frames do not pay for it and a wall clock that is set back moves nothing.

use weir_base::Span;
use weir_path::parse::Mode;

use super::netlink::Request;
use super::transit::{
    CMP_GTE, CMP_LT, Error, NFT_MSG_NEWRULE, REGISTER, TransitGuard, chain_name, compare, decide,
    expression, message,
};
use crate::clock::UnixTime;

/// The kernel puts rules in force within this time, unless the machine is overloaded.
const COMMIT_TIME: Span = Span::from_millis(40);

impl TransitGuard {
    /// Takes transit at these ports from the kernel, all of them or none: the router has the frames
    /// from the instant on that is given back, which is in the near future. They have no rules yet.
    pub fn take(&mut self, ports: &[(&str, Mode)]) -> Result<UnixTime, Error> {
        let from = UnixTime::now().after(COMMIT_TIME);
        let mut batch = Vec::new();
        for (port, mode) in ports {
            batch.extend(self.chain(port, *mode));
            batch.push(self.accept(port, CMP_LT, from));
        }
        self.commit(&batch)?;
        // Late: the kernel may have forwarded until now.
        Ok(from.max(UnixTime::now()))
    }

    /// Gives transit at these ports back to the kernel, all of them or none: it has the frames from
    /// the instant on that is given back, which is in the near future.
    pub fn give_back(&mut self, ports: &[&str]) -> Result<UnixTime, Error> {
        let until = UnixTime::now().after(COMMIT_TIME);
        let rule = |port: &&str| self.accept(port, CMP_GTE, until);
        let batch: Vec<_> = ports.iter().map(rule).collect();
        self.commit(&batch)?;
        Ok(until)
    }

    /// Removes the rule with the time from ports that were taken. To be called when it has come.
    pub fn settle(&mut self, ports: &[(&str, Mode)]) -> Result<(), Error> {
        const NFT_MSG_DELRULE: u8 = libc::NFT_MSG_DELRULE as u8;
        let mut batch = Vec::new();
        for (port, mode) in ports {
            let all = message(NFT_MSG_DELRULE, 0)
                .with_text(1, &self.table)
                .with_text(2, &chain_name(port));
            batch.push((format!("removal of the rules of {port}"), all));
            batch.extend(self.chain(port, *mode).into_iter().skip(1)); // its rules anew
        }
        self.commit(&batch)
    }

    /// A rule at the head of a port's chain: `meta time OPERATION when accept`.
    fn accept(&self, port: &str, operation: u32, when: UnixTime) -> (String, Request) {
        const NF_ACCEPT: u32 = 1;
        let rule = message(NFT_MSG_NEWRULE, libc::NLM_F_CREATE)
            .with_text(1, &self.table)
            .with_text(2, &chain_name(port))
            .nested(4, |rule| decide(time(rule, operation, when), NF_ACCEPT));
        (format!("time of the handover of {port}"), rule)
    }
}

/// `meta time OPERATION when`. The comparison is one of bytes, in network order.
fn time(rule: Request, operation: u32, when: UnixTime) -> Request {
    const META_TIME_NS: u32 = 30;
    const BYTEORDER_HTON: u32 = 1;
    let rule = expression(rule, "meta", |data| {
        data.with_u32_be(2, META_TIME_NS).with_u32_be(1, REGISTER)
    });
    let rule = expression(rule, "byteorder", |data| {
        data.with_u32_be(1, REGISTER)
            .with_u32_be(2, REGISTER)
            .with_u32_be(3, BYTEORDER_HTON)
            .with_u32_be(4, size_of::<u64>() as u32)
            .with_u32_be(5, size_of::<u64>() as u32)
    });
    compare(rule, operation, &when.as_nanos().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nft insert rule netdev t c meta time >= 1700000000 accept`, nft 1.0.6: the expressions.
    #[rustfmt::skip]
    const RECORDED: &[u8] = &[
        0x24, 0, 0x01, 0x80, 0x09, 0, 0x01, 0, b'm', b'e', b't', b'a', 0, 0, 0, 0,
        0x14, 0, 0x02, 0x80, 0x08, 0, 0x02, 0, 0, 0, 0, 0x1e, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01,
        0x40, 0, 0x01, 0x80, 0x0e, 0, 0x01, 0,
        b'b', b'y', b't', b'e', b'o', b'r', b'd', b'e', b'r', 0, 0, 0,
        0x2c, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01, 0x08, 0, 0x02, 0, 0, 0, 0, 0x01,
        0x08, 0, 0x03, 0, 0, 0, 0, 0x01, 0x08, 0, 0x04, 0, 0, 0, 0, 0x08,
        0x08, 0, 0x05, 0, 0, 0, 0, 0x08,
        0x30, 0, 0x01, 0x80, 0x08, 0, 0x01, 0, b'c', b'm', b'p', 0,
        0x24, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01, 0x08, 0, 0x02, 0, 0, 0, 0, 0x05,
        0x10, 0, 0x03, 0x80, 0x0c, 0, 0x01, 0, 0x17, 0x97, 0x9c, 0xfe, 0x36, 0x2a, 0, 0,
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn a_time_has_the_bytes_that_nft_sends() {
        let when = UnixTime::from_stamp(1_700_000_000, 0);
        let rule = message(NFT_MSG_NEWRULE, 0).nested(4, |rule| time(rule, CMP_GTE, when));
        let bytes = rule.numbered(0);
        assert_eq!(&bytes[24..], RECORDED);
    }
}
