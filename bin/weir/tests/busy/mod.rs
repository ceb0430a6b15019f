//! Routers on a busy machine. These tests create the load, and would disturb other tests in the same program.

mod changes;
mod load;
mod starved;

use crate::common;
use crate::lifecycle::stream;
