//! Read requests: a component of any class, a class in the FE's own presentation, and the running configuration.

use weir_base::Instant;
use weir_base::setting::{did_you_mean, nearest};
use weir_lfb::class::Block;
use weir_lfb::class::queues::QUEUES;
use weir_lfb::named::{Instance, Named};
use weir_lfb::section;
use weir_library::owner;
use weir_model::class::Type;
use weir_model::{Class, Component, ComponentPath, ElementPath, Value};
use weir_protocol::wire::{Content, Id, OperationKind, PathData, WireError};

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, State};
use super::resolved::Resolved;
use super::sync::Paths;
use crate::contract::{Answer, Refusal, Ticket};
use crate::leaf::{Leaf, failure_in_words, joined};
use crate::settings::{self, BlockId};

impl Control {
    /// The FE with this name.
    pub(super) fn named(&self, name: &str) -> Result<&Fe, Refusal> {
        let fe = self.names.get(name).and_then(|id| self.fes.get(id));
        fe.ok_or_else(|| {
            let near = did_you_mean(nearest(name, self.names()));
            Refusal::NotFound(format!("there is no FE `{name}`{near}"))
        })
    }

    /// The FE with this name, if it is associated and the CE knows its LFBs.
    fn present(&self, name: &str) -> Result<&Fe, Refusal> {
        let fe = self.named(name)?;
        match &fe.state {
            State::Away(why) => Err(Refusal::Silent(format!(
                "the FE `{name}` is not associated: {why}"
            ))),
            State::Restoring if fe.directory.blocks.is_empty() => Err(Refusal::Silent(format!(
                "the FE `{name}` has just associated; retry shortly"
            ))),
            _ => Ok(fe),
        }
    }

    /// Resolves the path that an operator gave, in today's form or in that of the previous release.
    pub(super) fn resolve(&self, fe: &Fe, path: &ComponentPath) -> Result<Resolved, Refusal> {
        let path = &section::renamed(path).unwrap_or_else(|| path.clone());
        let wrong = |why: String| Refusal::NotFound(format!("{}:{path}: {why}", fe.name));
        let segments = path.segments();
        let (section, name, rest) = section::ROUTER.enter(&segments);
        let (block, words) = match &segments[..] {
            [class, instance, words @ ..] if section.key.is_empty() => {
                let found = self.codec.find(class);
                let class = found.ok_or_else(|| wrong(self.unknown(class)))?.id;
                let number = instance.parse();
                let number = number.or_else(|_| instance_of(fe, owner(class), instance));
                ((class, number.map_err(wrong)?), words)
            }
            _ => {
                let number = match name {
                    Some(name) => {
                        let kind = Instance::find(path).map(|instance| instance.kind);
                        instance_of(fe, kind, name).map_err(wrong)?
                    }
                    None if section.has_instances => {
                        return Err(wrong(format!("name an instance, like {path}.wan")));
                    }
                    None => 1,
                };
                let classes = (section.classes)();
                let is_here =
                    |class: &&Class| classes.len() == 1 || fe.directory.has((class.id, number));
                match (rest, classes.iter().find(is_here)) {
                    (["kind"], _) if !section.kind_default.is_empty() => {
                        ((QUEUES.class.id, number), &["discipline"][..])
                    }
                    (_, Some(class)) => ((class.id, number), rest),
                    (_, None) => return Err(wrong("this discipline is unknown".to_owned())),
                }
            }
        };
        let class = self.codec.class(block.0).ok_or(Refusal::Busy)?;
        if fe.is_associated() && !fe.directory.blocks.is_empty() && !fe.directory.has(block) {
            let all = fe.directory.instances(class.id).map(|n| n.to_string());
            let all: Vec<_> = all.collect();
            let has = if all.is_empty() {
                "no LFB of this class".to_owned()
            } else {
                format!("instances {}", all.join(", "))
            };
            return Err(wrong(format!("{}: the FE has {has}", class.short_name())));
        }
        let way = class.way(words).map_err(|error| match segments[..] {
            [word] => wrong(self.unknown(word)),
            _ => wrong(error.to_string()),
        })?;
        Ok(Resolved { block, way })
    }

    /// Why no path starts with this word.
    fn unknown(&self, word: &str) -> String {
        let sections = section::ROUTER.sections.iter().map(|section| section.key);
        let root = (section::ROUTER.classes)();
        let components: Vec<_> = root.iter().flat_map(Class::all).map(|c| c.name).collect();
        let known = sections.chain(components).chain(self.codec.classes());
        let near = did_you_mean(nearest(word, known.filter(|known| *known != word)));
        format!(
            "there is no component `{word}`; a path is like port.wan.rate, or starts with a class and an instance, like \
             FEObject.1{near}"
        )
    }

    /// The path of a component of an FE, for people.
    pub(super) fn path_of(&self, fe: Id, block: BlockId, ids: &[u32]) -> ElementPath {
        let name = self.fes.get(&fe).and_then(|fe| fe.directory.name_of(block));
        let instance = name.cloned().unwrap_or_else(|| block.1.to_string());
        let path = ComponentPath::new([self.codec.name(block.0), instance])
            .below(self.codec.names(block.0, ids).segments());
        ElementPath {
            fe: self.shown(fe),
            path: section::renamed(&path).unwrap_or(path),
        }
    }

    pub(super) fn get(&mut self, now: Instant, ticket: Ticket, at: &ElementPath) {
        let found = self.present(&at.fe).and_then(|fe| {
            let resolved = self.resolve(fe, &at.path)?;
            let path = resolved.path().map_err(Refusal::Wrong)?;
            Ok((fe.id, resolved, path))
        });
        match found {
            Ok((fe, resolved, path)) => {
                let paths = vec![(resolved.block, OperationKind::Get, path)];
                self.query(now, fe, paths, Then::Value(ticket, fe, resolved));
            }
            Err(refusal) => self.answer(ticket, Err(refusal)),
        }
    }

    pub(super) fn got(&mut self, ticket: Ticket, fe: Id, resolved: &Resolved, answers: Answers) {
        let value = answers.and_then(|leaves| self.value(fe, resolved, &leaves));
        self.answer(ticket, value.map(Answer::Value));
    }

    /// Decodes the value of a component, which may have arrived in parts.
    pub(super) fn value(
        &self,
        fe: Id,
        resolved: &Resolved,
        leaves: &[Leaf],
    ) -> Result<Value, Refusal> {
        let mut values = Vec::new();
        for leaf in leaves {
            match &leaf.content {
                Content::Outcome(outcome) if outcome.is_success() => {} // the end of a partial answer
                Content::Outcome(outcome) => {
                    let path = self.path_of(fe, leaf.block, &leaf.ids);
                    let why = failure_in_words(outcome);
                    return Err(Refusal::NotFound(format!("{path}: {why}")));
                }
                content => {
                    let value = self.codec.value(resolved.block.0, &leaf.ids, content);
                    values.push(value.map_err(Refusal::Silent)?);
                }
            }
        }
        let missing = || Refusal::Silent("the answer has no value".to_owned());
        values.into_iter().reduce(joined).ok_or_else(missing)
    }

    pub(super) fn read_class(&mut self, now: Instant, ticket: Ticket, fe: &str, class: &str) {
        let block = Block::find(class)
            .ok_or_else(|| Refusal::NotFound(format!("there is no table `{class}`")));
        let found = block.and_then(|block| {
            let fe = self.present(fe)?;
            let paths = table_paths(fe, &block.class);
            let paths = paths.map_err(|error| Refusal::Wrong(error.to_string()))?;
            Ok((fe.id, paths, &block.class))
        });
        match found {
            Ok((fe, paths, class)) => self.query(now, fe, paths, Then::Rows(ticket, fe, class)),
            Err(refusal) => self.answer(ticket, Err(refusal)),
        }
    }

    pub(super) fn got_rows(&mut self, ticket: Ticket, fe: Id, class: &Class, answers: Answers) {
        let answer = answers.and_then(|leaves| self.rows(fe, class, &leaves));
        self.answer(ticket, answer.map(Answer::Value));
    }

    /// Decodes the rows of a class, in the FE's own presentation.
    pub(super) fn rows(&self, fe: Id, class: &Class, leaves: &[Leaf]) -> Result<Value, Refusal> {
        let mut all = Vec::new();
        for leaf in leaves {
            match &leaf.content {
                Content::Outcome(outcome) if outcome.is_success() => {}
                Content::Outcome(outcome) => {
                    let why = format!(
                        "{}: {}: {}",
                        self.shown(fe),
                        class.name,
                        failure_in_words(outcome)
                    );
                    return Err(Refusal::Silent(why));
                }
                content => {
                    let value = self.codec.value(leaf.block.0, &leaf.ids, content);
                    match (value.map_err(Refusal::Silent)?, leaf.ids.is_empty()) {
                        (Value::List(rows), false) => all.extend(rows),
                        (Value::Struct(rows), false) => {
                            all.extend(rows.into_iter().map(|(_, row)| row))
                        }
                        (row, _) => all.push(row),
                    }
                }
            }
        }
        let shown = all.iter().map(|row| as_declared(class.components, row));
        match class.key {
            [] => shown.reduce(|first, _| first).ok_or_else(|| {
                Refusal::Silent(format!("{}: {} has no value", self.shown(fe), class.name))
            }),
            _ => Ok(Value::List(shown.collect())),
        }
    }

    pub(super) fn read_config(&mut self, now: Instant, ticket: Ticket, fe: &str) {
        let found = self.present(fe).and_then(|fe| {
            let paths = self.reads(fe).map_err(Refusal::Wrong)?;
            Ok((fe.id, paths))
        });
        match found {
            Ok((fe, paths)) => self.query(now, fe, paths, Then::Config(ticket, fe)),
            Err(refusal) => self.answer(ticket, Err(refusal)),
        }
    }

    pub(super) fn got_config(&mut self, ticket: Ticket, id: Id, answers: Answers) {
        let answer = answers.and_then(|leaves| {
            let gone = || Refusal::Silent(format!("{} is no longer configured", self.shown(id)));
            let mut directory = self.fes.get(&id).ok_or_else(gone)?.directory.clone();
            let plan = settings::in_force(&self.codec, &mut directory, &leaves);
            Ok(Answer::Config(plan.map_err(Refusal::Silent)?.shown()))
        });
        self.answer(ticket, answer);
    }
}

/// The paths of a whole table of an FE.
pub(super) fn table_paths(fe: &Fe, class: &Class) -> Result<Paths, WireError> {
    let (instances, ids): (Vec<u32>, Vec<u32>) = match (class.key, class.has_instances) {
        ([], _) => (vec![1], vec![]),
        (_, true) => (fe.directory.instances(class.id).collect(), vec![]),
        (_, false) => (vec![1], vec![settings::ROWS]),
    };
    let path = |instance| {
        let path = PathData::bare(ids.clone())?;
        Ok(((class.id, instance), OperationKind::Get, path))
    };
    instances.into_iter().map(path).collect()
}

/// The instance with this name, among the sections of a kind.
fn instance_of(fe: &Fe, kind: Option<Named>, name: &str) -> Result<u32, String> {
    let number = kind.and_then(|kind| fe.directory.number(kind, name));
    number.ok_or_else(|| {
        let known = kind.into_iter().flat_map(|kind| fe.directory.of_kind(kind));
        let known: Vec<_> = known.map(|(_, name)| name).collect();
        let remedy = match (kind, &known[..]) {
            (None, _) => "; it must be a number".to_owned(),
            (Some(_), []) => String::new(),
            (Some(_), known) => format!("; it must be one of {}", known.join(", ")),
        };
        let word = kind.map_or("instance", Named::word);
        format!("there is no {word} `{name}`{remedy}")
    })
}

/// A value with exactly the declared members, in their declared types.
pub(super) fn as_declared(members: &'static [Component], value: &Value) -> Value {
    Component::values(members, |member| {
        let value = value.get(member.name).unwrap_or(&Value::Absent);
        of_type(&member.kind, value)
    })
}

fn of_type(kind: &Type, value: &Value) -> Value {
    match (kind, value) {
        (Type::Struct(members), Value::Struct(_)) => as_declared(members, value),
        (Type::Rows(members), Value::List(rows)) => {
            Value::List(rows.iter().map(|row| as_declared(members, row)).collect())
        }
        (Type::Map(kind), Value::Struct(pairs)) => {
            let pair =
                |(name, value): &(_, Value)| (std::borrow::Cow::clone(name), of_type(kind, value));
            Value::Struct(pairs.iter().map(pair).collect())
        }
        (Type::Setting(None), Value::Text(text)) => plain(text),
        _ => value.clone(),
    }
}

/// Converts a text that is a number or a boolean to that type.
fn plain(text: &str) -> Value {
    let number = || text.parse().map(Value::Whole).ok();
    let real = || text.parse().map(Value::Real).ok();
    let flag = text.parse().map(Value::Flag).ok();
    flag.or_else(number)
        .or_else(real)
        .unwrap_or_else(|| text.into())
}
