//! The service `filter`: which exceptions of an FE go to the CE, for which addresses, and at which rate.
//!
//! The list of kinds is complete: the FE does not redirect kinds that are not in the list. The rate becomes the token
//! bucket's B_c in T_s of one second, without excess. LFBs for packet filters and paths do not exist yet.

use weir_base::Rate;
use weir_base::setting::{Kind, Parameter, Scalar, Setting, did_you_mean, nearest};
use weir_lfb::class::Block;
use weir_model::{Change, ComponentPath, FilterRequest, Operation};

use super::OfFe;

/// The LFB with the settings of exceptions.
const REDIRECT: &str = "redirect";
/// The LFB's flag that is not a kind of exception.
const FLOW_CONTROL: &str = "flow_control";
const CLASSES: &str = "classes";

const RATE: Parameter = Parameter::new(
    "rate",
    Kind::Rate(Rate::from_bps(1), Rate::from_mbps(400_000)),
    "1 Mbit",
    "maximum rate of all exceptions",
);

/// The operations of the service.
pub(super) fn operations(filter: &FilterRequest) -> Result<OfFe, String> {
    let kinds = kinds();
    let error = |why: String| format!("{}: {why}", filter.fe);
    if let Some(name) = filter
        .redirect
        .iter()
        .find(|name| !kinds.contains(&&name[..]))
    {
        let near = did_you_mean(nearest(name, kinds.iter().copied()));
        let all = kinds.join(", ");
        return Err(error(format!(
            "there is no kind of exception `{name}`{near} (permitted: {all}; packet filters and paths are not \
             supported yet)"
        )));
    }
    let set = |name: &str, value: Scalar| {
        Operation::Set(Change::new(ComponentPath::new([REDIRECT, name]), value))
    };
    let mut operations = Vec::new();
    if let Some(rate) = &filter.rate {
        let bits = match RATE.check(&Scalar::from(rate.clone())) {
            Ok(Setting::Rate(rate)) => i64::try_from(rate.as_bps()).unwrap_or(i64::MAX),
            Ok(other) => return Err(error(format!("`rate` is {other}, but must be a rate"))),
            Err(why) => return Err(error(why.to_string())),
        };
        operations.push(set("bc", Scalar::Integer(bits)));
        operations.push(set("be", Scalar::Integer(0)));
        operations.push(set("ts", Scalar::Text("1 s".to_owned())));
        operations.push(set(FLOW_CONTROL, Scalar::Flag(true)));
    }
    if let Some(addresses) = &filter.addresses {
        operations.push(set("addresses", Scalar::Text(addresses.join(" "))));
    }
    let is_wanted = |kind: &str| Scalar::Flag(filter.redirect.iter().any(|name| name == kind));
    operations.extend(kinds.iter().map(|kind| set(kind, is_wanted(kind))));
    Ok((filter.fe.clone(), operations))
}

/// The kinds of exceptions: the flags of the class, except the flags of its token buckets and of its classes.
fn kinds() -> Vec<&'static str> {
    let parameters = Block::find(REDIRECT).map_or(&[][..], |block| block.class.parameters);
    let flags = parameters.iter().filter(|p| p.kind == Kind::Flag);
    let names = flags.map(|parameter| parameter.name);
    names
        .filter(|name| ![FLOW_CONTROL, CLASSES].contains(name))
        .collect()
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
        let (fe, operations) = operations(filter).unwrap();
        assert_eq!(fe, "edge1");
        let shown = operations.iter().map(|operation| match operation {
            Operation::Set(Change { path, value }) => {
                format!("{path}={}", value.as_ref().unwrap())
            }
            other => panic!("{other:?}"),
        });
        shown.collect()
    }

    #[test]
    fn kinds_that_are_not_named_do_not_go_to_the_control_element() {
        let wanted = [
            "redirect.neighbours=false",
            "redirect.multicast=false",
            "redirect.hop_limit=true",
            "redirect.no_route=true",
            "redirect.next_hop=false",
            "redirect.too_big=false",
            "redirect.router_alert=false",
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
            "redirect.bc=1500000",
            "redirect.be=0",
            "redirect.ts=\"1 s\"",
            "redirect.flow_control=true",
            "redirect.addresses=\"192.0.2.1 2001:db8::1\"",
        ];
        assert_eq!(shown(&limited)[..5], wanted);
    }

    #[test]
    fn what_is_wrong_has_its_remedy() {
        let wrong = |filter: &FilterRequest| operations(filter).unwrap_err();
        let near = wrong(&filter(&["no_rout"]));
        assert!(near.contains("did you mean `no_route`?"), "{near}");
        let far = wrong(&filter(&["tcp dport 22"]));
        assert!(
            far.contains("packet filters and paths are not supported yet"),
            "{far}"
        );
        let rate = FilterRequest {
            rate: Some(ChangeValue::Text("fast".to_owned())),
            ..filter(&[])
        };
        assert!(wrong(&rate).starts_with("edge1: `rate` is \"fast\", but must be"));
    }
}
