//! Reads a capture from a file, piece by piece.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use weir_capture::{Frame, RECORD_MAX, Reader, Step};

/// Passes each packet of a capture, from a file or from standard input (`-`), to `take`. The error is the reason why
/// the capture could not be read to its end.
pub(super) fn read(file: &Path, mut take: impl FnMut(Frame<'_>)) -> Result<(), String> {
    let mut file: Box<dyn Read> = if file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(|e| e.to_string())?)
    };
    let mut reader = Reader::new();
    // Twice the maximum record length, so that bytes are moved to the front at most once per record length.
    let mut buffer = vec![0; 2 * RECORD_MAX];
    let (mut at, mut end, mut passed) = (0, 0, 0_u64);
    loop {
        // Skip bytes of a block that is not read.
        let here = passed.min((end - at) as u64);
        (at, passed) = (at + here as usize, passed - here);
        if passed == 0 {
            match reader.step(&buffer[at..end]).map_err(|e| e.to_string())? {
                Step::Frame(bytes, frame) => {
                    take(frame);
                    at += bytes;
                    continue;
                }
                Step::Passed(bytes) => {
                    passed = bytes;
                    continue;
                }
                Step::Wanted(_) => {}
            }
        }
        buffer.copy_within(at..end, 0);
        (at, end) = (0, end - at);
        match file.read(&mut buffer[end..]) {
            Ok(0) => return reader.end(&buffer[..end]).map_err(|e| e.to_string()),
            Ok(bytes) => end += bytes,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
    }
}
