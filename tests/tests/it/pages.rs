//! The commands of README.md and of the pages of `docs/` are run as they stand there, page by page, in a folder with the files that
//! they name. Words that stand for something of the reader are replaced. A line that cannot be run here is listed with the reason, and
//! is parsed: its command and all of its flags exist.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fluxgate_testing::pages::{self, calls, commands, of_page, spans};
use fluxgate_tests::fixture::{World, binary, cli, fluxgate, folder, policies, root, run};
use fluxgate_tests::patience::{self, Lines};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// The programs with which a line of commands begins.
const PROGRAMS: [&str; 4] = ["fluxgate", "flux", "cargo", "pip"];

/// Commands that are parsed alone, by how they begin, with the reason.
const PARSED: &[(&str, &str)] = &[
    ("cargo ", "builds; the tests of xtask parse its commands"),
    ("pip ", "a package of the Python of this machine; `cargo xtask dist --check` installs one"),
    ("flux module ", "needs a broker of Flux"),
    ("flux config ", "needs a broker of Flux"),
    ("flux jobs ", "needs a broker of Flux"),
    ("flux dmesg ", "needs a broker of Flux"),
    ("fluxgate sched", "serves the instance in FLUX_URI, which has a scheduler here"),
    ("fluxgate top", "draws on a terminal until it is quit"),
    ("flux gate top", "draws on a terminal until it is quit"),
    ("flux gate policy watch", "draws on a terminal until it is quit"),
    ("flux gate policy diff mine --job", "a job that was decided since the shadow began; `shadow` has one"),
    ("fluxgate policy test mine", "compiles a policy"),
    ("fluxgate policy build mine", "compiles a policy"),
    ("fluxgate policy publish", "needs a registry; `registry` has one"),
    ("fluxgate policy install oci", "needs a registry; `registry` has one"),
    ("fluxgate replay LOG --policy easy --serve", "waits for a client; `lockstep` has one"),
    (
        "fluxgate policy verify mine/build/mine.wasm --recorded",
        "a component of a network; `networks` has one",
    ),
    ("fluxgate replay wagap-2013.swf", "a log of others"),
    ("fluxgate bench run", "logs of others; `bench` has one"),
    ("fluxgate bench table", "the results of `bench run`"),
    ("fluxgate bench verify", "the results of `bench run`"),
];

/// Commands that go on until they are stopped, by how they begin, with a part of the line after which they have done their work.
const SERVE: &[(&str, &str)] = &[
    ("fluxgate web", "http://"),
    ("flux gate web", "http://"),
    ("fluxgate web --listen unix", "unix:"),
    ("fluxgate policy load mine/build/mine.wasm --watch", ""),
];

/// Replacements in the commands of a page (of all pages, if none is named): words of the reader, and amounts that take long.
const WORDS: &[(&str, &str, &str)] = &[
    ("", "KTH-SP2-1996-2.1-cln.swf.gz", "log.swf"),
    ("", "lublin_256.swf", "log.swf"),
    ("", "LOG.swf.gz", "log.swf"),
    ("", "LOG", "log.swf"),
    ("", "JOBID", "{job}"),
    ("", "ƒ2Zx9", "{job}"),
    ("", "ƒ2kQ9bX", "{job}"),
    ("", "/var/lib/fluxgate/journal", "journal"),
    ("", "/var/lib/metrics/", ""),
    ("", "/run/user/1000/", ""),
    ("", "/etc/flux/policy-keys", "trusted"),
    ("", "/etc/flux/system/conf.d", "conf.d"),
    ("", "/tmp/sched-fluxgate.toml", "migrated.toml"),
    ("", "/opt/flux", "prefix"),
    ("", "~/keys", "keys"),
    ("", "--prefix P", "--prefix prefix"),
    ("", "--jobs 100000", "--jobs 1000"),
    ("", "--draws 50", "--draws 3"),
    ("", "8080", "0"),
    ("", "--journal DIR", "--journal journal"),
    ("", "2026-12-01 08:00", "+8h"),
    ("", "2026-11-24 08:00", "+100h"),
    ("", "tomorrow 17:00", "+30h"),
    ("", "sample-seed", "depth"),
    ("", ",4299+1024,8850+1024,3316+1024,2714+1024,5228+1024,7762+1024,4022+1024,7085+1024", ""),
    ("", "swap mine", "swap hybrid"),
    ("", "shadow mine", "shadow hybrid"),
    ("", "diff mine", "diff hybrid"),
    ("", "promote mine", "promote hybrid --force"),
    ("docs/admin.md", "--nodes 512", "--nodes 2"),
    ("docs/admin.md", "alice,bob", "root"),
    ("docs/admin.md", "matsci", "root"),
    ("docs/admin.md", "pdat", "batch"),
    ("docs/admin.md", "+carol,-bob", "+daemon"),
    ("docs/users.md", "tuo3", "n10"),
];

/// Commands that are run before a command of a page that begins so. `JOBID` stands from then on for a job that they submit.
const BEFORE: &[(&str, &str, &str)] = &[
    ("README.md", "fluxgate job ", "fluxgate submit -n1 -t 1h --simulate 1h"),
    ("README.md", "fluxgate policy new mine", "rm -rf mine"),
    ("README.md", "fluxgate replay LOG.swf.gz", "mkdir -p mine/build && cp mine.wasm mine/build"),
    (
        "README.md",
        "fluxgate replay workload.json",
        "fluxgate workload convert log.swf --to batsim > workload.json",
    ),
    (
        "docs/replay.md",
        "fluxgate replay workload.json",
        "fluxgate workload convert log.swf --to batsim > workload.json",
    ),
    (
        "docs/admin.md",
        "flux gate policy promote mine --at",
        "flux gate policy swap easy && flux gate policy shadow hybrid",
    ),
    ("docs/training.md", "fluxgate policy new mine", "rm -rf mine"),
    (
        "docs/journal.md",
        "fluxgate journal check",
        "fluxgate job $(fluxgate submit -n1 -t 1m --simulate 0.01s) --wait",
    ),
    ("docs/policies.md", "fluxgate policy verify", "mkdir trusted && cp keys/alice.pub trusted"),
];

/// The log of the pages: four thousand jobs of a model, from the last days of July 2002.
fn log() -> &'static str {
    static LOG: OnceLock<String> = OnceLock::new();
    LOG.get_or_init(|| {
        let made = ["workload", "make", "--model", "lublin99", "--jobs", "4000", "--cores", "256"];
        format!("; UnixStartTime: 1027900000\n{}", cli(&made).ok())
    })
}

/// A machine of a site: a chassis with nodes of eight cores, and storage beside them.
fn site() -> String {
    let (mut nodes, mut edges) = (Vec::<Value>::new(), Vec::new());
    let mut add = |kind: &str, path: String, parent: Option<usize>, rank: Option<u32>| {
        let (id, name) = (nodes.len(), path.rsplit('/').next().unwrap_or_default());
        let mut data = json!({"type": kind, "name": name, "paths": {"containment": path}});
        if let Some(rank) = rank {
            data["rank"] = rank.into();
        }
        nodes.push(json!({"id": id.to_string(), "metadata": data}));
        edges.extend(parent.map(|p| json!({"source": p.to_string(), "target": id.to_string()})));
        id
    };
    let top = add("cluster", "/site".into(), None, None);
    let chassis = add("chassis", "/site/chassis0".into(), Some(top), None);
    for ssd in 0..4 {
        add("ssd", format!("/site/chassis0/ssd{ssd}"), Some(chassis), None);
    }
    for rank in 0..16 {
        let path = format!("/site/chassis0/n{}", rank + 10);
        let node = add("node", path.clone(), Some(chassis), Some(rank));
        for core in 0..8 {
            add("core", format!("{path}/core{core}"), Some(node), Some(rank));
        }
    }
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-15", "children": {"core": "0-7"}}], "nodelist": ["n[10-25]"],
        "properties": {"gpu": "0-15", "ssd": "3"}, "starttime": 0, "expiration": 0,
    }, "scheduling": {"graph": {"directed": false, "nodes": nodes, "edges": edges}}})
    .to_string()
}

/// The files that the pages name.
fn files(dir: &Path) {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        std::fs::write(path, text).expect("a file can be written");
    };
    write("log.swf", log());
    write("site.json", &site());
    let table = "[[resource.config]]\nhosts = \"n[0-31]\"\ncores = \"0-7\"\n";
    write("cluster.toml", table);
    write("resources.toml", table);
    write("R.json", &site());
    write("cluster.json", &site());
    let sacct = "JobIDRaw|Submit|ElapsedRaw|AllocCPUS|TimelimitRaw|UID|State|Partition|Elapsed\n\
        1|0|100|3||7|COMPLETED|debug|\n2|10|50|2||7|COMPLETED|batch|\n";
    write("accounting.txt", sacct);
    write("outages.csv", "time,ranks,change\n40,1,fail\n60,1,return\n");
    write("weekly.json", "{\"version\": 1, \"reservations\": []}");
    write(
        "settings.toml",
        "policies = [\"hybrid\"]\n[space]\ndepth = [1, 2]\n[[part]]\nname = \"summer\"\nlog = \"log.swf\"\njobs = \"1+300\"\n",
    );
    write("conf.d/flux.toml", "[sched-fluxion-qmanager]\nqueue-policy = \"easy\"\n");
    for (from, to) in [("grug/recipe.xml", "sierra.graphml"), ("hwloc/v2.xml", "topology.xml")] {
        std::fs::copy(root().join("fuzz/corpus").join(from), dir.join(to)).expect("a file of the corpus");
    }
    std::fs::write(dir.join("w.safetensors"), fluxgate_tests::networks::weights(&[10, 8, 1], &[], 1))
        .expect("a file can be written");
    std::fs::create_dir_all(dir.join("mine/build")).expect("a folder can be made");
    std::fs::create_dir_all(dir.join("keys")).expect("a folder can be made");
    for mine in ["mine.wasm", "mine/build/mine.wasm"] {
        std::fs::copy(policies().join("hybrid.wasm"), dir.join(mine)).expect("a component");
    }
    symlink(root().join("docs"), dir.join("docs")).expect("a link can be made");
    std::fs::create_dir(dir.join("bin")).expect("a folder can be made");
    for name in ["fluxgate", "flux-gate"] {
        symlink(binary(), dir.join("bin").join(name)).expect("a link can be made");
    }
    // A `flux` for the commands `flux gate`.
    write("bin/flux", "#!/bin/sh\n[ \"$1\" = gate ] || exit 9\nshift\nexec flux-gate \"$@\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.join("bin/flux"), mode).expect("a mode can be set");
}

/// A page's folder, and the instance that its commands ask.
struct Reader {
    dir: tempfile::TempDir,
    world: World,
    job: String,
    /// Does it use an instance that a command of the page has started?
    own: bool,
}

impl Reader {
    fn new(page: &str) -> Reader {
        let dir = folder();
        files(dir.path());
        let place = |name: &str| dir.path().join(name).to_str().expect("a path in UTF-8").to_owned();
        let (machine, journal) = (place("site.json"), place("journal"));
        let mut args = vec!["--resources", &machine, "--queue", "batch", "--queue", "debug"];
        // The page about journals makes one of its own.
        if page != "docs/journal.md" {
            args.extend(["--journal", &journal]);
        }
        let world = World::up(&args);
        let ended = world.cli(&["submit", "-n1", "-t", "1m", "--simulate", "0.01s"]).ok();
        world.cli(&["job", ended.trim(), "--wait"]).ok();
        world.cli(&["submit", "-N16", "-t", "1h", "--simulate", "1h"]).ok();
        let job = world.cli(&["submit", "-N16", "-t", "1h", "--simulate", "1h"]).ok().trim().to_owned();
        Reader { dir, world, job, own: false }
    }

    fn shell(&self, text: &str) -> Command {
        // The environment that the binary is tested in, for the shell too.
        let plain = fluxgate([""; 0]);
        let mut shell = Command::new("sh");
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.dir.path().join("bin").display());
        let instance =
            if self.own { self.dir.path().join("up") } else { self.world.dir.path().to_path_buf() };
        shell.args(["-c", text]).current_dir(self.dir.path()).stdin(Stdio::null());
        shell.env("PATH", path).env("HOME", self.dir.path()).env("FLUXGATE_DIR", instance);
        shell
    }

    /// Runs a command; the error says what is wrong with it.
    fn follow(&mut self, page: &str, command: &str) -> Result<(), String> {
        for (_, _, before) in BEFORE.iter().filter(|(of, begin, _)| *of == page && command.starts_with(begin))
        {
            let said = run(self.shell(before));
            assert_eq!(said.code, 0, "{page}: before {command}: {said:?}");
            if before.starts_with("fluxgate submit") {
                said.out.trim().clone_into(&mut self.job);
            }
        }
        let mut text = command.to_owned();
        for (_, from, to) in WORDS.iter().filter(|(of, ..)| of.is_empty() || *of == page) {
            text = text.replace(from, to);
        }
        text = text.replace("{job}", &self.job);
        if text.starts_with("fluxgate up") {
            self.own = true;
            text = format!("{} --detach", text.trim_end_matches("--detach"));
        }
        let serves = SERVE.iter().rev().find(|(begin, _)| command.starts_with(begin));
        let wrong = match serves {
            Some((_, sign)) => self.serve(&text, sign),
            None => {
                let said = run(self.shell(&format!("set -e\n{text}")));
                (said.code != 0).then(|| format!("exit code {}: {}{}", said.code, said.out, said.err))
            }
        };
        self.own &= text != "fluxgate down";
        wrong.map_or(Ok(()), |wrong| Err(format!("{text}\n    {}", wrong.trim())))
    }

    fn serve(&self, text: &str, sign: &str) -> Option<String> {
        let mut shell = self.shell(&format!("exec {text}"));
        let mut child = shell.stdout(Stdio::piped()).spawn().expect("a shell can be started");
        let found = Lines::of(&mut child).reach(sign);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it runs");
        patience::end(&mut child);
        (!found).then(|| format!("ended without a line that has {sign:?}"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.own {
            patience::output(self.shell("fluxgate down"));
        }
    }
}

/// Commands of the pages that are chosen, one after the other; all that is wrong at once.
fn follow(chosen: impl Fn(&str) -> bool) {
    let mut pages: BTreeMap<String, Vec<pages::Command>> = BTreeMap::new();
    for command in commands(&root(), &PROGRAMS).into_iter().filter(|command| chosen(&command.page)) {
        pages.entry(command.page.clone()).or_default().push(command);
    }
    let mut help = Help::default();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for (page, commands) in pages {
        let mut reader = None;
        for pages::Command { line, text, .. } in commands {
            let mut said = parse(&mut help, &text);
            if said.is_ok() && !PARSED.iter().any(|(begin, _)| text.starts_with(begin)) {
                said = reader.get_or_insert_with(|| Reader::new(&page)).follow(&page, &text);
                ran += 1;
            }
            wrong.extend(said.err().map(|error| format!("{page}:{line}: {error}")));
        }
    }
    assert!(wrong.is_empty() && ran > 0, "{ran} commands ran; these are wrong:\n{}", wrong.join("\n"));
}

/// The help of commands that was asked for.
#[derive(Default)]
struct Help(BTreeMap<Vec<String>, String>);

impl Help {
    fn of(&mut self, path: &[String]) -> &str {
        let help = self.0.entry(path.to_vec());
        help.or_insert_with(|| {
            let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
            cli(&words).ok()
        })
    }

    /// The commands below this one.
    fn below(&mut self, path: &[String]) -> Vec<String> {
        let help = self.of(path);
        let rows = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let rows = rows.take_while(|line| line.starts_with("  "));
        let first = |row: &str| {
            row.strip_prefix("  ").filter(|row| !row.starts_with(' '))?.split(' ').next().map(str::to_owned)
        };
        rows.filter_map(first).collect()
    }
}

/// Do the command and its flags exist?
fn parse(help: &mut Help, text: &str) -> Result<(), String> {
    for words in calls(text) {
        let words = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["fluxgate", ..] => &words[1..],
            ["flux", "gate", ..] => &words[2..],
            _ => continue,
        };
        let mut path = Vec::new();
        loop {
            let below = help.below(&path);
            let next = words.get(path.len()).filter(|word| !word.starts_with('-'));
            match next {
                Some(next) if below.contains(next) => path.push(next.clone()),
                Some(next) if !below.is_empty() => {
                    return Err(format!("{text}: no command {next}; there are {}", below.join(", ")));
                }
                _ => break,
            }
        }
        let told = help.of(&path);
        for word in words[path.len()..].iter().filter(|word| word.starts_with('-') && word.len() > 1) {
            let flag = match word.starts_with("--") {
                true => word.split('=').next().unwrap_or(word),
                false => word.get(..2).unwrap_or(word),
            };
            let known = |line: &str| {
                let mut words = line
                    .trim_start()
                    .split([' ', ',', '=', '['])
                    .take_while(|word| !word.is_empty() || line.starts_with(' '));
                line.trim_start().starts_with('-') && words.any(|word| word == flag)
            };
            if flag != "--" && !told.lines().any(known) {
                return Err(format!("{text}: {} has no {flag}", path.join(" ")));
            }
        }
    }
    Ok(())
}

#[test]
fn commands_of_the_first_page_run() {
    follow(|page| page == "README.md");
}

#[test]
fn commands_for_administrators_and_users_run() {
    follow(|page| page == "docs/admin.md" || page == "docs/users.md");
}

#[test]
fn commands_of_all_other_pages_run() {
    follow(|page| !["README.md", "docs/admin.md", "docs/users.md"].contains(&page));
}

/// Every listed command and word is in the pages, so that the lists hold nothing that was taken away.
#[test]
fn what_is_listed_about_commands_of_pages_is_in_them() {
    let commands = commands(&root(), &PROGRAMS);
    let begins = |begin: &str| commands.iter().any(|command| command.text.starts_with(begin));
    for (begin, why) in PARSED.iter().chain(SERVE) {
        assert!(begins(begin), "no command of a page begins with {begin:?} ({why})");
    }
    for (page, from, _) in WORDS {
        let has = |command: &pages::Command| {
            (page.is_empty() || *page == command.page) && command.text.contains(from)
        };
        assert!(commands.iter().any(has), "no command of {page:?} has {from:?}");
    }
}

/// Commands in the text of pages, which may have words in capitals and choices, exist with their flags.
#[test]
fn commands_in_the_text_of_pages_are_parsed() {
    let mut help = Help::default();
    let mut wrong = Vec::new();
    for pages::Command { page, line, text } in spans(&root(), &["fluxgate", "flux gate"]) {
        let plain = text.replace(['[', ']'], "");
        wrong.extend(parse(&mut help, &plain).err().map(|error| format!("{page}:{line}: {error}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The section of a page.
fn section(page: &str, title: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let at =
        text.find(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("{page} has no section '{title}'"));
    text[at + 4..].split("\n## ").next().unwrap().to_lowercase()
}

#[test]
fn res_50_what_does_not_carry_over_is_told_with_the_next_step() {
    let said = section("docs/training.md", "What does not carry over");
    for word in ["run times", "cancellations", "nodes go down", "features", "fluxgate policy shadow"] {
        assert!(said.contains(word), "{word}");
    }
}

#[test]
fn res_60_what_is_out_of_scope_is_told_with_the_nearest_thing() {
    let said = section("docs/replay.md", "What a replay does not have");
    for word in
        ["moldable", "malleable", "contention", "dvfs", "pools of flow", "elastisim", "batsim", "raps"]
    {
        assert!(said.contains(word), "{word}");
    }
}

#[test]
fn blocks_of_commands_are_told_from_output() {
    let text = "`a x`\n```\na one   # first\na 'two # too' \\\n   three\n\n```\n```sh\na four\n```\n```\nout put\n```\n```json\na five\n```\n";
    let found = of_page("p", text, &["a"]);
    let texts: Vec<(usize, &str)> = found.iter().map(|one| (one.line, one.text.as_str())).collect();
    assert_eq!(texts, [(3, "a one"), (4, "a 'two # too' three"), (9, "a four")]);
}

#[test]
#[should_panic(expected = "p:3: neither a command")]
fn a_block_of_both_is_refused() {
    of_page("p", "```\na one\nanother\n```\n", &["a"]);
}

#[test]
fn a_line_is_taken_apart_as_by_a_shell() {
    let words = |text: &str| calls(text).iter().map(|words| words.join("|")).collect::<Vec<_>>();
    assert_eq!(words("a 'b c' --d=\"e f\"; g > h && i | j k"), ["a|b c|--d=e f", "g", "i", "j|k"]);
    assert_eq!(words("a ''"), ["a|"]);
    assert!(words("").is_empty());
}
