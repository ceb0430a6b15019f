//! A forwarding thread that gets no processor.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::common::Hosts;
use super::load::Busy;
use super::stream::CONFIG;

#[test]
fn a_router_that_waits_for_a_processor_is_not_killed() {
    let Some(hosts) = Hosts::new() else { return };
    let router = hosts.start("a", CONFIG);
    let child = router.child();
    let threads = fs::read_dir(format!("/proc/{child}/task")).unwrap();
    let mut threads = threads.map(|thread| thread.unwrap().path());
    let is_forwarding =
        |thread: &PathBuf| fs::read_to_string(thread.join("comm")).unwrap().trim() == "weir-worker";
    let thread = threads.find(is_forwarding).unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap();
    // The thread gets a processor about a thousandth of the time.
    let set = |class: &str| {
        let set = Command::new("chrt")
            .args([class, "-p", "0", thread])
            .status();
        assert!(set.unwrap().success());
    };
    {
        let _busy = Busy::start(4 * thread::available_parallelism().unwrap().get());
        set("-i");
        thread::sleep(Duration::from_secs(5));
    }
    set("-o");
    assert_eq!(router.child(), child, "{}", router.log());
    assert!(hosts.ping("-c 3 -W 5 10.77.2.2"), "{}", router.log());
}
