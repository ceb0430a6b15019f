//! The objects of IF-MIB (RFC 2863) that describe a queue, and sums of their counters.

use weir_base::Tally;

use super::Datum;

/// sysUpTime.0: hundredths of a second since the agent started.
const SYS_UP_TIME: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
/// ifName, the column of the interface names.
const IF_NAME: &[u64] = &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1];
/// Columns of ifXTable and ifTable to read, in the order of [`Row::parse`].
const COLUMNS: [&[u64]; 8] = [
    IF_NAME,
    &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 10], // ifHCOutOctets
    &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 11], // ifHCOutUcastPkts
    &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 12], // ifHCOutMulticastPkts
    &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 13], // ifHCOutBroadcastPkts
    &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 19], // ifCounterDiscontinuityTime
    &[1, 3, 6, 1, 2, 1, 2, 2, 1, 19],     // ifOutDiscards
    &[1, 3, 6, 1, 2, 1, 2, 2, 1, 21],     // ifOutQLen
];

/// The objects to read for the interface with this index.
pub(super) fn objects(index: u32) -> Vec<Vec<u64>> {
    let of_row = COLUMNS
        .iter()
        .map(|column| [column, &[u64::from(index)][..]].concat());
    [SYS_UP_TIME.to_vec()].into_iter().chain(of_row).collect()
}

/// The object that precedes the names of interfaces with greater indices.
pub(super) fn name_after(index: u32) -> Vec<u64> {
    match index {
        0 => IF_NAME.to_vec(),
        index => [IF_NAME, &[u64::from(index)]].concat(),
    }
}

/// Index of the interface whose name this object contains.
pub(super) fn index_of_name(object: &[u64]) -> Option<u32> {
    match object.strip_prefix(IF_NAME)? {
        [index] => u32::try_from(*index).ok(),
        _ => None,
    }
}

/// An interface in an agent's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: Vec<u8>,
    pub(super) reading: Reading,
}

/// The counters of an interface at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Time since the agent started, in hundredths of a second (sysUpTime).
    up_time: u64,
    /// Up time of the agent at the last discontinuity of its counters (ifCounterDiscontinuityTime).
    discontinuity: u64,
    sent: Tally,
    discards: u32,
    queue: u64,
}

impl Row {
    /// Parses the answer for [`objects`]; `None` if there is no such interface.
    pub(super) fn parse(
        wanted: &[Vec<u64>],
        answer: &[(Vec<u64>, Datum)],
    ) -> Result<Option<Self>, String> {
        if !wanted.iter().eq(answer.iter().map(|(oid, _)| oid)) {
            return Err("it answered with other objects than requested".to_owned());
        }
        let number = |place: usize| match answer.get(place) {
            Some((_, Datum::Number(number))) => Some(*number),
            _ => None,
        };
        let Some((_, Datum::Octets(name))) = answer.get(1) else {
            return Ok(None);
        };
        let (Some(octets), Some(unicast)) = (number(2), number(3)) else {
            let why = "it has no 64-bit counters (ifHCOutOctets and ifHCOutUcastPkts of IF-MIB)";
            return Err(why.to_owned());
        };
        let packets = [number(4), number(5)].into_iter().flatten();
        Ok(Some(Self {
            name: name.clone(),
            reading: Reading {
                up_time: number(0).unwrap_or(0),
                discontinuity: number(6).unwrap_or(0),
                sent: Tally {
                    packets: packets.fold(unicast, u64::wrapping_add),
                    bytes: octets,
                },
                discards: number(7).unwrap_or(0) as u32, // a Counter32
                queue: number(8).unwrap_or(0),
            },
        }))
    }
}

/// The state of a queue. Sums start at the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Offered to the queue; the bytes of dropped and held packets are unknown, and do not count.
    pub received: Tally,
    /// Sent by the queue.
    pub sent: Tally,
    /// Held now; the bytes are unknown, and are 0.
    pub backlog: Tally,
}

/// Sums of an interface's counters across all discontinuities.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    last: Option<Reading>,
    sent: Tally,
    dropped: u64,
}

impl Sums {
    /// Adds the next reading. Ignores the traffic between two readings if the counters had a discontinuity between
    /// them, because that traffic is unknown.
    pub(super) fn add(&mut self, now: Reading) -> Sample {
        if let Some(passed) = self.last.and_then(|last| passed(&last, &now)) {
            self.sent.packets = self.sent.packets.saturating_add(passed.sent.packets);
            self.sent.bytes = self.sent.bytes.saturating_add(passed.sent.bytes);
            self.dropped = self.dropped.saturating_add(passed.discards.into());
        }
        self.last = Some(now);
        let left = self.sent.packets.saturating_add(self.dropped);
        Sample {
            received: Tally {
                packets: left.saturating_add(now.queue),
                bytes: self.sent.bytes,
            },
            sent: self.sent,
            backlog: Tally {
                packets: now.queue,
                bytes: 0,
            },
        }
    }
}

/// The traffic between two readings; `None` after a discontinuity: the agent reports one, the agent restarted (its up
/// time also wraps every 497 days), or a 64-bit counter, which never wraps, went back.
fn passed(last: &Reading, now: &Reading) -> Option<Reading> {
    if now.up_time < last.up_time || now.discontinuity != last.discontinuity {
        return None;
    }
    Some(Reading {
        sent: Tally {
            packets: now.sent.packets.checked_sub(last.sent.packets)?,
            bytes: now.sent.bytes.checked_sub(last.sent.bytes)?,
        },
        discards: now.discards.wrapping_sub(last.discards), // a 32-bit counter wraps
        ..*now
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(up_time: u64, sent: u64, discards: u32, queue: u64) -> Reading {
        Reading {
            up_time,
            discontinuity: 7,
            sent: Tally {
                packets: sent,
                bytes: 100 * sent,
            },
            discards,
            queue,
        }
    }

    #[test]
    fn sums_begin_with_the_first_reading_and_wrap_with_the_agent() {
        let mut sums = Sums::default();
        let first = sums.add(reading(100, 5000, u32::MAX - 1, 3));
        let packets =
            |sample: Sample| [sample.received, sample.sent, sample.backlog].map(|t| t.packets);
        assert_eq!(packets(first), [3, 0, 3]);
        // 10 sent, 5 dropped across the 32-bit wrap, 4 held.
        assert_eq!(packets(sums.add(reading(200, 5010, 3, 4))), [19, 10, 4]);
        assert_eq!(sums.sent.bytes, 1000);
    }

    #[test]
    fn what_passed_while_counters_were_interrupted_does_not_count() {
        let restarted = reading(50, 9000, 9, 0);
        let interrupted = Reading {
            discontinuity: 8,
            ..reading(300, 9000, 9, 0)
        };
        let back = reading(300, 4000, 9, 0);
        for next in [restarted, interrupted, back] {
            let mut sums = Sums::default();
            sums.add(reading(100, 5000, 0, 0));
            assert_eq!(sums.add(reading(200, 5010, 2, 0)).received.packets, 12);
            assert_eq!(sums.add(next).received.packets, 12, "{next:?}");
            // The sums continue from there.
            let more = Reading {
                up_time: next.up_time + 1,
                sent: next.sent
                    + Tally {
                        packets: 3,
                        bytes: 300,
                    },
                ..next
            };
            assert_eq!(sums.add(more).received.packets, 15);
        }
    }

    #[test]
    fn an_answer_is_read_by_its_objects() {
        let wanted = objects(4);
        let mut data = vec![Datum::Number(1), Datum::Octets(b"eth0".to_vec())];
        data.extend((10..17).map(Datum::Number));
        let answer: Vec<_> = wanted.iter().cloned().zip(data.iter().cloned()).collect();
        let row = Row::parse(&wanted, &answer).unwrap().unwrap();
        assert_eq!(row.name, b"eth0");
        let sent = Tally {
            packets: 11 + 12 + 13,
            bytes: 10,
        };
        let expected = Reading {
            up_time: 1,
            discontinuity: 14,
            sent,
            discards: 15,
            queue: 16,
        };
        assert_eq!(row.reading, expected);
        // A deleted interface, and an agent without 64-bit counters.
        let without = |place: usize| {
            let mut answer = answer.clone();
            answer[place].1 = Datum::None;
            Row::parse(&wanted, &answer)
        };
        assert_eq!(without(1), Ok(None));
        assert!(without(2).unwrap_err().contains("no 64-bit counters"));
        assert!(without(5).is_ok_and(|row| row.is_some()));
        // Other objects, fewer objects, no objects.
        assert!(Row::parse(&objects(5), &answer).is_err());
        assert!(Row::parse(&wanted, &answer[..3]).is_err());
        assert!(Row::parse(&wanted, &[]).is_err());
    }

    #[test]
    fn names_are_walked_by_index() {
        assert_eq!(index_of_name(&name_after(7)), Some(7));
        assert_eq!(index_of_name(&name_after(0)), None);
        assert_eq!(index_of_name(&[COLUMNS[1], &[7]].concat()), None);
        assert_eq!(index_of_name(&[IF_NAME, &[u64::MAX]].concat()), None);
    }
}
