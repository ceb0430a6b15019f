//! Labels from the library nDPI, instead of a file.

use std::path::Path;

use weir_classifier::Segment;
use weir_classifier::evaluation::Label;
use weir_classifier::frame::parse;
use weir_live::ndpi::Ndpi;

use super::source;
use crate::Failure;

/// nDPI's labels for the TCP and UDP flows in a capture. If the capture cannot be read to its end, its labels up to
/// there are returned; the classification, which reads the capture again, reports the error.
pub(super) fn labels(file: &Path) -> Result<Vec<Label>, Failure> {
    if file.as_os_str() == "-" {
        let why = "standard input can be read only once; --ndpi needs a file";
        return Err(Failure::Usage(why.to_owned()));
    }
    let ndpi = Ndpi::new();
    let mut ndpi = ndpi.ok_or_else(|| Failure::Run("nDPI cannot be initialised".to_owned()))?;
    let mut now_ms = 0;
    let _ = source::read(file, |frame| {
        now_ms = frame.at.map_or(now_ms, |at| now_ms.max(at / 1_000_000));
        match parse(frame.link_type, frame.bytes) {
            Ok(packet) if packet.segment != Segment::Other => {
                ndpi.take(&packet.key, packet.packet, now_ms);
            }
            _ => {}
        }
    });
    let labels = ndpi.finish().into_iter();
    Ok(labels.map(|(key, name)| Label::new(key, &name)).collect())
}
