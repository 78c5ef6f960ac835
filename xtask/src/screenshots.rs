//! `cargo xtask screenshots`: pictures of every page of the dashboard, light and dark, taken by a headless Chromium while the
//! demo runs.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::house::{House, Program};

/// Options of `cargo xtask screenshots`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Put the pictures here.
    #[arg(long, default_value = "docs/images/web", value_name = "DIR")]
    out: PathBuf,
    /// Seconds that the demo runs on after its first swap of policies.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    after: u64,
    /// Width of the window.
    #[arg(long, default_value_t = 1280, value_name = "PIXELS")]
    width: u32,
}

/// The pages, with the heights of their pictures; those with the reservations that are ahead come first.
const PAGES: [(&str, &str, u32); 7] = [
    ("reservations", "/reservations", 520),
    ("timeline", "/timeline?span=1d", 1300),
    ("now", "/", 1150),
    ("queue", "/queue", 900),
    ("job", "/job", 1000),
    ("machine", "/machine", 520),
    ("policies", "/policies", 1000),
];

/// Reservations that are made, as the words of their commands: a system time, nodes of a group of people from soon on, and a repeated
/// maintenance of a part.
const RESERVATIONS: [&str; 3] = [
    "dst --maintenance --start +20h --duration 4h --hosts all --note chilled-water",
    "dat42 --start +12h --duration 6h --nodes 12 --users root --running ignore --note deadline",
    "firmware --maintenance --start +44h --duration 2h --hosts node[48-63] --repeat weekly",
];

/// The demo; ended when this is dropped.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // With its children, which are of its group.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// A browser with a profile, in which the cookie is kept from page to page.
struct Browser {
    program: PathBuf,
    profile: tempfile::TempDir,
}

impl Browser {
    fn find() -> Result<Browser> {
        let path = env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let program = env::split_paths(&path)
            .flat_map(|dir| names.map(|name| dir.join(name)))
            .find(|file| file.is_file())
            .context("no chromium on the path")?;
        Ok(Browser { program, profile: tempfile::tempdir().context("cannot make a folder")? })
    }

    fn run(&self, arguments: &[String], url: &str) -> Result<String> {
        let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"];
        let profile = format!("--user-data-dir={}", self.profile.path().display());
        Program::new(&self.program).args(quiet).arg(profile).args(arguments).arg(url).read()
    }

    fn shoot(&self, url: &str, file: &Path, size: (u32, u32), dark: bool) -> Result<()> {
        let scheme = if dark { "0" } else { "1" };
        let arguments = [
            format!("--screenshot={}", file.display()),
            format!("--window-size={},{}", size.0, size.1),
            format!("--blink-settings=preferredColorScheme={scheme}"),
            "--force-device-scale-factor=1".to_owned(),
        ];
        self.run(&arguments, url).map(drop)
    }
}

/// Takes the pictures.
pub(crate) fn take(house: &House, binary: &Path, options: &Options) -> Result<()> {
    let browser = Browser::find()?;
    let out = house.root().join(&options.out);
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    // The demo makes the folder of its instance below this one.
    let place = tempfile::tempdir().context("cannot make a folder")?;
    let demo = Command::new(binary)
        .args(["demo", "--web", "--speed", "1500", "--jobs", "1000"])
        .env("FLUXGATE_POLICIES", house.policies())
        .env("TMPDIR", place.path())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let mut demo = Demo(demo);
    let said = demo.0.stderr.take().context("no pipe to the demo")?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let url = lines.find(|line| line.starts_with("http://")).context("the demo ended without an address")?;
    let base = url.split("/enter").next().unwrap_or_default().to_owned();
    println!("{url}");
    browser.run(&["--dump-dom".to_owned()], &url)?;
    lines.find(|line| line.starts_with("swapped")).context("the demo ended before it swapped a policy")?;
    // Its further lines are read, so that it can go on writing them.
    std::thread::spawn(move || lines.for_each(drop));
    let instance = fs::read_dir(place.path())?.next().context("the demo has no folder")??.path();
    for words in RESERVATIONS {
        let create = Program::new(binary).args(["reservation", "create"]).args(words.split(' '));
        create.env("FLUXGATE_DIR", &instance).read()?;
    }
    sleep(Duration::from_secs(options.after));
    for (name, path, height) in PAGES {
        let path = if path == "/job" { a_job(&browser, &base)? } else { path.to_owned() };
        for (look, dark) in [("light", false), ("dark", true)] {
            let file = out.join(format!("{name}-{look}.png"));
            browser.shoot(&format!("{base}{path}"), &file, (options.width, height), dark)?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

/// The page of a job that waits.
fn a_job(browser: &Browser, base: &str) -> Result<String> {
    let page = browser.run(&["--dump-dom".to_owned()], &format!("{base}/queue"))?;
    let job = page.split("href=\"/job/").nth(2).or_else(|| page.split("href=\"/job/").nth(1));
    let id = job.and_then(|rest| rest.split('"').next()).context("no job waits")?;
    Ok(format!("/job/{id}"))
}
