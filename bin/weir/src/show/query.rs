//! The query of a table: an option for each parameter of a class.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use weir_base::setting::{Kind, Parameter};
use weir_lfb::class::classes;
use weir_model::Class;

/// The given options, as text.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(pub(super) Vec<(&'static str, String)>);

/// The parameters of all classes by name, each with the classes that have it.
fn parameters() -> BTreeMap<&'static str, Vec<(&'static Class, &'static Parameter)>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for class in classes() {
        for parameter in class.query {
            all.entry(parameter.name)
                .or_default()
                .push((class, parameter));
        }
    }
    all
}

fn option(name: &'static str, takers: &[(&Class, &Parameter)]) -> Arg {
    let is_flag = takers.iter().all(|(_, p)| p.kind == Kind::Flag);
    let is_number = takers
        .iter()
        .all(|(_, p)| matches!(p.kind, Kind::Count(..)));
    let help = |(class, p): &(&Class, &Parameter)| {
        if is_flag {
            format!("{}: {}", class.name, p.about)
        } else {
            format!("{}: {} (default: {})", class.name, p.about, p.default)
        }
    };
    let help: Vec<_> = takers.iter().map(help).collect();
    let option = Arg::new(name).long(name).help(help.join("; "));
    if is_flag {
        option.action(ArgAction::SetTrue)
    } else {
        option.value_name(if is_number { "NUMBER" } else { "VALUE" })
    }
}

impl Args for Query {
    fn augment_args(command: Command) -> Command {
        let options = parameters().into_iter();
        command.args(options.map(|(name, takers)| option(name, &takers)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Query {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |name: &'static str| match matches.try_get_one::<bool>(name) {
            Ok(on) => on.filter(|on| **on).map(|_| (name, "true".to_owned())),
            Err(_) => matches
                .get_one::<String>(name)
                .map(|text| (name, text.clone())),
        };
        Ok(Self(parameters().into_keys().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
