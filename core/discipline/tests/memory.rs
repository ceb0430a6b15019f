//! `state_bytes` reports the memory of a discipline. A discipline allocates it when it is built or changed,
//! and never per packet, whatever the number of flows. Only `fifo`, and `token_bucket`, which contains a
//! `fifo`, allocate memory later: when they hold more packets than their memory has room for.

use allocation_counter::{AllocationInfo, measure};
use weir_base::setting::Scalar;
use weir_base::{Instant, Span, Streams};
use weir_discipline::{Cx, Discipline, Spec, manuals};
use weir_packet::{DropCounters, FlowKey, Keys, Packet, Slot};

const PACKETS: u64 = 50_000;

fn run(discipline: &mut dyn Discipline, keys: &mut Keys, fates: &mut DropCounters, packets: u64) {
    let mut now = Instant::ZERO;
    for id in 0..packets {
        now += Span::from_nanos(id * 7919 % 20_000);
        let slot = Slot((id % 64) as u32);
        // Half of the packets each belong to a new flow.
        let flow = if id % 2 == 0 { id } else { id % 31 };
        let [.., a, b, c] = flow.to_be_bytes();
        let key = FlowKey::ip([10, a, b, c].into(), [192, 0, 2, 1].into(), 17, 1, 2);
        keys.set(slot, key);
        let packet = Packet::new(id, slot, 60 + (id % 1400) as u32, now);
        let mut cx = Cx {
            now,
            keys,
            fates,
            heavy: false,
        };
        if discipline.timeout().is_some_and(|due| due <= now) {
            discipline.on_timeout(&mut cx);
        }
        discipline.prefetch(&cx, &packet);
        discipline.enqueue(&mut cx, packet);
        if id % 3 != 0 {
            discipline.dequeue(&mut cx); // two packets leave where three come: limits are reached
        }
        fates.freed().for_each(drop);
    }
}

#[test]
fn memory_is_fixed_and_known() {
    for manual in manuals() {
        let perturb = Scalar::Text("1 ms".into());
        let cache = Scalar::Integer(1000);
        let given = [("perturb", &perturb), ("cache", &cache)];
        let given = given.into_iter().filter(|(name, _)| {
            let mut names = manual.parameters.iter().map(|p| p.name);
            names.any(|n| n == *name)
        });
        let spec = Spec::check(manual.name, given).unwrap();
        let streams = Streams::new(1);
        let mut keys = Keys::new(64, (1, 2));
        let mut fates = DropCounters::default();
        let mut first = spec.build(Instant::ZERO, &streams);
        run(first.as_mut(), &mut keys, &mut fates, PACKETS); // so that `fates` has grown

        let mut built = None;
        let taken = measure(|| built = Some(spec.build(Instant::ZERO, &streams)));
        let mut discipline = built.unwrap();
        let name = manual.name;
        let grows = matches!(name, "fifo" | "token_bucket");
        let fixed = discipline.state_bytes() as i64;
        let mut bytes = taken.bytes_current;
        if grows {
            let fill = || run(discipline.as_mut(), &mut keys, &mut fates, PACKETS);
            let more = measure(fill);
            assert!(more.count_total <= 8, "{name} doubles its memory: {more:?}");
            bytes += more.bytes_current;
        }
        assert_eq!(bytes, fixed, "{name}");
        let quiet = |discipline: &mut dyn Discipline, keys: &mut Keys, fates: &mut DropCounters| {
            let taken = measure(|| run(discipline, keys, fates, PACKETS));
            assert_eq!(taken, AllocationInfo::default(), "{name} allocates");
        };
        quiet(discipline.as_mut(), &mut keys, &mut fates);
        assert_eq!(discipline.state_bytes() as i64, fixed);

        let limit = Scalar::Integer(20_000);
        let larger = Spec::check(name, [("limit", &limit)]).unwrap();
        let mut taken = measure(|| assert!(larger.apply(&mut *discipline, Instant::ZERO)));
        if grows {
            let filled = measure(|| run(discipline.as_mut(), &mut keys, &mut fates, PACKETS));
            taken.bytes_current += filled.bytes_current;
        }
        let grown = discipline.state_bytes() as i64;
        assert_eq!(taken.bytes_current, grown - fixed, "{name}");
        quiet(discipline.as_mut(), &mut keys, &mut fates);
        println!("{name:9} {grown:9} bytes");
    }
}
