//! The cost of the transport mapping layer (TML) for a control element: a model to compare measurements with.
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
    /// T_p: time to set it up.
    pub setup_s: f64,
    /// M: messages that it carries.
    pub messages: f64,
    /// L: bytes of each.
    pub bytes: f64,
    /// V: bytes that are handled in a second.
    pub bytes_per_s: f64,
}

impl Channel {
    /// Equation 2: T_c, the time of communication.
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
    /// T_s: time of computation.
    pub computation_s: f64,
    /// Its channels.
    pub channels: Vec<Channel>,
}

/// The terms of equation 3, each summed over all elements and channels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Computation, which depends on the hardware.
    pub computation_s: f64,
    /// Setting up channels.
    pub setup_s: f64,
    /// Carrying messages.
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

    /// Equation 4: lambda, the part that the TML itself decides.
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
        // It is linear: twice the elements, twice of everything.
        let twice = Terms::of(&[two.clone(), one.clone(), two, one]);
        close(twice.total_s(), 1.5);
    }
}
