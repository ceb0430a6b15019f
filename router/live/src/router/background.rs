//! The work of network layers outside the packet path, on a thread for each layer that has some.
//!
//! The forwarding thread reports once that work waits. The layer's thread then takes a turn, and pauses.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_base::Streams;
use weir_layer::{ForwardingThread, LayerPlan, NoAnswer, Task, Work};
use weir_lfb::layers::LAYERS;

use crate::clock;
use crate::worker::Handle;

/// Shortest time between two turns.
const PERIOD: Duration = Duration::from_millis(5);

/// Wakes the threads. They end when all wakers were dropped.
#[derive(Clone, Debug)]
pub(super) struct Wake(Vec<SyncSender<()>>);

impl Wake {
    /// Wakes the threads. It never blocks.
    pub(super) fn wake(&self) {
        for thread in &self.0 {
            let _awake_already = thread.try_send(());
        }
    }
}

/// The active layers, for the threads.
pub(super) type Layers = Arc<ArcSwap<Vec<LayerPlan>>>;

/// The threads before their start.
pub(super) struct Starting {
    /// The position of the layer, its work, and what wakes the thread.
    tasks: Vec<(usize, &'static Task, Receiver<()>)>,
}

/// The waker of the threads, and the threads.
pub(super) fn prepare() -> (Wake, Starting) {
    let layers = LAYERS.iter().enumerate();
    let tasks = layers.filter_map(|(layer, of)| Some((layer, of.task.as_ref()?)));
    let (wake, tasks) = tasks
        .map(|(layer, task)| {
            let (wake, inbox) = mpsc::sync_channel(1);
            (wake, (layer, task, inbox))
        })
        .unzip();
    (Wake(wake), Starting { tasks })
}

impl Starting {
    /// Starts the threads for the router behind `handle`. `seed` must be secret.
    pub(super) fn start(self, handle: &Handle, layers: &Layers, seed: u64) -> Result<(), String> {
        for (layer, task, inbox) in self.tasks {
            let started = start(layer, task, inbox, handle.clone(), Arc::clone(layers), seed);
            started.map_err(|error| format!("{}: {error}", task.name))?;
        }
        Ok(())
    }
}

fn start(
    layer: usize,
    task: &'static Task,
    inbox: Receiver<()>,
    handle: Handle,
    layers: Layers,
    seed: u64,
) -> io::Result<()> {
    let thread = thread::Builder::new().name(format!("weir-{}", task.name));
    let run = move || {
        let mut background = (task.new)(&Streams::new(seed));
        while inbox.recv().is_ok() {
            let plans = layers.load_full();
            let compiled = plans.get(layer).and_then(LayerPlan::compiled);
            if let Err(error) = background.turn(compiled, &handle) {
                tracing::debug!(%error, "cannot {}", task.aim);
            }
            thread::sleep(PERIOD);
        }
    };
    thread.spawn(run).map(drop)
}

impl ForwardingThread for Handle {
    fn run(&self, work: Work) -> Result<Box<dyn Any + Send>, NoAnswer> {
        self.call(|worker| work(&mut worker.plane, clock::now()))
    }
}
