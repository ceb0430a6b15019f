//! Only one router may own an interface.

use super::common::Hosts;
use super::stream::{CONFIG, Stream};

#[test]
fn a_second_router_on_an_interface_is_refused() {
    let Some(hosts) = Hosts::new() else { return };
    let first = hosts.start("a", CONFIG);
    let stream = Stream::begin(&hosts);
    let one_port = &CONFIG[CONFIG.find("[port.wan]").unwrap()..];
    let mut second = hosts.spawn("b", one_port);
    assert_eq!(second.ended().code(), Some(1));
    let said = second.log();
    let expected = format!(
        "port `wan`: interface `r1`: another weir router uses this interface: process {}",
        first.child()
    );
    assert!(said.contains(&expected), "{said}\n{expected}");

    // A running router cannot take it either.
    hosts.ip("link add x0 type veth peer name x1");
    hosts.ip("link set x0 up");
    let elsewhere = "pool = 20000\n[port.other]\ninterface = \"x0\"\n";
    let third = hosts.start("c", elsewhere);
    let path = hosts.configure("c", &format!("{elsewhere}{one_port}"));
    let applied = hosts.weir(&["apply", path.to_str().unwrap()], "c");
    assert_eq!(applied.status.code(), Some(2), "{applied:?}");
    let said = String::from_utf8(applied.stderr).unwrap();
    assert!(
        said.contains("another weir router uses this interface"),
        "{said}"
    );
    drop(third);

    let count = stream.end();
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");
    // The lock ends with its owner, however the owner ends.
    drop(first);
    hosts.start("b", CONFIG);
}
