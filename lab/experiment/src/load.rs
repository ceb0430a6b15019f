//! The load tests of the transports between control and forwarding elements ([`weir_forces_load`]), with their results
//! as points.

use weir_forces_load::associations::{self, Bench, Row};
use weir_forces_load::plan::{Load, Point};
use weir_forces_load::run;

use crate::cpu::undisturbed;
use crate::error::Error;
use crate::folder::Folder;
use crate::options::RunOptions;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::results::{OneRun, PointResult};

/// Runs load tests.
#[derive(Debug)]
pub struct Runner {
    points: run::Runner,
    progress: Progress,
}

impl Runner {
    /// A runner. The processes of its tests run the executable in `options`, or this one.
    pub fn new(options: &RunOptions) -> Result<Self, Error> {
        let programs = Programs::new(options.executable.as_deref())?;
        Ok(Self {
            points: run::Runner::new(programs.own().to_owned(), options.interrupt.clone()),
            progress: Progress::new(options.progress),
        })
    }

    /// Number of single tests performed.
    pub fn tests(&self) -> u64 {
        self.points.tests
    }

    /// Runs all points of a load, one after another. The runs of a point are spread over the whole time, so that a
    /// disturbance of the machine does not affect only one point. A preview has one run of each point.
    pub fn run(&mut self, load: &Load, is_quick: bool) -> Result<Vec<PointResult>, Error> {
        let mut points = load.points();
        if is_quick {
            points.iter_mut().for_each(Point::preview);
        }
        let empty = |point: &Point| PointResult {
            variant: Some(point.form.to_string()),
            set: point.place(),
            ..PointResult::default()
        };
        let mut results: Vec<PointResult> = points.iter().map(empty).collect();
        let runs = if is_quick { 1 } else { load.runs };
        for seed in 1..=runs {
            for (place, (point, result)) in points.iter().zip(&mut results).enumerate() {
                let at = format!("{} of {}, run {seed} of {runs}", place + 1, points.len());
                self.progress.update(&format!("{}: point {at}", load.name));
                let metrics = undisturbed(|| self.points.measure(point))?;
                result.runs.push(OneRun {
                    seed,
                    metrics,
                    ..OneRun::default()
                });
            }
        }
        self.progress.clear();
        Ok(results)
    }
}

/// Runs many FEs on one CE; their processes run this program.
pub fn bench(options: &Bench) -> Result<Vec<Row>, Error> {
    let programs = Programs::new(None)?;
    let folder = Folder::new().map_err(Error::io("cannot create a private folder"))?;
    Ok(associations::bench(programs.own(), folder.path(), options)?)
}
