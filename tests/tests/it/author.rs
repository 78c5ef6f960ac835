//! The author's loop: `policy load FILE --watch` loads every change of the file.

use std::process::Stdio;

use fluxgate_tests::fixture::{World, fluxgate, for_both_dialects, policies};
use fluxgate_tests::patience::{self, Lines};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

#[test]
fn every_change_of_the_file_is_brought_into_force() {
    for_both_dialects(&["--nodes", "1", "--cores", "2", "--policy", "fcfs"], |args| {
        let world = World::up(args);
        let shipped = |name: &str| std::fs::read(policies().join(format!("{name}.wasm"))).unwrap();
        let file = world.dir.path().join("mine.wasm");
        std::fs::write(&file, shipped("easy")).unwrap();
        let mut command = fluxgate(["policy", "load", file.to_str().unwrap(), "--watch", "--json"]);
        command.env("FLUXGATE_DIR", world.dir.path()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let mut lines = Lines::of(&mut child);
        // A slow machine may show a half-written file; that is reported, and the complete one follows.
        let mut next = |sought: &str| loop {
            let said: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
            if said["name"] == sought || said["error"].as_str().is_some_and(|error| error.contains(sought)) {
                return said;
            }
        };
        let said = next("easy");
        assert_eq!((&said["name"], &said["from"]), (&"easy".into(), &"fcfs".into()), "{said}");
        // Written in place.
        std::fs::write(&file, shipped("sjf")).unwrap();
        next("sjf");
        assert_eq!(world.stats()["policy"], "sjf");
        // A file that is no component is reported, and changes nothing.
        std::fs::write(&file, b"not a component").unwrap();
        next("not a WebAssembly component");
        assert_eq!(world.stats()["policy"], "sjf");
        // Another file in its place, as most tools do it. Other files of the folder have no effect.
        std::fs::write(world.dir.path().join("new.wasm"), shipped("ljf")).unwrap();
        std::fs::rename(world.dir.path().join("new.wasm"), &file).unwrap();
        let said = next("ljf");
        assert_eq!((&said["name"], &said["from"]), (&"ljf".into(), &"sjf".into()), "{said}");
        // Not SIGINT: background processes of a shell ignore it.
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        patience::end(&mut child);
        world.assert_clean();
    });
}
