//! The commands of docs/forces-tutorial.md, as they stand there, in namespaces that nobody else sees.

use std::fs;
use std::process::Command;

use weir_live::namespace::Namespace;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The commands of a page: everything between "```sh" and "```".
fn commands(page: &str) -> String {
    let mut commands = String::new();
    let mut is_inside = false;
    for line in page.lines() {
        match (is_inside, line) {
            (false, "```sh") => is_inside = true,
            (true, "```") => is_inside = false,
            (true, line) => commands += &format!("{line}\n"),
            (false, _) => {}
        }
    }
    commands
}

#[test]
fn the_tutorial_does_what_it_says() {
    if let Err(error) = Namespace::new() {
        println!("skipped: no network namespaces here ({error})");
        return;
    }
    let page = fs::read_to_string(format!("{ROOT}/docs/forces-tutorial.md")).unwrap();
    let commands = commands(&page);
    assert!(commands.contains("weir show fes"));
    let folder = env!("CARGO_BIN_EXE_weir").strip_suffix("/weir").unwrap();
    // Own folders: the page uses names that another one on this machine may have, too. The program may be below one of
    // them.
    let script = format!(
        "mount -t tmpfs none /run && mkdir /run/bin && mount --bind {folder} /run/bin\n\
         mount -t tmpfs none /tmp\nexport PATH=/run/bin:$PATH\n{commands}"
    );
    let output = Command::new("timeout")
        .args([
            "120",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ])
        .args(["bash", "-eu", "-c", &script])
        .current_dir(ROOT)
        .env_remove("WEIR_SOCKET")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}{errors}");
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(said.matches("in sync").count(), 4, "twice both FEs");
    let is_rate = |line: &&str| {
        let number = line.strip_suffix(" Mbit");
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let rates: Vec<_> = said.lines().filter(is_rate).collect();
    let expected = ["50 Mbit", "20 Mbit", "20 Mbit", "20 Mbit"];
    assert_eq!(rates, expected, "the rate of each `weir get`");
    assert!(said.contains("refused, as it should be"));
    assert_eq!(said.matches(" 0% packet loss").count(), 2, "both pings");
}
