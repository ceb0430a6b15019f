//! A port's queue discipline: its kind, and the parameters of that kind.

use weir_base::setting::Scalar;
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_model::{ComponentPath, Fault};

/// The discipline of a port that names none: fair, short queues without anything to set.
pub const KIND_DEFAULT: &str = "fq_codel";

/// Why a single value cannot be a discipline, and what to write instead.
pub(crate) fn not_a_table(value: &Scalar) -> String {
    let table = |kind: &str| format!("write discipline = {{ kind = \"{kind}\" }}");
    let Scalar::Text(kind) = value else {
        let instead = table(KIND_DEFAULT);
        return format!("`discipline` is {value}, but must be a table: {instead}");
    };
    match Spec::check(kind, []) {
        Err(error) => {
            let near = match &error {
                SpecError::UnknownKind { nearest, .. } => *nearest,
                SpecError::Setting(_) => None,
            };
            let instead = table(near.unwrap_or(KIND_DEFAULT));
            format!("{error} (a discipline is a table: {instead})")
        }
        Ok(_) => format!(
            "`discipline` is {value}, but must be a table: {}",
            table(kind)
        ),
    }
}

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
