//! Headless Chromium, driven by the DevTools protocol over a pipe.
//!
//! The pipe is descriptors 3 and 4; a shell maps the child's standard input and output to them. A zero byte ends a
//! message.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_live::namespace::{Namespace, Spawner};

use crate::common::PATIENCE;

/// The program, and flags that prevent prompts.
const CHROMIUM: &[&str] = &[
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

/// A browser with one page, which ends when this value is dropped.
pub(crate) struct Browser {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u64,
    session: Option<String>,
    profile: PathBuf,
    /// Errors that the page has logged.
    pub(crate) errors: Vec<String>,
}

impl Browser {
    /// Starts the browser inside a namespace, with a new profile in this folder; `None` if it is not installed.
    pub(crate) fn start(spawner: &Spawner, inside: &Namespace, folder: &Path) -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            println!("skipped: chromium is not installed (apt install chromium)");
            return None;
        }
        let profile = folder.join("chromium");
        fs::create_dir_all(&profile).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 3<&0 4>&1 >/dev/null", "sh"])
            .args(CHROMIUM)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = spawner.spawn(inside, command).unwrap();
        let mut browser = Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            calls: 0,
            session: None,
            profile,
            errors: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// The result of a command.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.answer(method, parameters);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The answer to a command.
    fn answer(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            bytes.pop();
            let answer: Value = serde_json::from_slice(&bytes).expect("chromium has ended");
            match answer["method"].as_str() {
                Some("Log.entryAdded") => self.errors.push(answer["params"]["entry"].to_string()),
                Some("Runtime.exceptionThrown") => self.errors.push(answer["params"].to_string()),
                _ => {}
            }
            if answer["id"] == self.calls {
                return answer;
            }
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression on the page.
    pub(crate) fn ask(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression });
        let mut asked = self.answer("Runtime.evaluate", parameters.clone());
        // The opened page has just replaced the one before, which happens once.
        if asked["error"]["message"] == "Inspected target navigated or closed" {
            asked = self.answer("Runtime.evaluate", parameters);
        }
        assert!(asked["error"].is_null(), "{expression}: {asked}");
        asked["result"]["result"]["value"].clone()
    }

    /// A screen of this width, `light` or `dark`.
    pub(crate) fn show(&mut self, width: u32, scheme: &str) {
        let screen =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", screen);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
    }

    /// Writes a picture of the whole page.
    pub(crate) fn picture(&mut self, file: &Path) {
        let asked = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", asked);
        let mut decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(file).unwrap())
            .spawn()
            .unwrap();
        let text = answer["data"].as_str().unwrap();
        decode
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(decode.wait().unwrap().success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // On this command the browser also ends its own processes.
        let close = json!({ "id": 0, "method": "Browser.close" });
        let _ = self.input.write_all(format!("{close}\0").as_bytes());
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !matches!(self.process.try_wait(), Ok(Some(_))) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
