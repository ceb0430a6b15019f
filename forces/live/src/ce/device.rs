//! Devices that are not weir: one task per device, with one request in progress.

use std::sync::Arc;

use tokio::sync::mpsc;
use weir_ce::controller::{DeviceRequest, Sample};

use super::input::Input;
use crate::snmp::{self, Client, Target};

/// Samples a device on request.
pub(super) async fn serve(
    target: Target,
    mut wanted: mpsc::Receiver<DeviceRequest>,
    inputs: mpsc::Sender<Input>,
) {
    let mut client = Client::new(target);
    while let Some(request) = wanted.recv().await {
        let samples = client.sample(&request.ports).await;
        let samples = samples.map(|all| all.into_iter().map(sample).collect());
        let samples = samples.map_err(|error| error.to_string());
        if inputs
            .send(Input::Sampled(request.id, samples))
            .await
            .is_err()
        {
            return;
        }
    }
}

fn sample((port, sample): (Arc<str>, snmp::Sample)) -> (Arc<str>, Sample) {
    let snmp::Sample {
        received,
        sent,
        backlog,
    } = sample;
    (port, Sample::new(received, sent, backlog))
}
