//! The service `filter`: which exceptions of an FE go to the CE, for which addresses, and at which rate.
//!
//! The list of kinds says all of them: a kind that is not in it does not go to the CE. The rate becomes the token
//! bucket's B_c in T_s of one second, without excess. Packet filters and paths are blocks that do not exist yet.

use weir_base::setting::{Kind, Parameter, Scalar, Setting, did_you_mean, nearest};
use weir_base::{Rate, Span};
use weir_lfb::class::Block;
use weir_model::FilterRequest;

use crate::contract::Place;

/// The class with the settings of exceptions.
const REDIRECT: &str = "redirect";
/// The flag of it that is no kind of exception.
const FLOW_CONTROL: &str = "flow_control";
/// The interval of the token bucket.
const INTERVAL: Span = Span::from_secs(1);

const RATE: Parameter = Parameter::new(
    "rate",
    Kind::Rate(Rate::from_bps(1), Rate::from_mbps(400_000)),
    "1 Mbit",
    "maximum rate of all exceptions",
);

/// A component to set, as a request of the CE has it.
type Set = (String, Place, Option<String>);

/// The components to set.
pub(super) fn sets(filter: &FilterRequest) -> Result<Vec<Set>, String> {
    let kinds = kinds();
    let error = |why: String| format!("{}: {why}", filter.fe);
    if let Some(name) = filter
        .redirect
        .iter()
        .find(|name| !kinds.contains(&&name[..]))
    {
        let near = did_you_mean(nearest(name, kinds.iter().copied()));
        let (kinds, what) = (
            kinds.join(", "),
            "packet filters and paths do not exist yet",
        );
        return Err(error(format!(
            "there is no kind of exception `{name}`{near} The kinds are {kinds}; {what}"
        )));
    }
    let set = |name: &str, value: String| {
        let place = Place {
            class: REDIRECT.to_owned(),
            instance: "1".to_owned(),
            path: vec![name.to_owned()],
        };
        (filter.fe.clone(), place, Some(value))
    };
    let is_wanted = |kind: &str| filter.redirect.iter().any(|name| name == kind);
    let mut sets = Vec::new();
    if let Some(rate) = &filter.rate {
        let bits = match RATE.check(&Scalar::from(rate.clone())) {
            Ok(Setting::Rate(rate)) => rate.as_bps(),
            Ok(other) => return Err(error(format!("`rate` is {other}, but must be a rate"))),
            Err(why) => return Err(error(why.to_string())),
        };
        sets.push(set("bc", bits.to_string()));
        sets.push(set("be", "0".to_owned()));
        sets.push(set("ts", INTERVAL.as_nanos().to_string()));
        sets.push(set(FLOW_CONTROL, "true".to_owned()));
    }
    if let Some(addresses) = &filter.addresses {
        sets.push(set("addresses", addresses.join(" ")));
    }
    sets.extend(
        kinds
            .iter()
            .map(|kind| set(kind, is_wanted(kind).to_string())),
    );
    Ok(sets)
}

/// The kinds of exceptions: the flags of the class, except the one of its token bucket.
fn kinds() -> Vec<&'static str> {
    let parameters = Block::find(REDIRECT).map_or(&[][..], |block| block.class.parameters);
    let flags = parameters.iter().filter(|p| p.kind == Kind::Flag);
    let names = flags.map(|parameter| parameter.name);
    names.filter(|name| *name != FLOW_CONTROL).collect()
}

#[cfg(test)]
mod tests {
    use weir_model::ChangeValue;

    use super::*;

    fn filter(redirect: &[&str]) -> FilterRequest {
        FilterRequest {
            fe: "edge1".to_owned(),
            redirect: redirect.iter().map(|name| name.to_string()).collect(),
            addresses: None,
            rate: None,
        }
    }

    fn shown(filter: &FilterRequest) -> Vec<String> {
        let sets = sets(filter).unwrap().into_iter();
        let shown = sets.map(|(fe, place, value)| {
            assert_eq!(
                (&fe[..], &place.class[..], &place.instance[..]),
                ("edge1", "redirect", "1")
            );
            format!("{}={}", place.path.join("."), value.unwrap())
        });
        shown.collect()
    }

    #[test]
    fn kinds_that_are_not_named_do_not_go_to_the_control_element() {
        let wanted = [
            "neighbours=false",
            "multicast=false",
            "hop_limit=true",
            "no_route=true",
            "next_hop=false",
            "too_big=false",
            "router_alert=false",
        ];
        assert_eq!(shown(&filter(&["no_route", "hop_limit"])), wanted);
    }

    #[test]
    fn a_rate_fills_the_token_bucket_in_a_second() {
        let limited = FilterRequest {
            rate: Some(ChangeValue::Text("1.5 Mbit".to_owned())),
            addresses: Some(vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()]),
            ..filter(&[])
        };
        let wanted = [
            "bc=1500000",
            "be=0",
            "ts=1000000000",
            "flow_control=true",
            "addresses=192.0.2.1 2001:db8::1",
        ];
        assert_eq!(shown(&limited)[..5], wanted);
    }

    #[test]
    fn what_is_wrong_has_its_remedy() {
        let wrong = |filter: &FilterRequest| sets(filter).unwrap_err();
        let near = wrong(&filter(&["no_rout"]));
        assert!(near.contains("did you mean `no_route`?"), "{near}");
        let far = wrong(&filter(&["tcp dport 22"]));
        assert!(
            far.contains("packet filters and paths do not exist yet"),
            "{far}"
        );
        let rate = FilterRequest {
            rate: Some(ChangeValue::Text("fast".to_owned())),
            ..filter(&[])
        };
        assert!(wrong(&rate).starts_with("edge1: `rate` is \"fast\", but must be"));
    }
}
