//! The inputs of the thread that runs the element.

use tokio::sync::oneshot;
use weir_element::{Answer, Event, Request};
use weir_path::ip::tables::Tables;

/// An input of the element.
pub(super) enum Input {
    /// A request whose sender waits for the answer.
    Request(Request, oneshot::Sender<Answer>),
    /// An event of a device.
    Event(Event),
    /// The kernel's tables have been read for the first time.
    Tables(Result<Tables, String>),
}
