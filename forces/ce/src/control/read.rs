//! Read requests: a component of any class, a class in the FE's own presentation, and the running configuration.

use weir_base::Instant;
use weir_base::setting::{did_you_mean, nearest};
use weir_lfb::class::Block;
use weir_library::owner;
use weir_model::class::Type;
use weir_model::{Class, Component, Value};
use weir_protocol::wire::{Content, Id, OperationKind, PathData};

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, State};
use super::resolved::Resolved;
use crate::contract::{Answer, Place, Refusal, Ticket};
use crate::leaf::{Leaf, failure_in_words};
use crate::settings;

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

    /// Resolves the address that an operator gave.
    pub(super) fn resolve(&self, fe: &Fe, place: &Place) -> Result<Resolved, Refusal> {
        let class = self.codec.find(&place.class).map_err(Refusal::NotFound)?;
        let instance = match place.instance.parse() {
            Ok(instance) => instance,
            Err(_) => {
                let owner = owner(class.id);
                let number = owner.and_then(|kind| fe.directory.number(kind, &place.instance));
                number.ok_or_else(|| {
                    let names = owner
                        .into_iter()
                        .flat_map(|kind| fe.directory.of_kind(kind));
                    let names: Vec<_> = names.map(|(_, name)| name).collect();
                    let names = if names.is_empty() {
                        String::new()
                    } else {
                        format!(", or one of {}", names.join(", "))
                    };
                    let (class, instance) = (class.short_name(), &place.instance);
                    let why =
                        format!("{class} has no instance `{instance}`; it must be a number{names}");
                    Refusal::NotFound(why)
                })?
            }
        };
        let block = (class.id, instance);
        if fe.is_associated() && !fe.directory.blocks.is_empty() && !fe.directory.has(block) {
            let all: Vec<_> = fe
                .directory
                .instances(class.id)
                .map(|n| n.to_string())
                .collect();
            let has = if all.is_empty() {
                "no LFB of this class".to_owned()
            } else {
                format!("instances {}", all.join(", "))
            };
            let why = format!("the FE `{}` has {has}", fe.name);
            return Err(Refusal::NotFound(format!("{}: {why}", class.short_name())));
        }
        let words: Vec<&str> = place.path.iter().map(String::as_str).collect();
        let range = words.last().and_then(|word| range(word));
        let words = &words[..words.len() - usize::from(range.is_some())];
        let way = class
            .way(words)
            .map_err(|e| Refusal::NotFound(e.to_string()))?;
        Ok(Resolved { block, way, range })
    }

    pub(super) fn get(&mut self, now: Instant, ticket: Ticket, fe: &str, place: &Place) {
        let found = self.present(fe).and_then(|fe| {
            let resolved = self.resolve(fe, place)?;
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
        let value = answers.and_then(|leaves| self.value(resolved, &leaves));
        let name = self.shown(fe);
        let answer = value.map(Answer::Value).map_err(|refusal| match refusal {
            Refusal::NotFound(why) => Refusal::NotFound(format!("{name}: {why}")),
            other => other,
        });
        self.answer(ticket, answer);
    }

    /// Decodes the value of a component, which may have arrived in parts.
    pub(super) fn value(&self, resolved: &Resolved, leaves: &[Leaf]) -> Result<Value, Refusal> {
        let mut values = Vec::new();
        for leaf in leaves {
            match &leaf.content {
                Content::Outcome(outcome) if outcome.is_success() => {} // the end of a partial answer
                Content::Outcome(outcome) => {
                    let names = self.codec.names(leaf.block.0, &leaf.ids);
                    let why = failure_in_words(outcome);
                    return Err(Refusal::NotFound(format!("{names}: {why}")));
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
            let class = block.class;
            let (instances, ids): (Vec<u32>, Vec<u32>) = match (class.key, class.has_instances) {
                ([], _) => (vec![1], vec![]),
                (_, true) => (fe.directory.instances(class.id).collect(), vec![]),
                (_, false) => (vec![1], vec![settings::ROWS]),
            };
            let path = |instance| {
                let path =
                    PathData::bare(ids.clone()).map_err(|e| Refusal::Wrong(e.to_string()))?;
                Ok(((class.id, instance), OperationKind::Get, path))
            };
            let paths = instances
                .into_iter()
                .map(path)
                .collect::<Result<Vec<_>, Refusal>>()?;
            Ok((fe.id, paths, class))
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
    fn rows(&self, fe: Id, class: &Class, leaves: &[Leaf]) -> Result<Value, Refusal> {
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

/// Merges two parts of an answer.
pub(super) fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::List(mut rows), Value::List(more)) => {
            rows.extend(more);
            Value::List(rows)
        }
        (Value::Struct(mut rows), Value::Struct(more)) => {
            rows.extend(more);
            Value::Struct(rows)
        }
        (first, _) => first, // two answers to one path are an error of the FE
    }
}

/// Parses a range of rows such as `0-99`.
fn range(word: &str) -> Option<(u32, u32)> {
    let (first, last) = word.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// A value with exactly the declared members, in their declared types.
fn as_declared(members: &'static [Component], value: &Value) -> Value {
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
