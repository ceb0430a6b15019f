//! The northbound socket: only the socket of a dead router may be replaced.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;

use super::common::Hosts;
use super::stream::CONFIG;

#[test]
fn only_a_dead_routers_socket_is_replaced() {
    let Some(hosts) = Hosts::new() else { return };
    let refused = |why: &str| {
        let mut router = hosts.spawn("a", CONFIG);
        assert_eq!(router.ended().code(), Some(1));
        let said = router.log();
        assert!(said.contains("`socket` /") && said.contains(why), "{said}");
        assert!(
            !said.contains("router started"),
            "it was noticed too late: {said}"
        );
    };
    let socket = hosts.socket("a");
    fs::write(&socket, "precious").unwrap();
    refused("the path exists and is not a socket; remove it");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");

    let target = hosts.folder.join("target");
    fs::rename(&socket, &target).unwrap();
    symlink(&target, &socket).unwrap();
    refused("the path exists and is not a socket");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");

    fs::remove_file(&socket).unwrap();
    let living = UnixListener::bind(&socket).unwrap();
    refused("another weir already listens on this socket");
    drop(living);
    assert!(
        fs::symlink_metadata(&socket)
            .unwrap()
            .file_type()
            .is_socket()
    );
    let mut router = hosts.start("a", CONFIG);

    // A file that has replaced its own socket stays when the router ends.
    fs::rename(&target, &socket).unwrap();
    router.signal("TERM");
    assert!(router.ended().success());
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}
