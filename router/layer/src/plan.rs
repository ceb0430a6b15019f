//! The checked sections of a layer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::Instant;
use weir_base::setting::Settings;
use weir_model::Fault;
use weir_path::plane::Plane;

use crate::{Compiled, Layer};

/// The checked sections of a layer. A kind of named section is identified by its index in [`Layer::named`].
#[derive(Clone, Debug)]
pub struct LayerPlan {
    layer: &'static Layer,
    settings: Settings,
    /// The settings of the named sections, by kind and name.
    named: Vec<BTreeMap<String, Settings>>,
    /// `None` without named sections, and before [`Self::compile`].
    compiled: Option<Arc<dyn Compiled>>,
}

/// Compares the settings only, because `compiled` is derived from them.
impl PartialEq for LayerPlan {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings && self.named == other.named
    }
}

impl LayerPlan {
    /// The layer without sections.
    pub fn new(layer: &'static Layer) -> Self {
        Self {
            layer,
            settings: Settings::defaults(layer.class.parameters),
            named: vec![BTreeMap::new(); layer.named.len()],
            compiled: None,
        }
    }

    /// The layer.
    pub fn layer(&self) -> &'static Layer {
        self.layer
    }

    /// The sections together; `None` if the layer is switched off.
    pub fn compiled(&self) -> Option<&dyn Compiled> {
        self.compiled.as_deref()
    }

    /// Applies the layer to a plane, or switches it off. Returns the replaced parts, so that another thread can free
    /// them.
    pub fn apply(&self, plane: &mut Plane, now: Instant) -> Box<dyn Send> {
        match &self.compiled {
            Some(compiled) => compiled.apply(plane, now),
            None => (self.layer.switch_off)(plane, now),
        }
    }

    /// The two ends of each tunnel, whose packets the kernel must not get.
    pub fn tunnels(&self) -> Vec<(IpAddr, IpAddr)> {
        self.compiled()
            .map_or(Vec::new(), |compiled| compiled.tunnels())
    }

    /// Maximum packets that wait in the layer, outside the queues of ports.
    pub fn waiting_max(&self) -> usize {
        self.compiled().map_or(0, |compiled| compiled.waiting_max())
    }

    /// The settings of the layer's own section.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes the settings of the layer's own section.
    pub fn set(&mut self, settings: Settings) {
        self.compiled = None;
        self.settings = settings;
    }

    /// Adds the section with this name, or changes it.
    pub fn set_named(&mut self, kind: usize, name: &str, settings: Settings) {
        self.compiled = None;
        self.named[kind].insert(name.to_owned(), settings);
    }

    /// Removes the section with this name.
    pub fn remove(&mut self, kind: usize, name: &str) {
        self.compiled = None;
        self.named[kind].remove(name);
    }

    /// Whether the named sections have changed since the last [`Self::compile`].
    pub fn is_stale(&self) -> bool {
        self.compiled.is_none() && self.named.iter().any(|named| !named.is_empty())
    }

    /// Compiles the sections, of which at least one is named. Reports all faults.
    pub fn compile(&mut self) -> Result<(), Vec<Fault>> {
        self.compiled = Some((self.layer.compile)(self)?);
        Ok(())
    }

    /// The settings of the section with this name.
    pub fn get(&self, kind: usize, name: &str) -> Option<&Settings> {
        self.named[kind].get(name)
    }

    /// The sections of a kind, by name.
    pub fn each(&self, kind: usize) -> impl Iterator<Item = (&str, &Settings)> {
        let named = self.named[kind].iter();
        named.map(|(name, settings)| (&name[..], settings))
    }
}
