//! `weir capture`: captures the packets at a running router's ports and writes them as pcapng.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use weir_model::capture::{CaptureReport, CaptureRequest, CaptureTicket};
use weir_northbound::client::{self, ClientError};

use crate::observe::FilterArguments;
use crate::output::note;
use crate::{Failure, RouterSocket};

/// Interval of the requests for more packets.
const FETCH_PERIOD: Duration = Duration::from_millis(100);

/// Arguments of `weir capture`.
#[derive(Debug, clap::Args)]
pub struct CaptureArguments {
    /// A port; may be repeated [default: all ports]
    #[arg(long = "port", value_name = "NAME")]
    ports: Vec<String>,
    /// Only lost packets, each with the reason
    #[arg(long)]
    drops: bool,
    #[command(flatten)]
    filter: FilterArguments,
    /// Bytes to keep of each frame
    #[arg(long, default_value_t = CaptureRequest::default().snap, value_name = "BYTES")]
    snap: u32,
    /// Stop after this many packets
    #[arg(long, default_value_t = CaptureRequest::default().packets)]
    packets: u64,
    /// Stop after this time
    #[arg(long, default_value_t = CaptureRequest::default().seconds)]
    seconds: f64,
    /// Output file; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE.pcapng")]
    out: PathBuf,
    #[command(flatten)]
    router: RouterSocket,
}

/// Captures until the router ends the capture or the user interrupts it.
pub fn run(arguments: CaptureArguments) -> Result<(), Failure> {
    let failed = |e: ClientError| Failure::Run(e.to_string());
    let out = arguments.out;
    if is_stdout(&out) && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "cannot write a capture to a terminal: use --out FILE.pcapng, or a pipe".to_owned(),
        ));
    }
    let request = CaptureRequest {
        ports: arguments.ports,
        drops: arguments.drops,
        filter: arguments.filter.filter()?,
        snap: arguments.snap,
        packets: arguments.packets,
        seconds: arguments.seconds,
    };
    request
        .check()
        .map_err(|refusal| Failure::Usage(refusal.to_string()))?;
    let socket = arguments.router.path()?;
    let begun = client::post(&socket, "/v1/capture", &request);
    let CaptureTicket { id } = begun.map_err(failed)?;
    let path = format!("/v1/capture/{id}");
    let copied = copy(&socket, &path, &out);
    let ended = client::delete(&socket, &path); // even after an error, so that the router does not wait for this client
    copied?;
    let report: CaptureReport = ended.map_err(failed)?;
    note(&summary(report));
    Ok(())
}

/// Copies the packets that the router captures to a file, chunk by chunk.
fn copy(socket: &Path, path: &str, out: &Path) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::Run(format!("{}: {e}", out.display()));
    let mut waiting = Waiting::new().map_err(failed)?;
    let mut writer: Box<dyn Write> = if is_stdout(out) {
        Box::new(io::stdout())
    } else {
        Box::new(File::create(out).map_err(failed)?)
    };
    let mut interrupted = false;
    loop {
        let chunk = client::get_bytes(socket, path);
        let Some(bytes) = chunk.map_err(|e| Failure::Run(e.to_string()))? else {
            return Ok(());
        };
        match writer.write_all(&bytes).and_then(|()| writer.flush()) {
            Ok(()) if interrupted => return Ok(()),
            Ok(()) => interrupted = waiting.interrupted(FETCH_PERIOD),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()), // `| head`
            Err(error) => return Err(failed(error)),
        }
    }
}

fn is_stdout(out: &Path) -> bool {
    out.as_os_str() == "-"
}

fn summary(CaptureReport { captured, missed }: CaptureReport) -> String {
    let captured = match captured {
        1 => "1 packet captured".to_owned(),
        n => format!("{n} packets captured"),
    };
    match missed {
        0 => captured,
        1 => format!("{captured}; 1 packet was not captured because the buffer was full"),
        n => format!("{captured}; {n} packets were not captured because the buffer was full"),
    }
}

/// Waits, and notices an interrupt.
struct Waiting {
    runtime: tokio::runtime::Runtime,
    interrupt: tokio::signal::unix::Signal,
}

impl Waiting {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let interrupt = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        Ok(Self { runtime, interrupt })
    }

    /// Waits for `time`. Whether the user has interrupted since the last call, or interrupts during the wait.
    fn interrupted(&mut self, time: Duration) -> bool {
        let Self { runtime, interrupt } = self;
        runtime.block_on(async { tokio::time::timeout(time, interrupt.recv()).await.is_ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_missed_packets() {
        let shown = |captured, missed| summary(CaptureReport { captured, missed });
        assert_eq!(shown(1, 0), "1 packet captured");
        assert_eq!(
            shown(3, 2),
            "3 packets captured; 2 packets were not captured because the buffer was full"
        );
    }
}
