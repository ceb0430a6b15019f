//! The path of a component or member of a class, by names or by IDs (RFC 5812, section 3.1; RFC 5810, section 7.1).
//!
//! ```text
//!   ports / wan / received / packets      names
//!   0x00f70102 / wan / 7 / 1              the same by IDs
//!   class, instance, component, member
//! ```
//!
//! Classes declare both names and IDs, so a path by names and a path by IDs are two forms of one path.

use std::fmt;

use weir_base::setting::{did_you_mean, nearest};

use crate::class::Type;
use crate::fault::ResultCode;
use crate::{Class, Component, ComponentPath, Fault};

/// A path by names.
pub type NamePath = ClassPath<String>;

/// A path by IDs, as a control element sends it.
pub type IdPath = ClassPath<u32>;

/// The path of an instance of a class, or of one of its components or members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassPath<L> {
    /// Name or ID of the class.
    pub class: L,
    /// Values of the key that identify the instance; empty for a class with a single instance.
    pub instance: Vec<String>,
    /// Steps from the instance to the component or member; empty for the whole instance.
    pub steps: Vec<Step<L>>,
}

/// One step of a path below an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<L> {
    /// To a component, or to a member of a structure or of a row.
    Member(L),
    /// To a row of a table, by its number from 0.
    Row(u32),
    /// To a value of a map, by its key.
    Key(String),
}

/// A name or an ID.
pub trait Label: fmt::Display {
    /// The label of a class.
    fn of_class(class: &Class) -> Self;
    /// The label of a component.
    fn of_component(component: &Component) -> Self;
    /// Whether a component has this label.
    fn is_of(&self, component: &Component) -> bool;
}

impl Label for String {
    fn of_class(class: &Class) -> Self {
        class.name.to_owned()
    }

    fn of_component(component: &Component) -> Self {
        component.name.to_owned()
    }

    fn is_of(&self, component: &Component) -> bool {
        self == component.name
    }
}

impl Label for u32 {
    fn of_class(class: &Class) -> Self {
        class.id
    }

    fn of_component(component: &Component) -> Self {
        component.id
    }

    fn is_of(&self, component: &Component) -> bool {
        *self == component.id
    }
}

impl<L: Label + PartialEq> ClassPath<L> {
    /// The same path in names or in IDs. Translation needs the declarations only: it checks the class, the components
    /// and the kinds of the steps, but not whether the instance, a row or a key exists.
    pub fn translate<M: Label>(&self, classes: &[Class]) -> Result<ClassPath<M>, Fault> {
        let class = classes
            .iter()
            .find(|class| L::of_class(class) == self.class);
        let class = class.ok_or_else(|| {
            let fault = Fault::new(self.shown(), format!("there is no class {}", self.class));
            fault.code(ResultCode::ClassUnknown)
        })?;
        let mut level = Level::of_class(class);
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let invalid = |why| Fault::new(self.shown(), why).code(ResultCode::InvalidPath);
            let (translated, below) = level.enter(step).map_err(invalid)?;
            steps.push(translated);
            level = below;
        }
        Ok(ClassPath {
            class: M::of_class(class),
            instance: self.instance.clone(),
            steps,
        })
    }

    /// The path for a fault.
    fn shown(&self) -> ComponentPath {
        let steps = self.steps.iter().map(Step::to_string);
        let instance = self.instance.iter().cloned();
        ComponentPath::new(
            [self.class.to_string()]
                .into_iter()
                .chain(instance)
                .chain(steps),
        )
    }
}

impl Class {
    /// Parses steps separated by slashes; the error is a sentence. A number is the ID of a component or member, or
    /// the number of a row.
    pub(crate) fn steps(&self, text: &str) -> Result<Vec<Step<String>>, String> {
        let mut level = Level::of_class(self);
        let mut steps = Vec::new();
        for word in text.split('/').filter(|word| !word.is_empty()) {
            let entered = match (&level, word.parse()) {
                (Level::Rows(_), Ok(row)) => level.enter(&Step::<u32>::Row(row)),
                (Level::Map(_), _) => level.enter(&Step::<u32>::Key(word.to_owned())),
                (_, Ok(id)) => level.enter(&Step::<u32>::Member(id)),
                (_, Err(_)) => level.enter(&Step::Member(word.to_owned())),
            };
            let (step, below) = entered?;
            steps.push(step);
            level = below;
        }
        Ok(steps)
    }
}

/// The target of a step.
enum Level {
    Members(Vec<Component>),
    Rows(&'static [Component]),
    Map(&'static Type),
    /// A single value.
    Leaf,
}

impl Level {
    fn of_class(class: &Class) -> Self {
        Self::Members(class.all())
    }

    fn of_type(kind: &Type) -> Self {
        match *kind {
            Type::Struct(members) => Self::Members(members.to_vec()),
            Type::Rows(members) => Self::Rows(members),
            Type::Map(kind) => Self::Map(kind),
            _ => Self::Leaf,
        }
    }

    /// The step with its other label, and the level to which it leads.
    fn enter<L: Label, M: Label>(&self, step: &Step<L>) -> Result<(Step<M>, Self), String> {
        match (self, step) {
            (Self::Members(all), Step::Member(label)) => {
                if let Some(found) = all.iter().find(|component| label.is_of(component)) {
                    let step = Step::Member(M::of_component(found));
                    return Ok((step, Self::of_type(&found.kind)));
                }
                let names = all.iter().map(|component| component.name);
                let near = did_you_mean(nearest(&label.to_string(), names));
                Err(format!("there is no component `{label}`{near}"))
            }
            (Self::Rows(members), Step::Row(row)) => {
                Ok((Step::Row(*row), Self::Members(members.to_vec())))
            }
            (Self::Map(kind), Step::Key(key)) => Ok((Step::Key(key.clone()), Self::of_type(kind))),
            (Self::Rows(_), _) => Err(format!("`{step}` must be a row number, starting at 0")),
            _ => Err(format!("there is no component `{step}`")),
        }
    }
}

impl<L: fmt::Display> fmt::Display for Step<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(label) => label.fmt(f),
            Self::Row(row) => row.fmt(f),
            Self::Key(key) => key.fmt(f),
        }
    }
}
