//! The rate of the link behind a discipline, for disciplines that measure against it.

use weir_base::Rate;
use weir_base::setting::{Kind, Parameter};

/// The `rate` parameter.
pub(crate) const RATE: Parameter = Parameter::new(
    "rate",
    Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX),
    "0 bit",
    "rate of the link; 0 bit: the rate of the port, or 1 Gbit if the port is not paced",
);

/// The rate to assume for a port without pacing while `rate` is not set.
const UNPACED: Rate = Rate::from_mbps(1000);

/// The configured rate and the port's rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkRate {
    /// The parameter; zero to use the port's rate.
    pub(crate) given: Rate,
    /// The rate to which the port is paced; `None` if it is not paced, or not known yet.
    pub(crate) port: Option<Rate>,
}

impl LinkRate {
    /// The rate for a discipline that has this parameter and does not know its port yet.
    pub(crate) fn of(given: Rate) -> Self {
        Self { given, port: None }
    }

    /// The effective rate; never zero.
    pub(crate) fn get(self) -> Rate {
        let known = |rate: &Rate| *rate != Rate::default();
        let port = self.port.filter(known).unwrap_or(UNPACED);
        Some(self.given).filter(known).unwrap_or(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_counts_before_what_the_port_has() {
        let rate = |given, port: Option<u64>| LinkRate {
            given: Rate::from_mbps(given),
            port: port.map(Rate::from_mbps),
        };
        assert_eq!(rate(10, Some(100)).get(), Rate::from_mbps(10));
        assert_eq!(rate(0, Some(100)).get(), Rate::from_mbps(100));
        assert_eq!(rate(0, None).get(), UNPACED);
        assert_eq!(rate(0, Some(0)).get(), UNPACED);
    }
}
