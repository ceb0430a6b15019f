//! The configuration of a port that finds the rate of the link behind it.

use std::net::IpAddr;

use weir_autorate::{BY_TRAFFIC, Params, REFLECTORS_MAX};
use weir_base::Rate;
use weir_base::setting::Settings;

/// The checked configuration of a port with `rate = "auto"`.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoRate {
    /// Limits, threshold and interval.
    pub params: Params,
    /// The hosts behind the link that answer probes.
    pub reflectors: Vec<IpAddr>,
    /// Whether round trips of the port's own TCP connections also show the delay.
    pub by_traffic: bool,
}

impl AutoRate {
    /// From the checked settings of a port; the error names the component and the rule.
    pub(crate) fn new(settings: &Settings) -> Result<Self, (&'static str, String)> {
        let (least, most) = (settings.rate("rate_least"), settings.rate("rate_most"));
        if least > most {
            let why = format!(
                "`rate_most` is \"{most}\", but must be at least `rate_least`, \"{least}\""
            );
            return Err(("rate_most", why));
        }
        let base = match settings.rate("rate_base") {
            base if base == Rate::default() => least,
            base if base < least || base > most => {
                let why = format!(
                    "`rate_base` is \"{base}\", but must be from \"{least}\" to \"{most}\""
                );
                return Err(("rate_base", why));
            }
            base => base,
        };
        let (reflectors, by_traffic) = reflectors(settings.text("reflectors"))?;
        Ok(Self {
            params: Params {
                least,
                base,
                most,
                threshold: settings.span("rate_threshold"),
                interval: settings.span("rate_interval"),
                reflectors: reflectors.len(),
            },
            reflectors,
            by_traffic,
        })
    }
}

const EXAMPLE: &str = "reflectors = \"192.0.2.1 192.0.2.2\"";

/// Parses the addresses, and whether the list also names the traffic.
fn reflectors(text: &str) -> Result<(Vec<IpAddr>, bool), (&'static str, String)> {
    let fault = |why| Err(("reflectors", why));
    let mut all: Vec<IpAddr> = Vec::new();
    let mut by_traffic = false;
    for word in text.split_whitespace() {
        if word == BY_TRAFFIC {
            by_traffic = true;
            continue;
        }
        let Ok(address) = word.parse::<IpAddr>() else {
            return fault(format!(
                "`{word}` is not an address; give addresses of hosts behind the link, like {EXAMPLE}, or \
                 \"{BY_TRAFFIC}\""
            ));
        };
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return fault(format!(
                "{address} is not the address of a host behind the link"
            ));
        }
        if all.contains(&address) {
            return fault(format!(
                "duplicate address {address}; each reflector must be a different host"
            ));
        }
        all.push(address);
    }
    match all.len() {
        0 if !by_traffic => {
            let why = format!(
                "\"auto\" needs hosts behind the link that answer pings: add {EXAMPLE}, or \"{BY_TRAFFIC}\" if no host \
                 answers"
            );
            Err(("rate", why))
        }
        0..=REFLECTORS_MAX => Ok((all, by_traffic)),
        count => fault(format!(
            "{count} reflectors are given, but at most {REFLECTORS_MAX} are permitted"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PARAMETERS;
    use weir_base::setting::Scalar;

    fn auto(given: &[(&str, &str)]) -> Result<AutoRate, (&'static str, String)> {
        let mut settings = Settings::defaults(PARAMETERS);
        for (name, text) in given {
            let value = Scalar::Text((*text).to_owned());
            settings.set(PARAMETERS, name, &value).unwrap();
        }
        AutoRate::new(&settings)
    }

    #[test]
    fn reflectors_are_enough() {
        let auto = auto(&[("reflectors", "192.0.2.1  2001:db8::1")]).unwrap();
        assert_eq!(auto.reflectors.len(), 2);
        let Params {
            least, base, most, ..
        } = auto.params;
        assert_eq!((least, base), (Rate::from_mbps(1), Rate::from_mbps(1)));
        assert_eq!(most, Rate::from_mbps(1000));
    }

    #[test]
    fn the_traffic_is_enough_or_stands_beside_reflectors() {
        let alone = auto(&[("reflectors", "traffic")]).unwrap();
        assert_eq!((alone.reflectors.len(), alone.by_traffic), (0, true));
        let beside = auto(&[("reflectors", "192.0.2.1 traffic")]).unwrap();
        assert_eq!((beside.params.reflectors, beside.by_traffic), (1, true));
    }

    #[test]
    fn each_error_names_its_component_and_the_rule() {
        let one = ("reflectors", "192.0.2.1");
        for (given, name, expected) in [
            (&[][..], "rate", "needs hosts behind the link"),
            (
                &[("reflectors", "192.0.2")],
                "reflectors",
                "`192.0.2` is not an address",
            ),
            (&[("reflectors", "127.0.0.1")], "reflectors", "127.0.0.1"),
            (&[("reflectors", "::1 ::1")], "reflectors", "::1"),
            (
                &[("reflectors", "192.0.2.1 192.0.2.1")],
                "reflectors",
                "duplicate address 192.0.2.1",
            ),
            (
                &[one, ("rate_least", "5 Mbit"), ("rate_most", "4 Mbit")],
                "rate_most",
                "is \"4 Mbit\", but must be at least `rate_least`, \"5 Mbit\"",
            ),
            (
                &[one, ("rate_base", "2 Gbit")],
                "rate_base",
                "must be from \"1 Mbit\" to \"1 Gbit\"",
            ),
        ] {
            let (component, why) = auto(given).unwrap_err();
            assert!(component == name && why.contains(expected), "{why}");
        }
        let nine: Vec<_> = (1..10).map(|n| format!("192.0.2.{n}")).collect();
        let (_, why) = auto(&[("reflectors", &nine.join(" "))]).unwrap_err();
        assert!(why.contains("at most 8"), "{why}");
    }
}
