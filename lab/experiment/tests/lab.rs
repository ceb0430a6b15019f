//! The whole lab: real namespaces and real TCP, with time limits.
//!
//! The kernel forwards here, with its own token bucket and queue in place of weir's port, because these tests are
//! about the lab. The router's own behaviour is tested where the `weir` executable is built.

#![allow(clippy::unwrap_used)] // as in every test

mod peers;
mod support;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use support::{SMALL, ScenarioFile, eventually, lab, me, result_of, run};
use weir_live::namespace::{Namespace, Signal, signal};

fn main() -> ExitCode {
    if let Some(played) = support::play_another_face() {
        return match played {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1); // concurrent measurements would disturb each other on two cores
    if let Err(error) = Namespace::new() {
        println!("skipped: this machine permits no network namespaces ({error})");
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        Trial::test("everything_is_counted_at_the_receiver", counted),
        Trial::test("offered_loads_follow_their_functions", offered),
        Trial::test("applications_are_on_and_off_by_turns", on_and_off),
        Trial::test("transfers_end_and_are_timed", transfers),
        Trial::test("two_routers_ipv6_and_many_source_addresses", two_routers),
        Trial::test("a_killed_lab_leaves_nothing", killed),
        Trial::test("an_interrupted_lab_cleans_up", interrupted),
        Trial::test("two_labs_run_side_by_side", side_by_side),
        Trial::test("it_works_without_root", rootless),
        Trial::test("a_missing_router_is_told", missing_router),
        Trial::test("a_report_is_written", report),
        Trial::test("iperf3_agrees_on_tcp_and_udp", peers::iperf3),
        Trial::test("curl_and_nginx_agree_on_the_web", peers::web),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Test = Result<(), Failed>;

/// Returns an error with the observed values unless `ok`.
fn ensure(ok: bool, seen: impl std::fmt::Debug) -> Test {
    if ok {
        Ok(())
    } else {
        Err(format!("{seen:?}").into())
    }
}

fn metrics(text: &str) -> Result<BTreeMap<String, f64>, Failed> {
    let mut result = run(text, &[])?;
    Ok(result.points.remove(0).runs.remove(0).metrics)
}

fn counted() -> Test {
    let m = metrics(SMALL)?;
    // Two floods of 4 Mbit/s through a port of 20: hardly anything is lost, and TCP takes the rest.
    ensure((7.0..8.1).contains(&m["udp_goodput_mbps"]), &m)?;
    ensure((7.9..8.1).contains(&m["udp_offered_mbps"]), &m)?;
    ensure((6.0..12.0).contains(&m["tcp_goodput_mbps"]), &m)?;
    ensure(m["web_fetches"] > 5.0 && m["web_failures"] == 0.0, &m)?;
    // All payload together, on the wire: just below 20 Mbit/s.
    let wire = m["udp_goodput_mbps"] * 1538.0 / 1472.0
        + (m["tcp_goodput_mbps"] + m["web_goodput_mbps"]) * 1538.0 / 1448.0;
    ensure((18.0..20.4).contains(&wire), (wire, &m))
}

fn offered() -> Test {
    let text = SMALL
        .replace("congestion = \"sack\"\n", "rate = \"0.5*t + 1 Mbit\"\n")
        .replace(
            "rate = \"4 Mbit\"",
            "rate = \"-1*t + 4 Mbit\"\nstop = \"3 s\"",
        )
        .replace("clients = 2", "clients = 1");
    let m = metrics(&text)?;
    // Window 1 s to 4 s. TCP, each of two: the mean of 0.5 t + 1 is 2.25 Mbit/s.
    ensure((m["tcp_offered_mbps"] - 4.5).abs() < 0.01, &m)?;
    ensure((m["tcp_goodput_mbps"] - 4.5).abs() < 0.3, &m)?;
    // UDP, each of two: the integral of 4 - t from 1 to 3 is 4 Mbit, over 3 s.
    ensure((m["udp_offered_mbps"] - 8.0 / 3.0).abs() < 0.05, &m)?;
    ensure((m["udp_goodput_mbps"] - 8.0 / 3.0).abs() < 0.1, &m)
}

fn on_and_off() -> Test {
    let turns = "on = \"0.2 s\"\noff = \"0.3 s\"\n";
    let text = SMALL
        .replace(
            "congestion = \"sack\"\n",
            &format!("rate = \"5 Mbit\"\n{turns}"),
        )
        .replace("rate = \"4 Mbit\"", &format!("rate = \"4 Mbit\"\n{turns}"))
        .replace("clients = 2", "clients = 1");
    let m = metrics(&text)?;
    // Window 1 s to 4 s: six turns of 0.5 s, of which each flow is on for 0.2 s.
    ensure((m["tcp_offered_mbps"] - 4.0).abs() < 0.03, &m)?;
    ensure((m["tcp_goodput_mbps"] - 4.0).abs() < 0.3, &m)?;
    ensure((m["udp_offered_mbps"] - 3.2).abs() < 0.1, &m)?;
    ensure((m["udp_goodput_mbps"] - 3.2).abs() < 0.2, &m)
}

fn transfers() -> Test {
    // Three transfers of 500 kB on each host, at intervals of a quarter of a second over both. The last one starts at
    // 2 s, and a port of 20 Mbit/s completes all of them before the end.
    let text = SMALL
        .replace(
            "congestion = \"sack\"\n",
            "congestion = \"newreno\"\nmss = \"1000 B\"\nflows = 3\nsize = \"500 kB\"\n\
             start = \"0.5 s\"\narrivals = \"0.25 s\"\ntimestamps = true\n",
        )
        .replace(
            "rate = \"4 Mbit\"",
            "rate = \"1 Mbit\"\nspacing = \"poisson\"",
        )
        .replace("clients = 2", "clients = 2\nthink = \"0.5 s\"");
    let m = metrics(&text)?;
    ensure(m["transfers_unfinished"] == 0.0, &m)?;
    // The first one or two end before the window.
    ensure((4.0..=6.0).contains(&m["transfers"]), &m)?;
    // Alone, 500 kB take 0.22 s; concurrently with the others at most six times that.
    ensure((0.2..1.4).contains(&m["transfer_s_mean"]), &m)?;
    ensure(m["tcp_flow_goodput_mbps_p90"] < 20.0, &m)?;
    ensure((1.7..2.3).contains(&m["udp_offered_mbps"]), &m)?;
    // Two clients that pause for half a second fetch at most 4 a second.
    ensure((6.0..=12.0).contains(&m["web_fetches"]), &m)
}

fn two_routers() -> Test {
    let text = SMALL
        .replace(
            "[host.server]",
            "[host.server]\n[router.inner]\n[link.last]\nends = [\"inner\", \"server\"]",
        )
        .replace("ends = [\"r\", \"server\"]", "ends = [\"r\", \"inner\"]")
        .replace("congestion = \"sack\"", "ip = \"v6\"")
        .replace(
            "flows = 2\nrate = \"4 Mbit\"",
            "flows = 50\naddresses = 50\ntotal_rate = \"8 Mbit\"",
        );
    let m = metrics(&text)?;
    ensure((7.0..8.1).contains(&m["udp_goodput_mbps"]), &m)?;
    ensure((6.0..12.0).contains(&m["tcp_goodput_mbps"]), &m)
}

/// Processes whose command line names this executable, except this one.
fn relatives() -> Vec<u32> {
    let own = std::process::id();
    let me = me();
    let me = me.to_string_lossy();
    let is_ours = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).starts_with(&*me)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != own).filter(is_ours).collect()
}

/// Inodes of the network namespaces that have processes.
fn namespaces() -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |path: std::path::PathBuf| std::fs::read_link(path.join("ns/net")).ok();
    let links = processes.filter_map(|e| of(e.path()));
    links.collect::<std::collections::HashSet<_>>().len()
}

fn killed() -> Test {
    let before = namespaces();
    let scenario = ScenarioFile::new(&SMALL.replace("\"4 s\"", "\"60 s\""));
    let mut child = lab(&scenario).arg("--weir").arg(me()).spawn()?;
    // the lab, a router, a sink, two TCP senders, a flood, web server and clients
    let all_there = eventually(20, || relatives().len() >= 8);
    let folder = |pid: u32| std::env::temp_dir().join(format!("weir-lab-{pid}-0"));
    let pid = child.id();
    signal(&child, Signal::Kill)?;
    child.wait()?;
    ensure(all_there, "the lab did not start")?;
    ensure(eventually(20, || relatives().is_empty()), relatives())?;
    ensure(
        eventually(20, || namespaces() <= before),
        (before, namespaces()),
    )?;
    // Only a folder of small files is left, and the next lab removes it.
    ensure(folder(pid).exists(), "no folder")?;
    run(SMALL, &[])?;
    ensure(!folder(pid).exists(), "the folder is still there")
}

fn interrupted() -> Test {
    let scenario = ScenarioFile::new(&SMALL.replace("\"4 s\"", "\"60 s\""));
    let child = lab(&scenario).arg("--weir").arg(me()).spawn()?;
    let pid = child.id();
    let all_there = eventually(20, || relatives().len() >= 8);
    signal(&child, Signal::Terminate)?;
    let output = child.wait_with_output()?;
    ensure(all_there, "the lab did not start")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(
        !output.status.success() && said.contains("interrupted"),
        said,
    )?;
    ensure(relatives().is_empty(), relatives())?;
    let folder = std::env::temp_dir().join(format!("weir-lab-{pid}-0"));
    ensure(!folder.exists(), "the folder is still there")
}

fn side_by_side() -> Test {
    let scenario = ScenarioFile::new(SMALL);
    let start = || lab(&scenario).arg("--weir").arg(me()).spawn();
    let labs = [start()?, start()?];
    for lab in labs {
        let result = result_of(lab.wait_with_output()?)?;
        let m = &result.points[0].runs[0].metrics;
        ensure(
            m["udp_goodput_mbps"] > 6.0 && m["tcp_goodput_mbps"] > 4.0,
            m,
        )?;
    }
    Ok(())
}

fn rootless() -> Test {
    const NOBODY: u32 = 65_534;
    use std::os::unix::process::CommandExt;
    let scenario = ScenarioFile::new(SMALL);
    // The folder of the test may be closed to other users, so the unprivileged user runs a copy elsewhere.
    let folder = std::env::temp_dir().join(format!("weir-lab-rootless-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let copy = folder.join("weir");
    std::fs::copy(me(), &copy)?;
    let mut command = std::process::Command::new(&copy);
    command.arg("run").arg(&scenario.0).arg("--weir").arg(&copy);
    let output = command.uid(NOBODY).gid(NOBODY).output();
    std::fs::remove_dir_all(&folder)?;
    match result_of(output?) {
        Ok(result) => {
            let m = &result.points[0].runs[0].metrics;
            ensure(
                m["udp_goodput_mbps"] > 6.0 && m["tcp_goodput_mbps"] > 4.0,
                m,
            )
        }
        Err(why) if why.contains("does not permit user namespaces") => {
            println!("skipped: {why}");
            Ok(())
        }
        Err(why) => Err(why.into()),
    }
}

fn missing_router() -> Test {
    let scenario = ScenarioFile::new(SMALL);
    let started = std::time::Instant::now();
    let output = lab(&scenario).args(["--weir", "/bin/false"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(
        said.contains("weir router for r failed: exited early"),
        &said,
    )?;
    ensure(
        started.elapsed() < Duration::from_secs(10),
        started.elapsed(),
    )
}

fn report() -> Test {
    let folder = std::env::temp_dir().join(format!("weir-lab-report-{}", std::process::id()));
    let result = run(SMALL, &["--out", &folder.to_string_lossy()])?;
    let page = std::fs::read_to_string(folder.join("report.html"))?;
    let json = std::fs::read_to_string(folder.join("results.json"))?;
    std::fs::remove_dir_all(&folder)?;
    ensure(
        serde_json::from_str::<weir_experiment::RunResult>(&json)? == result,
        json.len(),
    )?;
    let outside = ["http://", "https://", "<script", "src="];
    let found = outside
        .iter()
        .find(|o| page.replace("http://www.w3.org/2000/svg", "").contains(**o));
    ensure(found.is_none(), found)?;
    // Times of fetches: bars for a wide and for a narrow page, and the distribution. Goodput: bars for both, and over
    // time.
    ensure(
        page.matches("<svg").count() == 6,
        page.matches("<svg").count(),
    )?;
    let text = weir_experiment::report::text(&result);
    ensure(text.contains("TCP share") && text.contains("Jain"), text)
}
