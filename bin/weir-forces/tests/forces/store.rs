//! The store of a CE on a disk that fills, and a store that was damaged.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use weir_northbound::client;

use super::stage::{CE, Stage, Wire};
use crate::common::{eventually, eventually_or};

/// A small disk, which is removed when this value is dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(stage: &Stage) -> Self {
        let folder = stage.folder.join("disk");
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=128k", "weir-test"]);
        assert!(mount.arg(&folder).status().unwrap().success());
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Uses up all free space.
    fn fill(&self) {
        let mut file = fs::File::create(self.file("fill")).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn config(stage: &Stage) -> String {
    let config = stage.ce_config("");
    let store = config.lines().find(|line| line.starts_with("store = "));
    config.replace(store.unwrap(), "store = \"disk/ce.store\"")
}

fn store(stage: &Stage) -> Value {
    stage.table("store")[0].clone()
}

#[test]
fn a_full_disk_refuses_changes_until_there_is_space_again() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let disk = Disk::new(&stage);
    let (ce, _fe) = (stage.start_ce_as(&config(&stage)), stage.start_fe());
    stage.in_sync();
    assert!(stage.set_rate(40));
    assert_eq!(store(&stage)["writable"], true);
    disk.fill();
    // The free part of the store's last page holds some changes.
    let mut mbit = 40;
    let refused = loop {
        let change = format!("edge1:port.wan.rate={} Mbit", mbit + 1);
        let answer = stage.weir(&["set", &change], CE);
        if !answer.status.success() {
            break String::from_utf8_lossy(&answer.stderr).into_owned();
        }
        mbit += 1;
        assert!(mbit < 200, "the disk is never full");
    };
    for words in ["disk/ce.store", "No space left", "nothing has changed"] {
        assert!(refused.contains(words), "{refused}");
    }
    assert_eq!(stage.rate(), mbit);
    let row = store(&stage);
    assert_eq!(row["writable"], false, "{row}");
    assert!(row["failures"].as_u64() >= Some(1), "{row}");
    assert!(
        row["why"].as_str().unwrap().contains("No space left"),
        "{row}"
    );
    let shown = stage.ask(&["show", "store"], CE);
    assert!(shown.contains("No space left"), "{shown}");
    let metrics = client::get_bytes(&stage.socket(CE), "/metrics").unwrap();
    let metrics = String::from_utf8(metrics.unwrap().to_vec()).unwrap();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("weir_store_writable{"));
    assert!(line.unwrap().ends_with(" 0"), "{metrics}");
    assert!(
        ce.log().contains("the store cannot be written"),
        "{}",
        ce.log()
    );
    // The CE notices by itself that there is space again.
    fs::remove_file(disk.file("fill")).unwrap();
    eventually("the store works again", || {
        store(&stage)["writable"] == true
    });
    eventually("the log says it", || {
        ce.log().contains("the store can be written again")
    });
    assert!(stage.set_rate(30));
    drop(ce);
    let _ce = stage.start_ce_as(&config(&stage));
    stage.in_sync();
    assert_eq!(stage.rate(), 30);
    assert_eq!(stage.table("fes")[0]["desired"], 1);
}

#[test]
fn a_damaged_store_names_the_way_back() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let (ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    assert!(stage.set_rate(40) && stage.set_rate(30));
    let file = PathBuf::from(store(&stage)["file"].as_str().unwrap());
    drop(ce);
    let whole = fs::read(&file).unwrap();
    let path = stage.folder.join("ce.toml").display().to_string();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for (bytes, why) in [
        (&b""[..], "it is empty"),
        (&whole[..whole.len() / 2], "is incomplete"),
        (&flipped, "is damaged"),
        (b"redb and so on", "redb"),
        (b"a text", "is not a store of a control element"),
    ] {
        fs::write(&file, bytes).unwrap();
        let answer = stage.weir(&["ce", &path], CE);
        let said = String::from_utf8_lossy(&answer.stderr);
        assert_eq!(answer.status.code(), Some(1), "{said}");
        for words in [why, &*file.to_string_lossy(), "`cp -p "] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(fs::read(&file).unwrap(), bytes, "it is left alone");
        let back = said.split('`').find(|part| part.starts_with("cp -p "));
        let mut shell = Command::new("sh");
        assert!(
            shell
                .arg("-c")
                .arg(back.unwrap())
                .status()
                .unwrap()
                .success()
        );
        let ce = stage.start_ce_as(&stage.ce_config(""));
        eventually_or(
            "the desired state is back",
            || ce.log(),
            || stage.state("edge1") == "in sync" && stage.rate() == 30,
        );
    }
}
