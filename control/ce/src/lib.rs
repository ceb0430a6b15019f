//! A control element (CE) without I/O: what `weir ce` is. It steers forwarding elements (FEs).
