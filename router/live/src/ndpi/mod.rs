//! nDPI, the library with which we compare the classifier: the protocol of each flow according to nDPI.
//!
//! The feature `ndpi` links Debian's libndpi (LGPL-3.0, dynamically). `shim.c` hides nDPI's structs, because they
//! differ in each release.
//!
//! Flows are never removed, so their number is bounded: packets of further flows are ignored. nDPI sees the first
//! packets of a flow, as in its own reader.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{NonNull, null};

use weir_packet::FlowKey;

/// Maximum number of flows.
const FLOWS_MAX: usize = 100_000;
/// Maximum packets of a flow that nDPI sees; its reader stops after 80 of TCP and 24 of UDP.
const PACKETS_MAX: u32 = 80;
/// Buffer size for the name of a protocol.
const NAME_BYTES: usize = 128;

unsafe extern "C" {
    fn weir_ndpi_new() -> *mut c_void;
    fn weir_ndpi_free(module: *mut c_void);
    fn weir_ndpi_flow_new() -> *mut c_void;
    fn weir_ndpi_flow_free(flow: *mut c_void);
    fn weir_ndpi_read(
        module: *mut c_void,
        flow: *mut c_void,
        packet: *const u8,
        length: u16,
        at_ms: u64,
        name: *mut c_char,
        name_size: u32,
    );
}

/// nDPI with the flows that it has seen.
#[derive(Debug)]
pub struct Ndpi {
    module: NonNull<c_void>,
    flows: HashMap<FlowKey, Flow>,
    number: u64,
}

#[derive(Debug)]
struct Flow {
    state: NonNull<c_void>,
    /// Its position among all flows, by first packets.
    number: u64,
    packets: u32,
}

impl Ndpi {
    /// nDPI without flows; `None` if nDPI cannot be initialised.
    pub fn new() -> Option<Self> {
        // SAFETY: the function has no arguments, and its result is checked.
        let module = NonNull::new(unsafe { weir_ndpi_new() })?;
        Some(Self {
            module,
            flows: HashMap::new(),
            number: 0,
        })
    }

    /// Takes a packet of a flow, from its IP header on, with its time in milliseconds.
    pub fn take(&mut self, key: &FlowKey, packet: &[u8], at_ms: u64) {
        let back = FlowKey {
            source: key.destination,
            destination: key.source,
            source_port: key.destination_port,
            destination_port: key.source_port,
            ..*key
        };
        let key = if self.flows.contains_key(&back) {
            back
        } else {
            *key
        };
        let is_full = self.flows.len() >= FLOWS_MAX;
        let flow = match self.flows.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(place) => {
                // SAFETY: the function has no arguments, and its result is checked.
                let Some(state) = NonNull::new(unsafe { weir_ndpi_flow_new() }) else {
                    return;
                };
                self.number += 1;
                place.insert(Flow {
                    state,
                    number: self.number,
                    packets: 0,
                })
            }
        };
        flow.packets += 1;
        if flow.packets <= PACKETS_MAX {
            read(self.module, flow.state, Some(packet), at_ms);
        }
    }

    /// Ends all flows; returns the name of the protocol of each, in the order of their first packets.
    pub fn finish(mut self) -> Vec<(FlowKey, String)> {
        let mut flows: Vec<_> = self.flows.drain().collect();
        flows.sort_by_key(|(_, flow)| flow.number);
        let name = |(key, flow): (FlowKey, Flow)| {
            let name = read(self.module, flow.state, None, 0);
            free(&flow);
            (key, name)
        };
        flows.into_iter().map(name).collect()
    }
}

impl Drop for Ndpi {
    fn drop(&mut self) {
        self.flows.values().for_each(free);
        // SAFETY: the module came from `weir_ndpi_new`, and nobody uses it after this.
        unsafe { weir_ndpi_free(self.module.as_ptr()) };
    }
}

/// Reads a packet, or ends a flow; returns the name of its protocol.
fn read(
    module: NonNull<c_void>,
    flow: NonNull<c_void>,
    packet: Option<&[u8]>,
    at_ms: u64,
) -> String {
    let mut name = [0; NAME_BYTES];
    let length = packet.map_or(0, |packet| packet.len().min(usize::from(u16::MAX)));
    // SAFETY: module and flow are alive, since only `Drop` and `finish` free them. The packet has `length` bytes, and
    // the name has room for `NAME_BYTES`; nDPI keeps neither pointer.
    unsafe {
        weir_ndpi_read(
            module.as_ptr(),
            flow.as_ptr(),
            packet.map_or(null(), <[u8]>::as_ptr),
            length as u16,
            at_ms,
            name.as_mut_ptr(),
            NAME_BYTES as u32,
        );
    }
    name[NAME_BYTES - 1] = 0;
    // SAFETY: the last byte is zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    name.to_string_lossy().into_owned()
}

fn free(flow: &Flow) {
    // SAFETY: the state came from `weir_ndpi_flow_new`; its owner drops the flow after this call.
    unsafe { weir_ndpi_flow_free(flow.state.as_ptr()) };
}
