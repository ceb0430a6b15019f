//! Encodes and decodes values, using the classes that the CE knows.

use weir_model::{ComponentPath, Value};
use weir_protocol::schema::{Class, Registry};
use weir_protocol::value;
use weir_protocol::wire::{Content, PathData};

/// Encoder and decoder for the classes that the CE knows.
#[derive(Debug)]
pub(crate) struct Codec {
    registry: Registry,
}

impl Codec {
    pub(crate) const fn new(registry: Registry) -> Self {
        Self { registry }
    }

    /// The class with this name or number.
    pub(crate) fn find(&self, word: &str) -> Option<&Class> {
        self.registry.find(word).ok()
    }

    /// The names of all classes.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &str> {
        self.registry.all().map(Class::short_name)
    }

    /// The class with this ID.
    pub(crate) fn class(&self, id: u32) -> Option<&Class> {
        self.registry.get(id)
    }

    /// Name of a class, or its number if the CE does not know the class.
    pub(crate) fn name(&self, id: u32) -> String {
        match self.class(id) {
            Some(class) => class.short_name().to_owned(),
            None => format!("{id:#010x}"),
        }
    }

    fn known(&self, id: u32) -> Result<&Class, String> {
        let unknown = || format!("unknown class {id:#010x}; load its library");
        self.class(id).ok_or_else(unknown)
    }

    /// Encodes a component's value as path data.
    pub(crate) fn path(
        &self,
        class: u32,
        ids: Vec<u32>,
        value: &Value,
    ) -> Result<PathData, String> {
        let target = self
            .known(class)?
            .component(&ids)
            .map_err(|e| e.to_string())?;
        let content = value::encode(&target.kind, value).map_err(|e| e.to_string())?;
        PathData::new(ids, None, content).map_err(|e| e.to_string())
    }

    /// Decodes the value of a component.
    pub(crate) fn value(
        &self,
        class: u32,
        ids: &[u32],
        content: &Content,
    ) -> Result<Value, String> {
        let class = self.known(class)?;
        let target = class.component(ids).map_err(|e| e.to_string())?;
        value::decode(&target.kind, content).map_err(|e| format!("{}: {e}", class.path(ids)))
    }

    /// A path as names, or as numbers if the CE does not know the class.
    pub(crate) fn names(&self, class: u32, ids: &[u32]) -> ComponentPath {
        match self.class(class) {
            Some(class) => class.names(ids),
            None => ComponentPath::new(ids.iter().map(u32::to_string)),
        }
    }
}
