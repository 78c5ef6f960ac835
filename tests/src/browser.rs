//! A browser without a window, controlled over the two pipes of `--remote-debugging-pipe`: requests and events as JSON, each
//! ended by a zero byte.
//!
//! Tests with a browser run where a Chromium is on the path, and are skipped elsewhere.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fluxgate_testing::{Need, skipped};
use serde_json::{Value, json};

/// Time that a browser on a busy machine may take in all.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program; `None`, as [`skipped`], where there is none.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut files = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    let found = files.find(|file| file.is_file());
    if found.is_none() {
        skipped(Need::Chromium, "no chromium");
    }
    found
}

/// A browser without a window.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    requests: File,
    messages: Receiver<Value>,
    /// The session of the page, once it is open.
    session: Option<String>,
    asked: u64,
    begin: Instant,
    /// All events of the page so far.
    events: Vec<Value>,
}

impl Browser {
    /// Starts it, with its files in `dir`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(program: &Path, dir: &Path) -> Browser {
        let (to, from) = (dir.join("to"), dir.join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status().expect("mkfifo is there");
        assert!(made.success());
        let flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --remote-debugging-pipe";
        let script = format!("exec \"$1\" {flags} --user-data-dir=\"$2\" about:blank 3<\"$3\" 4>\"$4\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(program).arg(dir.join("profile")).args([&to, &from]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let requests = File::options().write(true).open(&to).unwrap();
        let answers = File::open(&from).unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser talks JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let (session, events) = (None, Vec::new());
        Browser { child, requests, messages, session, asked: 0, begin: Instant::now(), events }
    }

    fn next(&mut self) -> Value {
        let left = PATIENCE.saturating_sub(self.begin.elapsed());
        match self.messages.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("the browser says nothing for {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser is gone: {:?}", self.child.try_wait()),
        }
    }

    /// Asks for a method of its protocol, and waits for the answer.
    ///
    /// # Panics
    /// If it refuses.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut request = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.next();
            if message["id"] == self.asked {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Opens a page and receives its events.
    pub fn open(&mut self, url: &str) {
        let target = self.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = self.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.ask(&format!("{domain}.enable"), json!({}));
        }
        self.events.clear();
        let answer = self.ask("Page.navigate", json!({ "url": url }));
        assert_eq!(answer.get("errorText"), None, "{url}");
        // The empty page before it may be loaded late, so that not every event of loading is about this one.
        let is_of_this = |event: &Value| {
            event["method"] == "Page.frameNavigated"
                && event["params"]["frame"]["loaderId"] == answer["loaderId"]
        };
        let is_loaded = |events: &[Value]| {
            let mut after = events.iter().skip_while(|event| !is_of_this(event));
            after.any(|event| event["method"] == "Page.loadEventFired")
        };
        while !is_loaded(&self.events) {
            let message = self.next();
            self.events.push(message);
        }
    }

    /// The events of one kind.
    pub fn of(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// If it throws.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert_eq!(answer.get("exceptionDetails"), None, "{script}");
        answer["result"]["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
