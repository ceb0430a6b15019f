//! Schemas of our own classes, derived from their declarations in `weir_model`.

use weir_base::setting::{Kind as SettingKind, Parameter, Scalar};
use weir_model::Value;
use weir_model::class::{self, Type};
use weir_model::typed;

use super::{
    Access, Array, Class, Component, EXTENSION, Event, Integer, Key, Kind, Named, Number, Size,
    Step,
};

/// First ID of the event paths of our classes. None of our components has this ID.
pub const EVENTS_BASE: u32 = 60;
/// ID of the component that holds the rows of a class whose rows are not instances.
const ROWS: u32 = 1;

pub(super) fn class(class: &weir_model::Class) -> Class {
    let all = class.all();
    let parameter = |id| class.parameters.iter().find(|parameter| parameter.id == id);
    let components = all.iter().map(|c| component(c, parameter(c.id)));
    let mut components: Vec<_> = components.collect();
    rename_gauges(class, &mut components);
    // Capabilities follow the components, as in a library.
    components.sort_by_key(|component| component.is_capability);
    let is_table = !class.key.is_empty() && !class.has_instances;
    let event = |event: &class::Event| Event {
        id: event.id,
        name: event.name.to_owned(),
        about: event.about.to_owned(),
        target: steps(&all, event.target, is_table),
        condition: event.condition,
        reports: event
            .reports
            .iter()
            .map(|name| steps(&all, name, is_table))
            .collect(),
    };
    Class {
        id: class.id,
        name: format!("{EXTENSION}{}", class.name),
        version: class.version.to_owned(),
        about: class.about.to_owned(),
        events_base: (!class.events.is_empty()).then_some(EVENTS_BASE),
        events: class.events.iter().map(event).collect(),
        components: if is_table {
            vec![table(class, components)]
        } else {
            components
        },
    }
}

/// Renames a gauge that has the same name as its parameter, because a peer needs unique names within a class.
fn rename_gauges(class: &weir_model::Class, components: &mut [Component]) {
    for gauge in class.gauges {
        let is_parameter = class.parameters.iter().any(|p| p.name == gauge.name);
        let found = components
            .iter_mut()
            .find(|component| component.id == gauge.id);
        if let (true, Some(component)) = (is_parameter, found) {
            component.name += if gauge.counts { "_count" } else { "_now" };
        }
    }
}

/// Makes one component of the rows of a class.
fn table(class: &weir_model::Class, members: Vec<Component>) -> Component {
    let id_of = |name: &&str| {
        members
            .iter()
            .find(|member| member.name == *name)
            .map(|m| vec![m.id])
    };
    let keys = vec![Key {
        id: 1,
        fields: class.key.iter().filter_map(id_of).collect(),
    }];
    Component {
        about: "The rows.".to_owned(),
        ..Component::read_only(ROWS, "rows", array(Kind::Struct(members), keys))
    }
}

/// Resolves names with dots between them to the steps of a path.
fn steps(members: &[class::Component], names: &str, is_table: bool) -> Vec<Step> {
    let mut steps = if is_table {
        vec![Step::Member(ROWS), Step::AnyRow]
    } else {
        Vec::new()
    };
    let mut members = members;
    for name in names.split('.') {
        let Some(member) = members.iter().find(|member| member.name == name) else {
            break;
        };
        steps.push(Step::Member(member.id));
        members = member.kind.members();
    }
    steps
}

/// Converts a component. A component that is a parameter gets the parameter's type, which is more precise than text.
fn component(component: &class::Component, parameter: Option<&Parameter>) -> Component {
    let kind = parameter.map_or(component.kind, |parameter| {
        Type::Setting(Some(parameter.kind))
    });
    let unit = unit(&kind);
    Component {
        id: component.id,
        name: component.name.to_owned(),
        about: if unit.is_empty() {
            component.about.to_owned()
        } else {
            format!("{} ({unit})", component.about)
        },
        access: match component.access {
            class::Access::Capability | class::Access::Read => Access::ReadOnly,
            class::Access::ReadWrite => Access::ReadWrite,
        },
        is_capability: component.access == class::Access::Capability,
        optional: component.optional,
        kind: of_type(&kind),
        default: parameter.and_then(default),
    }
}

/// The unit of a number, or the part of a setting's type that a layout cannot express.
fn unit(kind: &Type) -> String {
    match kind {
        Type::Gauge(unit) | Type::Counter(unit) | Type::Real(unit) => {
            unit.to_string().trim_start_matches(", ").to_owned()
        }
        Type::Setting(Some(SettingKind::Rate(..))) => "bit/s".to_owned(),
        Type::Setting(Some(SettingKind::Span(..))) => "nanoseconds".to_owned(),
        Type::Setting(Some(SettingKind::Bytes(..))) => "bytes".to_owned(),
        Type::Setting(Some(
            kind @ (SettingKind::Ratio(..)
            | SettingKind::RatioOrWord(..)
            | SettingKind::RateOrWord(..)
            | SettingKind::BytesOrWords(..)
            | SettingKind::PacketsRateOrShare(..)),
        )) => kind.to_string(),
        _ => String::new(),
    }
}

fn of_type(kind: &Type) -> Kind {
    match kind {
        Type::Text => Kind::Text(None),
        Type::Flag => Kind::Flag,
        Type::Gauge(_) | Type::Counter(_) => Kind::Number(Integer::Uint64.into()),
        Type::Real(_) => Kind::Real64,
        Type::Setting(None) => Kind::Text(None),
        Type::Setting(Some(kind)) => of_setting(kind),
        Type::Struct(members) => Kind::Struct(of_members(members)),
        Type::Rows(members) => array(Kind::Struct(of_members(members)), Vec::new()),
        Type::Map(kind) => map(of_type(kind)),
    }
}

fn of_members(members: &[class::Component]) -> Vec<Component> {
    members
        .iter()
        .map(|member| component(member, None))
        .collect()
}

fn of_setting(kind: &SettingKind) -> Kind {
    let number = |least: u64, most: u64| {
        Kind::Number(Number {
            ranges: vec![(least.into(), most.into())],
            ..Integer::Uint64.into()
        })
    };
    match kind {
        SettingKind::Count(least, most) => number(*least, *most),
        SettingKind::Rate(least, most) => number(least.as_bps(), most.as_bps()),
        SettingKind::Span(least, most) => number(least.as_nanos(), most.as_nanos()),
        SettingKind::Bytes(least, most) => number(least.0, most.0),
        SettingKind::Ratio(..) => Kind::Real64,
        SettingKind::Flag => Kind::Flag,
        SettingKind::Word(words) => Kind::Number(Number {
            ranges: vec![(0, words.len() as i128 - 1)],
            names: words
                .iter()
                .zip(0..)
                .map(|(word, value)| Named::new(value, word))
                .collect(),
            ..Integer::Uint8.into()
        }),
        SettingKind::Text(most) => Kind::Text(u32::try_from(*most).ok()),
        SettingKind::PacketsRateOrShare(..)
        | SettingKind::RatioOrWord(..)
        | SettingKind::RateOrWord(..)
        | SettingKind::BytesOrWords(..) => Kind::Text(None),
    }
}

fn array(element: Kind, keys: Vec<Key>) -> Kind {
    Kind::Array(Box::new(Array {
        size: Size::Variable(None),
        element,
        keys,
    }))
}

/// A map from names to values, as rows with the name as key.
fn map(value: Kind) -> Kind {
    let member = |id, name, about: &str, kind| Component {
        about: about.to_owned(),
        ..Component::read_only(id, name, kind)
    };
    let members = vec![
        member(1, "name", "The name.", Kind::Text(None)),
        member(2, "value", "The value.", value),
    ];
    let key = Key {
        id: 1,
        fields: vec![vec![1]],
    };
    array(Kind::Struct(members), vec![key])
}

/// Default value of a parameter, in the form that a library needs: a plain number in the unit of the component.
fn default(parameter: &Parameter) -> Option<String> {
    let setting = parameter
        .check(&Scalar::Text(parameter.default.to_owned()))
        .ok()?;
    let text = match (parameter.kind, typed::in_force(parameter, &setting)) {
        (SettingKind::Word(words), Value::Text(word)) => {
            words.iter().position(|known| *known == word)?.to_string()
        }
        (_, Value::Text(text)) => text,
        (_, Value::Whole(number)) => number.to_string(),
        (_, Value::Real(number)) => number.to_string(),
        (_, Value::Flag(on)) => on.to_string(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}
