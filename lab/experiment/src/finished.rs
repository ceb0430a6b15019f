//! Finished runs on disk, so that a plan whose process was killed resumes where it stopped.
//!
//! ```text
//!   OUT/unfinished-1f6a03d29b8c4e57.jsonl     {"point":3,"events":81260,"run":{"seed":2, .. },"flows":[ .. ]}
//!                                             {"point":3,"events":80977,"run":{"seed":3, ..
//! ```
//!
//! The name has a hash of the program, of all points and of the captures, so a changed plan starts from the beginning.
//! A line that the end of the process has truncated does not count. The files are deleted when the report is written.
//! Runs with captures are not stored.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use weir_live::mutex::lock;

use crate::error::Error;
use crate::options::RunOptions;
use crate::programs::Programs;
use crate::results::{FlowRow, OneRun};
use crate::scenario::Plan;

/// Prefix of the names of these files.
const PREFIX: &str = "unfinished-";

/// The finished runs of a plan.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    file: Option<Mutex<File>>,
    /// Runs that earlier calls finished, by point and seed, each with its number of events.
    earlier: Mutex<HashMap<(usize, u64), (OneRun, u64)>>,
}

/// A line: the borrowed form is written, the owned form is read.
#[derive(Serialize, Deserialize)]
struct Line<R, F> {
    point: usize,
    events: u64,
    run: R,
    flows: F,
}

impl Finished {
    /// Reads the runs that earlier calls stored in the folder `options.keep`, and stores further runs there. Without
    /// such a folder it stores nothing.
    pub(crate) fn open(plan: &Plan, options: &RunOptions) -> Result<Self, Error> {
        let Some(folder) = &options.keep else {
            return Ok(Self::default());
        };
        let failed = |e| Error::io(&format!("cannot store runs in {}", folder.display()))(e);
        let name = format!(
            "{PREFIX}{:016x}.jsonl",
            hash(plan, options).map_err(failed)?
        );
        let mut open = File::options();
        open.read(true).append(true).create(true);
        let mut file = open.open(folder.join(name)).map_err(failed)?;
        if file.try_lock().is_err() {
            let why = "another process is running the same scenario with this output folder";
            return Err(failed(io::Error::other(why)));
        }
        let mut earlier = read(&mut file).map_err(failed)?;
        let (runs, first) = options.runs_of(plan);
        earlier.retain(|(_, seed), _| seed.wrapping_sub(first) < runs);
        Ok(Self {
            file: Some(Mutex::new(file)),
            earlier: Mutex::new(earlier),
        })
    }

    /// A note for the results if earlier calls have finished some of these runs. Call it before [`Self::take`].
    pub(crate) fn note(&self, runs: usize) -> Option<String> {
        let earlier = lock(&self.earlier).len();
        (earlier > 0).then(|| {
            format!("an earlier call finished {earlier} of the {runs} runs; the times exclude them")
        })
    }

    /// Takes a run that an earlier call finished, and its number of events.
    pub(crate) fn take(&self, point: usize, seed: u64) -> Option<(OneRun, u64)> {
        lock(&self.earlier).remove(&(point, seed))
    }

    /// Stores a finished run, unless it has captures.
    pub(crate) fn add(&self, point: usize, run: &OneRun, events: u64) -> Result<(), Error> {
        let Some(file) = self.file.as_ref().filter(|_| run.captures.is_empty()) else {
            return Ok(());
        };
        let flows = &run.flows;
        let line = Line {
            point,
            events,
            run,
            flows,
        };
        let text = serde_json::to_string(&line).map_err(io::Error::from);
        text.and_then(|text| lock(file).write_all((text + "\n").as_bytes()))
            .map_err(Error::io("cannot store a finished run"))
    }
}

/// Removes the finished runs in a folder, once the report contains them.
pub fn forget(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(".jsonl") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Reads the complete lines of a file, and truncates the file behind them.
fn read(file: &mut File) -> io::Result<HashMap<(usize, u64), (OneRun, u64)>> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let mut runs = HashMap::new();
    let mut whole = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Ok(read) = serde_json::from_slice::<Line<OneRun, Vec<FlowRow>>>(line) else {
            break;
        };
        if !line.ends_with(b"\n") {
            break;
        }
        whole += line.len() as u64;
        let run = OneRun {
            flows: read.flows,
            ..read.run
        };
        runs.insert((read.point, run.seed), (run, read.events));
    }
    file.set_len(whole)?;
    file.seek(SeekFrom::End(0))?;
    Ok(runs)
}

/// A hash of the inputs that determine the results: the program, the habitat, the points, the captures.
fn hash(plan: &Plan, options: &RunOptions) -> io::Result<u64> {
    let programs = Programs::new(options.executable.as_deref()).map_err(io::Error::other)?;
    let mut hasher = DefaultHasher::new();
    let started = ["router", "fe"].map(|command| programs.with(command).ok()); // a simulation starts neither
    for file in started
        .into_iter()
        .flatten()
        .chain([programs.own().to_owned()])
    {
        let file = fs::metadata(file)?;
        (file.len(), file.modified()?).hash(&mut hasher);
    }
    options.on.word().hash(&mut hasher);
    format!("{:?}", (&plan.points, &options.captures)).hash(&mut hasher);
    Ok(hasher.finish())
}
