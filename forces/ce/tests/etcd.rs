//! The section `[etcd]` of a control element's file.

use weir_base::Span;
use weir_base::setting::Scalar;
use weir_ce::configuration::{CePlan, EtcdPlan};
use weir_model::{Change, ComponentPath};

fn check(etcd: &[(&str, &str)]) -> Result<EtcdPlan, Vec<String>> {
    let change = |at: &str, value: Scalar| Change::new(ComponentPath::new(at.split('.')), value);
    let text = |value: &str| Scalar::Text(value.to_owned());
    let mut changes = vec![
        change("id", Scalar::Integer(7)),
        change("certificate", text("ce.crt")),
        change("listen.main.address", text("127.0.0.1:6704")),
    ];
    for (key, value) in etcd {
        let value = value.parse().map_or(text(value), Scalar::Flag);
        changes.push(change(key, value));
    }
    let plan = CePlan::check(&changes);
    let plan = plan.map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(plan.etcd.unwrap())
}

#[test]
fn members_are_listed_and_other_keys_have_defaults() {
    let endpoints =
        "https://192.0.2.11:2379 https://[2001:db8::1]:2379/ https://etcd-3.example:443";
    let plan = check(&[("etcd.endpoints", endpoints), ("etcd.ca", "ca.crt")]).unwrap();
    let shown: Vec<_> = plan.endpoints.iter().map(ToString::to_string).collect();
    let expected = [
        "https://192.0.2.11:2379",
        "https://[2001:db8::1]:2379",
        "https://etcd-3.example:443",
    ];
    assert_eq!(shown, expected);
    assert_eq!((&*plan.name, &*plan.prefix), ("0x40000007", "/weir/"));
    assert_eq!(plan.lease, Span::from_secs(2));
    assert!(check(&[("etcd.endpoints", "http://127.0.0.1:2379")]).is_ok());
    let open = [
        ("etcd.endpoints", "http://192.0.2.11:2379"),
        ("etcd.insecure", "true"),
    ];
    assert!(check(&open).is_ok());
}

#[test]
fn what_is_wrong_has_its_place_and_its_remedy() {
    const LOCAL: (&str, &str) = ("etcd.endpoints", "http://127.0.0.1:2379");
    let cases: [(&[(&str, &str)], &str); 9] = [
        (
            &[("etcd.name", "a")],
            "etcd.endpoints: etcd needs its `endpoints`, like",
        ),
        (
            &[("etcd.endpoints", "192.0.2.11:2379")],
            "\"192.0.2.11:2379\" is not an endpoint of etcd, like",
        ),
        (
            &[("etcd.endpoints", "https://192.0.2.11")],
            "is not an endpoint",
        ),
        (
            &[("etcd.endpoints", "http://192.0.2.11:2379")],
            "set `insecure = true`",
        ),
        (
            &[("etcd.endpoints", "https://192.0.2.11:2379")],
            "etcd.ca: `https` needs `ca`",
        ),
        (
            &[LOCAL, ("etcd.certificate", "a.crt")],
            "etcd.key: `certificate` and `key` need each other",
        ),
        (&[LOCAL, ("etcd.prefix", "weir")], "must end with `/`, like"),
        (&[LOCAL, ("etcd.lease", "10 ms")], "etcd.lease"),
        (
            &[LOCAL, ("network", "network.toml")],
            "a CE with `network` cannot have [etcd]",
        ),
    ];
    for (given, expected) in cases {
        let faults = check(given).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{expected}: {faults:?}"
        );
    }
}
