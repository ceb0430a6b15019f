//! Watched queues.

use weir_base::statistics::mean;

/// A watched queue in the window.
#[derive(Debug)]
pub(crate) struct Queue<'a> {
    /// Packets in the queue, at each sample.
    pub(crate) packets: &'a [f64],
    /// Packets sent.
    pub(crate) sent: u64,
}

crate::metrics! {
    LINK on both;
    /// Adds the length of a queue and the packets that it sent.
    pub(crate) fn add_metrics(queue: Queue<'_>) {
        /// packets that the port sent in the window, with or without payload
        "packets_sent.LINK" = queue.sent;
        /// queue length, mean over the samples in the window (`sample` in the scenario)
        "queue_packets_mean.LINK" = mean(queue.packets);
    }
}

crate::metrics! {
    GAUGE on both;
    /// Adds a gauge of a queue's discipline.
    pub(crate) fn add_gauge(value: u64) {
        /// a gauge of the discipline at the end of the run (`weir describe`)
        "gauge.LINK.GAUGE" = value;
    }
}
