//! Lost packets, and copies that reach several receivers.

crate::metrics! {
    RUN on both;
    /// Adds the number of lost packets with payload.
    pub(crate) fn add_metrics(lost: f64) {
        /// packets with payload dropped in the window at any port; in the lab, datagrams sent minus datagrams received,
        /// if all traffic is UDP and stops before the end
        "lost_packets" = lost;
    }
}

crate::metrics! {
    COPIES on both;
    /// Adds the datagrams that one receiver got, and the datagrams sent.
    pub fn add_copies(received: u64, sent: u64) {
        /// for a flow group with `copies_to`: datagrams that the host received in the window divided by datagrams sent;
        /// 1 means exactly one copy of each
        "copies_ratio.TRAFFIC.HOST" = received as f64 / sent as f64;
    }
}
