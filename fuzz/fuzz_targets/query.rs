//! Lines of a resource query, with one text for every file it asks for.

#![no_main]

use fluxgate_graph::query::{Options, Session, World};
use libfuzzer_sys::fuzz_target;

const GRAPH: &str = r#"{"graph": {"nodes": [
    {"id": "0", "metadata": {"type": "cluster", "id": 0, "rank": -1, "paths": {"containment": "/c0"}}},
    {"id": "1", "metadata": {"type": "node", "id": 0, "rank": 0, "paths": {"containment": "/c0/node0"}}},
    {"id": "2", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/c0/node0/core0"}}}],
    "edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}]}}"#;

struct Desk<'t>(&'t str);

impl World for Desk<'_> {
    fn read(&mut self, _path: &str) -> std::io::Result<String> {
        Ok(self.0.to_owned())
    }

    fn seconds(&mut self) -> f64 {
        0.0
    }
}

fuzz_target!(|input: (Vec<String>, String)| {
    let options = Options { load_format: "jgf".to_owned(), ..Options::default() };
    let Ok(mut session) = Session::new(GRAPH, &options) else { return };
    for line in input.0 {
        session.obey(&line, &mut Desk(&input.1));
    }
});
