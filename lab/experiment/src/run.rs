//! Runs a scenario in the habitat that its options name.

use std::time::Instant as Wall;

use crate::cpu::cpu_seconds;
use crate::error::Error;
use crate::habitat::Habitat;
use crate::namespaces;
use crate::options::RunOptions;
use crate::results::RunResult;
use crate::simulation;

/// Checks that the habitat can run the scenario, as far as this is known before the run.
pub(crate) fn check(options: &RunOptions) -> Result<(), Error> {
    let plan = options.plan()?;
    match options.on {
        Habitat::Lab => namespaces::check(&plan).map(drop),
        Habitat::Sim => simulation::check(&plan, options),
    }
}

/// Runs a scenario. In the lab, unless the user is root, it must be called before the process has a second thread,
/// because it then enters a user namespace.
pub fn run(options: &RunOptions) -> Result<RunResult, Error> {
    let (began, cpu_before) = (Wall::now(), cpu_seconds());
    let plan = options.plan()?;
    let result = match options.on {
        Habitat::Lab if !options.captures.is_empty() => {
            let why = "only the simulator captures links; use `weir capture` on a router";
            Err(Error::unsupported(Habitat::Lab, why))
        }
        Habitat::Lab => namespaces::run(&plan, options),
        Habitat::Sim => simulation::run(&plan, options),
    }?;
    Ok(RunResult {
        cpu_s: cpu_seconds() - cpu_before,
        wall_s: began.elapsed().as_secs_f64(),
        ..result
    })
}
