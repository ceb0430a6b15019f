//! Memory is what `state_bytes` says, is taken when a discipline is built or changed, and never per
//! packet, whatever the number of flows.

#![allow(unsafe_code)] // a global allocator that counts cannot be written without

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weir_base::setting::Scalar;
use weir_base::{Instant, Span, Streams};
use weir_discipline::spec::{MANUALS, Spec};
use weir_discipline::{Cx, Discipline};
use weir_packet::{Fates, FlowKey, Keys, Packet, Slot};

thread_local! {
    static TAKEN: Cell<(isize, usize)> = const { Cell::new((0, 0)) };
}

/// Counts bytes in use and calls, on this thread only: tests run side by side.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    // Fails only while the thread ends.
    let _ = TAKEN.try_with(|taken| {
        let (sum, calls) = taken.get();
        taken.set((sum + bytes, calls + 1));
    });
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

const PACKETS: u64 = 50_000;

fn run(discipline: &mut dyn Discipline, keys: &mut Keys, fates: &mut Fates, packets: u64) {
    let mut now = Instant::ZERO;
    for id in 0..packets {
        now += Span::from_nanos(id * 7919 % 20_000);
        let slot = Slot((id % 64) as u32);
        // Half of the packets have a flow of their own.
        let flow = if id % 2 == 0 { id } else { id % 31 };
        let [.., a, b, c] = flow.to_be_bytes();
        let key = FlowKey::ip([10, a, b, c].into(), [192, 0, 2, 1].into(), 17, 1, 2);
        keys.set(slot, key);
        let packet = Packet::new(id, slot, 60 + (id % 1400) as u32, now);
        let mut cx = Cx { now, keys, fates };
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
    for manual in MANUALS {
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
        let mut fates = Fates::default();
        let mut first = spec.build(Instant::ZERO, &streams);
        run(first.as_mut(), &mut keys, &mut fates, PACKETS); // so that `fates` has grown

        let (before, _) = TAKEN.get();
        let mut discipline = spec.build(Instant::ZERO, &streams);
        let (after, calls) = TAKEN.get();
        let state = discipline.state_bytes();
        assert_eq!(after - before, state as isize, "{}", manual.name);
        run(discipline.as_mut(), &mut keys, &mut fates, PACKETS);
        assert_eq!(TAKEN.get(), (after, calls), "{} allocates", manual.name);
        assert_eq!(discipline.state_bytes(), state);

        let limit = Scalar::Integer(20_000);
        let larger = Spec::check(manual.name, [("limit", &limit)]).unwrap();
        discipline.reconfigure(&larger, Instant::ZERO).unwrap();
        let (after, calls) = TAKEN.get();
        let state = discipline.state_bytes();
        assert_eq!(after - before, state as isize, "{}", manual.name);
        run(discipline.as_mut(), &mut keys, &mut fates, PACKETS);
        assert_eq!(TAKEN.get(), (after, calls), "{} allocates", manual.name);
        println!("{:9} {state:9} bytes", manual.name);
    }
}
