//! Checks that several sections of a control element's file share.

use weir_base::setting::{Scalar, did_you_mean, nearest};
use weir_model::fault::ResultCode;
use weir_model::{Change, ComponentPath, Fault};

/// The fault of a value at `path`.
pub(crate) fn wrong(path: ComponentPath, why: impl std::fmt::Display) -> Fault {
    Fault::new(path, why).code(ResultCode::ValueOutOfRange)
}

/// Checks that a section at `path` names an FE in `fes`.
pub(crate) fn check_fe(path: &ComponentPath, fe: &str, fes: &[&str]) -> Result<(), Vec<Fault>> {
    if fes.contains(&fe) {
        return Ok(());
    }
    let near = did_you_mean(nearest(fe, fes.iter().copied()));
    Err(vec![wrong(
        path.join("fe"),
        format!("there is no FE `{fe}`{near}"),
    )])
}

/// Adds settings of the redirection that the configuration of an FE does not have.
pub(crate) fn add_missing<const N: usize>(
    desired: &mut Vec<Change>,
    settings: [(&'static str, Scalar); N],
) {
    for (name, value) in settings {
        let path = ComponentPath::new(["redirect", name]);
        if desired.iter().all(|change| change.path != path) {
            desired.push(Change::new(path, value));
        }
    }
}
