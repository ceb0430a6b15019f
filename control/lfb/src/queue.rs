//! A port's queue discipline: its kind, and the parameters of that kind.

use weir_base::setting::Scalar;
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_model::{ComponentPath, Fault};

/// The discipline of a port that names none: fair, short queues without anything to set.
pub const KIND_DEFAULT: &str = "fq_codel";

/// Checks what is asked of the discipline at `path`.
pub fn check(path: &ComponentPath, given: &[(&str, &Scalar)]) -> Result<Spec, Fault> {
    let mut kind = KIND_DEFAULT;
    for (name, value) in given {
        match (*name, value) {
            ("kind", Scalar::Text(text)) => kind = text,
            ("kind", other) => {
                let message = format!("`kind` is {other}, but must be the name of a discipline");
                return Err(Fault::new(path.join("kind"), message));
            }
            _ => {}
        }
    }
    let parameters = given.iter().filter(|(name, _)| *name != "kind");
    Spec::check(kind, parameters.map(|(name, value)| (*name, *value))).map_err(|error| {
        let component = match &error {
            SpecError::UnknownKind { .. } => "kind",
            SpecError::Setting(setting) => setting.name(),
        };
        Fault::new(path.join(component), &error)
    })
}
