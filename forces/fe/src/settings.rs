//! Settings of the router: positions of components in its configuration, and operations on them.

use weir_base::setting::{Parameter, Scalar};
use weir_lfb::named::Named;
use weir_model::{Change, Operation, Value, typed};
use weir_protocol::wire::ResultCode;

use crate::blocks::Block;
use crate::request::{Failure, Step};

/// Sets the kind of a port's discipline; `None` resets it to the default.
pub(crate) fn kind(of: &str, kind: Option<&str>) -> Operation {
    let path = Named::Port.path(of).join("discipline").join("kind");
    match kind {
        Some(kind) => Operation::Set(Change::new(path, Scalar::Text(kind.to_owned()))),
        None => Operation::Delete(path),
    }
}

/// Sets a parameter; `None` resets it to its default.
pub(crate) fn operation(
    block: &Block,
    of: Option<&str>,
    parameter: &Parameter,
    value: Option<&Value>,
) -> Result<Operation, Failure> {
    let path = block.path(of).unwrap_or_default().join(parameter.name);
    let Some(value) = value else {
        return Ok(Operation::Delete(path));
    };
    let out_of_range =
        |error| Failure::new(ResultCode::ValueOutOfRange, format!("{path}: {error}"));
    typed::setting(parameter, value).map_err(|e| out_of_range(e.to_string()))?;
    let scalar = typed::scalar(parameter, value).map_err(|e| out_of_range(e.to_string()))?;
    Ok(Operation::Set(Change::new(path.clone(), scalar)))
}

/// The IDs of a path without keys, because settings are not in tables.
pub(crate) fn ids(steps: &[Step]) -> Result<Vec<u32>, Failure> {
    let id = |step: &Step| match step {
        Step::Id(id) => Ok(*id),
        _ => {
            let why = "the rows of this table can be read, but not set";
            Err(Failure::new(ResultCode::ReadOnly, why))
        }
    };
    steps.iter().map(id).collect()
}
