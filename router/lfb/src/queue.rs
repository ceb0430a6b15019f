//! A port's queue discipline: its kind, and the parameters of that kind.

use weir_base::setting::Scalar;
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_model::fault::ResultCode;
use weir_model::{Class, ComponentPath, Fault, Section};

use crate::class::disciplines;

/// The discipline of a port without a configured kind: fair to hosts and flows, with short queues, and usable without
/// tuning.
pub const KIND_DEFAULT: &str = "triple_fair";

/// The queue as a section of a configuration.
pub(crate) static SECTION: Section = Section {
    key: "discipline",
    has_instances: false,
    about: "The queue of a port: `kind` and the parameters of that kind.",
    classes: disciplines,
    kind_default: KIND_DEFAULT,
    no_value: |_, value| not_a_table(value),
    sections: &[],
};

/// Why a single value cannot be a discipline, and what to write instead.
fn not_a_table(value: &Scalar) -> String {
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

/// Checks the parameters `given` for the discipline at `path`. If the kind stays, the other parameters keep the values
/// of `before`.
pub(crate) fn check(
    path: &ComponentPath,
    before: Option<&Spec>,
    given: &[(&str, &Scalar)],
) -> Result<Spec, Fault> {
    let mut kind = before.map_or(KIND_DEFAULT, Spec::kind);
    for (_, value) in given.iter().filter(|(name, _)| *name == "kind") {
        let Scalar::Text(text) = value else {
            let message = format!("`kind` is {value}, but must be the name of a discipline");
            let fault = Fault::new(path.join("kind"), message);
            return Err(fault.code(ResultCode::ValueOutOfRange));
        };
        kind = text;
    }
    let parameters = given.iter().filter(|(name, _)| *name != "kind").copied();
    let checked = match before.filter(|before| before.kind() == kind) {
        Some(before) => before.with(parameters),
        None => Spec::check(kind, parameters),
    };
    checked.map_err(|error| match &error {
        SpecError::Setting(error) => {
            let class = disciplines().into_iter().find(|class| class.name == kind);
            Fault::of_setting(path, &class.unwrap_or(Class::PLAIN), error)
        }
        SpecError::UnknownKind { .. } => {
            Fault::new(path.join("kind"), &error).code(ResultCode::ValueOutOfRange)
        }
    })
}
