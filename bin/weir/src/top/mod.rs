//! `weir top`: ports, queues, backlogged sources and drops, updated once a second with each sample of the router.
//!
//! ```text
//!  router: /v1/live --a line a second--> thread --channel--> loop --frame--> terminal
//!                                                 keys, signals --^
//! ```
//!
//! [`sample`] reads a line, [`view`] lays out a frame as lines of text, and [`screen`] controls the terminal. `--once`
//! prints such a frame, and `--json` the line itself.

mod sample;
mod screen;
mod view;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use weir_model::Value;
use weir_northbound::client::{self, ClientError};

use self::sample::Sample;
use self::screen::{Key, Screen};
use self::view::View;
use crate::output::{print, print_json_to_reader};
use crate::{Failure, RouterSocket};

/// Number of samples to keep for the curves.
const SAMPLES_MAX: usize = 120;
/// Time between two attempts to reach the router.
const RETRY: Duration = Duration::from_secs(1);
/// Width of a frame that is not printed on a terminal.
const WIDTH: usize = 120;
/// Height of a printed frame.
const HEIGHT: usize = 48;

/// Arguments of `weir top`.
#[derive(Debug, clap::Args)]
pub struct TopArguments {
    /// Start with this port
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Print one frame, and exit
    #[arg(long)]
    once: bool,
    /// Print one sample as JSON, and exit
    #[arg(short, long, conflicts_with = "once")]
    json: bool,
    #[command(flatten)]
    router: RouterSocket,
}

/// `weir top`.
pub fn run(arguments: &TopArguments) -> Result<(), Failure> {
    let socket = &arguments.router.path()?;
    if arguments.json {
        let line = first(socket)?;
        return print_json_to_reader(&String::from_utf8_lossy(&line)).map(|_| ());
    }
    if arguments.once {
        let mut view = View::new(arguments.port.clone());
        view.add(read(&first(socket)?)?);
        let width = screen::width().unwrap_or(WIDTH);
        return print(&(view.frame(width, HEIGHT).trimmed() + "\n"));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let why = "`weir top` needs a terminal; --once prints one frame, and --json one sample";
        return Err(Failure::Usage(why.to_owned()));
    }
    read(&first(socket)?)?; // an error is easier to read on the ordinary screen
    follow(socket.clone(), View::new(arguments.port.clone()))
}

/// The first sample as a line.
fn first(socket: &Path) -> Result<Vec<u8>, Failure> {
    let mut first = None;
    let taken = client::get_lines(socket, "/v1/live", |line| {
        first = Some(line.to_vec());
        false
    });
    match (taken, first) {
        (_, Some(line)) => Ok(line),
        (Err(error), None) => Err(Failure::Run(error.to_string())),
        (Ok(()), None) => Err(Failure::Run("the router closed the connection".to_owned())),
    }
}

fn read(line: &[u8]) -> Result<Sample, Failure> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| Failure::Run(format!("cannot parse a sample: {error}")))?;
    Ok(Sample::read(&value))
}

/// Draws frames until a key or a signal ends the program.
fn follow(socket: PathBuf, mut view: View) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Run(format!("terminal: {error}"));
    let samples = start_reading(socket).map_err(failed)?;
    let mut screen = Screen::new().map_err(failed)?;
    loop {
        for news in samples.try_iter() {
            match news {
                Ok(sample) => view.add(sample),
                Err(why) => view.lost(why),
            }
        }
        let (width, height) = screen.size().map_err(failed)?;
        screen.draw(&view.frame(width, height)).map_err(failed)?;
        match screen.key().map_err(failed)? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Pause) => view.pause(),
            Some(Key::Next) => view.select(1),
            Some(Key::Previous) => view.select(-1),
            Some(Key::Help) => view.toggle_help(),
            Some(Key::Close) => view.close_help(),
            Some(Key::By) => view.list_others(),
            None => {}
        }
    }
}

/// Starts the thread that reads samples. It ends with the program.
fn start_reading(socket: PathBuf) -> io::Result<mpsc::Receiver<Result<Sample, String>>> {
    let (sender, samples) = mpsc::sync_channel(4);
    let thread = thread::Builder::new().name("weir-samples".to_owned());
    thread.spawn(move || {
        loop {
            let take = |line: &[u8]| match read(line) {
                Ok(sample) => sender.send(Ok(sample)).is_ok(),
                Err(why) => sender.send(Err(why.to_string())).is_ok(),
            };
            let ended = client::get_lines(&socket, "/v1/live", take);
            let why = match ended {
                Ok(()) => "the router closed the connection".to_owned(),
                Err(ClientError::Unreachable { .. }) => "cannot connect".to_owned(),
                Err(error) => error.to_string(),
            };
            if sender.send(Err(why)).is_err() {
                return;
            }
            thread::sleep(RETRY);
        }
    })?;
    Ok(samples)
}

/// The latest samples, and the arrival time of the last one.
#[derive(Debug, Default)]
struct Samples {
    all: VecDeque<Sample>,
    latest: Option<Instant>,
}

impl Samples {
    fn add(&mut self, sample: Sample) {
        if self.all.len() >= SAMPLES_MAX {
            self.all.pop_front();
        }
        self.all.push_back(sample);
        self.latest = Some(Instant::now());
    }
}
