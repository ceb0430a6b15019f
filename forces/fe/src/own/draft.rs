//! Changes of a draft by a Config.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_base::Instant;
use weir_lfb::Plan;
use weir_lfb::named::Named;
use weir_lfb::queue::KIND_DEFAULT;
use weir_library::owner;
use weir_model::{Change, Operation, Value};
use weir_protocol::session::fe::Fe;
use weir_protocol::standard::FE_OBJECT;
use weir_protocol::value;
use weir_protocol::wire::{OperationKind, ResultCode};

use super::{NUMBER_MAX, Own, UNNAMED_MAX};
use crate::blocks::{self, Block, QUEUES, Source};
use crate::object::{ADMIN_DISABLE, OPER_ENABLE, SELECTORS};
use crate::request::{Failure, Item, Step};
use crate::{settings, tree};

/// Changes of a draft.
impl Own {
    /// Executes one path of a Config. Returns the resulting operations on the router.
    pub(crate) fn execute(
        &mut self,
        item: &Item,
        plan: &Plan,
        fe: &Fe,
        is_whole: bool,
    ) -> Result<Vec<Operation>, Failure> {
        let blocks = Arc::clone(&self.blocks);
        let block = blocks.get(item.class)?;
        if item.operation == OperationKind::SetProperty {
            self.instance(block, item.instance, plan)?;
            self.subscriptions.set(block, item)?;
            return Ok(Vec::new());
        }
        if block.source != Source::Object && block.source != Source::Protocol {
            debug_assert!(!matches!(block.source, Source::Fib(_)), "not of the draft");
            return self.execute_on_router(block, item, plan);
        }
        self.instance(block, item.instance, plan)?;
        if let (Source::Object, [Step::Id(SELECTORS), Step::Id(row)]) =
            (block.source, &item.steps[..])
        {
            return self.execute_selector(block, item, *row, is_whole);
        }
        let before = match block.source {
            Source::Object => self.object(plan, fe),
            _ => self.protocol.value(fe),
        };
        let after = changed(block, &before, item)?;
        match block.source {
            Source::Object => self.write_object(&before, &after, is_whole),
            _ => {
                self.protocol = self.protocol.written(&before, &after)?;
                Ok(Vec::new())
            }
        }
    }

    fn write_object(
        &mut self,
        before: &Value,
        after: &Value,
        is_whole: bool,
    ) -> Result<Vec<Operation>, Failure> {
        if after.get("FEState") != before.get("FEState") {
            self.is_disabled = match after.text("FEState") {
                Some(ADMIN_DISABLE) => true,
                Some(OPER_ENABLE) => false,
                _ => {
                    let why = "a CE may write only AdminDisable or OperEnable";
                    return Err(Failure::new(ResultCode::InvalidParameters, why));
                }
            };
        }
        self.name = after.text("FEName").unwrap_or_default().to_owned();
        let rows = selectors(after)?;
        self.write_selectors(&rows, is_whole)
    }

    /// SET or DEL of one row of LFBSelectors. A message may have thousands of these, so this function does not iterate
    /// over the other rows.
    fn execute_selector(
        &mut self,
        block: &Block,
        item: &Item,
        row: u32,
        is_whole: bool,
    ) -> Result<Vec<Operation>, Failure> {
        let known = self.selectors.get(&row).copied();
        if item.operation != OperationKind::Set {
            let why = "there is no such row";
            let known = known.ok_or_else(|| Failure::new(ResultCode::NotFound, why))?;
            let gone = self.remove(known)?;
            self.forget(&[known]);
            return Ok(gone.into_iter().collect());
        }
        let target = block.schema.component(&[SELECTORS, row])?;
        let given = blocks::checked(&target.kind, &item.content)?;
        let (_, wanted) = selector((row, &given))?;
        match known {
            Some(known) if known == wanted => {}
            Some(_) => return Err(is_other(row)),
            None if self.selectors.values().any(|block| *block == wanted) => return Err(exists()),
            None => {
                self.make(wanted, is_whole)?;
                self.selectors.insert(row, wanted);
            }
        }
        Ok(Vec::new())
    }

    /// Creates and deletes ports and other named sections, so that LFBSelectors has these rows.
    fn write_selectors(
        &mut self,
        rows: &BTreeMap<u32, (u32, u32)>,
        is_whole: bool,
    ) -> Result<Vec<Operation>, Failure> {
        let known = &self.selectors;
        let differs = |(index, block): &(&u32, &(u32, u32))| {
            known.get(index).is_some_and(|known| known != *block)
        };
        if let Some((index, _)) = rows.iter().find(differs) {
            return Err(is_other(*index));
        }
        let before: BTreeSet<_> = known.values().copied().collect();
        let after: BTreeSet<_> = rows.values().copied().collect();
        if after.len() < rows.len() {
            return Err(exists());
        }
        for block in after.difference(&before) {
            self.make(*block, is_whole)?;
        }
        let gone = &before - &after;
        let mut operations = Vec::new();
        for block in &gone {
            operations.extend(self.remove(*block)?);
        }
        self.selectors.clone_from(rows);
        self.forget(&Vec::from_iter(gone));
        Ok(operations)
    }

    /// Removes the rows of all LFBs that belong to deleted sections.
    fn forget(&mut self, gone: &[(u32, u32)]) {
        let is_of = |block: (u32, u32), (class, instance): (u32, u32)| {
            block.1 == instance && owner(block.0) == Named::of_class(class)
        };
        self.selectors
            .retain(|_, block| !gone.iter().any(|gone| is_of(*block, *gone)));
    }

    /// Creates a port, or another named section. Its name must follow.
    fn make(&mut self, (class, instance): (u32, u32), is_whole: bool) -> Result<(), Failure> {
        self.blocks.get(class)?;
        let Some(kind) = Named::of_class(class) else {
            let why = format!(
                "only {} can be created; the FE creates other LFBs with them",
                made()
            );
            return Err(Failure::new(ResultCode::NotSupported, why));
        };
        let word = kind.word();
        if !(1..=NUMBER_MAX).contains(&instance) {
            let why = format!("the instance of a {word} must be a number from 1 to {NUMBER_MAX}");
            return Err(Failure::new(ResultCode::ValueOutOfRange, why));
        }
        if !is_whole || self.unnamed.len() >= UNNAMED_MAX {
            let why = format!(
                "create a {word} in an all-or-none message, with at most {UNNAMED_MAX} instances \
                 that have no name yet"
            );
            return Err(Failure::new(ResultCode::NotSupported, why));
        }
        self.unnamed.insert((kind, instance));
        Ok(())
    }

    /// Deletes a port, or another named section; returns the operation, unless the section had no name yet.
    fn remove(&mut self, (class, instance): (u32, u32)) -> Result<Option<Operation>, Failure> {
        let Some(kind) = Named::of_class(class) else {
            let why = format!(
                "only {} can be deleted; the FE deletes other LFBs with them",
                made()
            );
            return Err(Failure::new(ResultCode::NotSupported, why));
        };
        self.unnamed.remove(&(kind, instance));
        let name = self.numbers.remove(kind, instance);
        Ok(name.map(|name| Operation::Delete(kind.path(&name))))
    }

    /// SET or DEL on an LFB of the router.
    fn execute_on_router(
        &mut self,
        block: &Block,
        item: &Item,
        plan: &Plan,
    ) -> Result<Vec<Operation>, Failure> {
        let is_set = item.operation == OperationKind::Set;
        let ids = settings::ids(&item.steps)?;
        let target = block.schema.component(&ids)?;
        let given = if is_set {
            Some(blocks::checked(&target.kind, &item.content)?)
        } else {
            None
        };
        if let ([Named::NAME], Some(Value::Text(name)), Some(kind)) =
            (&ids[..], &given, Named::of_class(item.class))
            && self.unnamed.remove(&(kind, item.instance))
        {
            self.numbers.insert(kind, item.instance, name.clone());
            return Ok(vec![Operation::Set(Change::block(kind.path(name)))]);
        }
        let of = self
            .instance(block, item.instance, plan)?
            .map(str::to_owned);
        let of = of.as_deref();
        match (&ids[..], given) {
            ([], Some(Value::Struct(members))) => {
                let members = members.iter().filter(|(_, value)| *value != Value::Absent);
                let mut operations = Vec::new();
                for (name, value) in members {
                    let component = block.schema.components.iter().find(|c| c.name == *name);
                    let id = component.map_or(0, |component| component.id);
                    operations.push(self.set(block, of, id, Some(value))?);
                }
                Ok(operations)
            }
            ([id], value) => Ok(vec![self.set(block, of, *id, value.as_ref())?]),
            (ids, _) => Err(block.refused(ids)),
        }
    }

    /// Sets a component, or resets it to its default.
    fn set(
        &mut self,
        block: &Block,
        of: Option<&str>,
        id: u32,
        value: Option<&Value>,
    ) -> Result<Operation, Failure> {
        if let (Source::Each(Some(QUEUES)), Some(port), "discipline") =
            (block.source, of, &*block.schema.names(&[id]).to_string())
        {
            let kind = value.map_or(KIND_DEFAULT, |value| match value {
                Value::Text(kind) => kind,
                _ => "",
            });
            self.kinds.insert(port.to_owned(), kind.to_owned());
            return Ok(settings::kind(port, value.map(|_| kind)));
        }
        let parameter = block.parameter(id);
        let parameter = parameter.ok_or_else(|| block.refused(&[id]))?;
        settings::operation(block, of, parameter, value)
    }

    /// Checks that every created instance has a name; the error has the class of the path to blame, and the reason.
    pub(crate) fn complete(&self) -> Result<(), (u32, Failure)> {
        match self.unnamed.first() {
            None => Ok(()),
            Some((kind, number)) => {
                let word = kind.word();
                let why = format!(
                    "{word} {number} has no name: set component 1 of it in the same message"
                );
                let failure = Failure::new(ResultCode::InvalidParameters, why);
                Err((FE_OBJECT, failure))
            }
        }
    }

    /// Applies the written state to the session.
    pub(crate) fn apply(&self, now: Instant, before: &Self, fe: &mut Fe) {
        let (new, old) = (&self.protocol, &before.protocol);
        let heartbeats = fe.set_heartbeats(new.heartbeats);
        let failover = if new.failover() == old.failover() {
            Ok(())
        } else {
            fe.set_failover(now, new.failover())
        };
        let ces = if new.ces == old.ces {
            Ok(())
        } else {
            fe.set_ces(now, &new.ces)
        };
        debug_assert!(
            heartbeats.and(failover).and(ces).is_ok(),
            "what is written is checked before"
        );
        fe.set_groups(&new.groups);
        fe.set_extended_results(new.extended_results);
    }
}

/// Names the classes whose instances a CE can create and delete.
fn made() -> String {
    let classes = Named::ALL.map(|kind| kind.class().name);
    format!("instances of {}", classes.join(", "))
}

/// The value of an object after one path of a Config.
fn changed(block: &Block, before: &Value, item: &Item) -> Result<Value, Failure> {
    let first = match item.steps.first() {
        Some(Step::Id(id)) => Some(*id),
        _ => None,
    };
    if let Some(id) = first {
        let target = block.schema.component(&[id])?;
        if !target
            .component
            .is_some_and(|component| block.can_be_written(component))
        {
            return Err(block.refused(&[id]));
        }
    }
    let mut after = before.clone();
    match item.operation {
        OperationKind::Set => tree::put(&block.kind, &mut after, &item.steps, &item.content)?,
        _ => tree::delete(&block.kind, &mut after, &item.steps)?,
    }
    for component in &block.schema.components {
        let name = &component.name;
        if before.get(name) != after.get(name) && !block.can_be_written(component) {
            return Err(block.refused(&[component.id]));
        }
    }
    value::check(&block.kind, &after)?;
    Ok(after)
}

/// Parses the rows of LFBSelectors.
fn selectors(object: &Value) -> Result<BTreeMap<u32, (u32, u32)>, Failure> {
    let table = object.get("LFBSelectors").unwrap_or(&Value::Absent);
    tree::rows(table).into_iter().map(selector).collect()
}

/// Parses a row of LFBSelectors to its index and LFB.
fn selector((index, row): (u32, &Value)) -> Result<(u32, (u32, u32)), Failure> {
    let number = |name| u32::try_from(row.whole(name)?).ok();
    let block = number("LFBClassID").zip(number("LFBInstanceID"));
    let incomplete = || {
        let why = "a row of LFBSelectors needs LFBClassID and LFBInstanceID";
        Failure::new(ResultCode::InvalidParameters, why)
    };
    Ok((index, block.ok_or_else(incomplete)?))
}

fn is_other(row: u32) -> Failure {
    let why = format!("row {row} is another LFB: delete it first");
    Failure::new(ResultCode::InvalidParameters, why)
}

fn exists() -> Failure {
    Failure::new(ResultCode::Exists, "the LFB already exists")
}
