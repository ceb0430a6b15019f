//! A model of the cost of the transport mapping layer (TML) for a control element, to compare with measurements.
//!
//! ```text
//!   time = sum over FEs ( computation + sum over its channels ( setup + messages * length / rate ) )
//!                         '-- T_s --'                           '-T_p-'  '------ M L / V -------'
//! ```
//!
//! Source: Zhuge et al., "Research on Internal Flow Control Mechanism of ForCES Routers", equations 1 to 4,
//! with the symbols of their text. Times are in seconds.

/// A channel to a forwarding element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// T_p: setup time of the channel.
    pub setup_s: f64,
    /// M: number of messages on the channel.
    pub messages: f64,
    /// L: bytes per message.
    pub bytes: f64,
    /// V: bytes per second.
    pub bytes_per_s: f64,
}

impl Channel {
    /// Equation 2: T_c, the communication time.
    pub fn communication_s(&self) -> f64 {
        self.setup_s + self.transfer_s()
    }

    fn transfer_s(&self) -> f64 {
        self.messages * self.bytes / self.bytes_per_s
    }
}

/// A forwarding element, as the control element's TML sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// T_s: computation time.
    pub computation_s: f64,
    /// Channels of the element.
    pub channels: Vec<Channel>,
}

/// The terms of equation 3, each summed over all elements and channels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Computation, which depends on the hardware.
    pub computation_s: f64,
    /// Setup of channels.
    pub setup_s: f64,
    /// Transfer of messages.
    pub transfer_s: f64,
}

impl Terms {
    /// The terms of these elements.
    pub fn of(elements: &[Element]) -> Self {
        let mut terms = Self::default();
        for element in elements {
            terms.computation_s += element.computation_s;
            for channel in &element.channels {
                terms.setup_s += channel.setup_s;
                terms.transfer_s += channel.transfer_s();
            }
        }
        terms
    }

    /// Equations 1 and 3: T_all.
    pub fn total_s(&self) -> f64 {
        self.computation_s + self.communication_s()
    }

    /// Equation 4: lambda, the part that depends on the TML.
    pub fn communication_s(&self) -> f64 {
        self.setup_s + self.transfer_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12, "{a} is not {b}");
    }

    #[test]
    fn by_hand() {
        // 1000 messages of 1024 B at 10 240 000 B/s take .1 s, 500 of them .05 s.
        let channel = |setup_s, messages| Channel {
            setup_s,
            messages,
            bytes: 1024.0,
            bytes_per_s: 10_240_000.0,
        };
        close(channel(0.02, 1000.0).communication_s(), 0.12);
        let two = Element {
            computation_s: 0.3,
            channels: vec![channel(0.02, 1000.0), channel(0.01, 500.0)],
        };
        let one = Element {
            computation_s: 0.2,
            channels: vec![channel(0.02, 500.0)],
        };
        let terms = Terms::of(&[two.clone(), one.clone()]);
        close(terms.computation_s, 0.5);
        close(terms.setup_s, 0.05);
        close(terms.transfer_s, 0.2);
        close(terms.communication_s(), 0.25);
        close(terms.total_s(), 0.75);
        // The model is linear: twice the elements take twice the time.
        let twice = Terms::of(&[two.clone(), one.clone(), two, one]);
        close(twice.total_s(), 1.5);
    }
}
