//! Writing a model for tools that draw graphs: GraphML, and the language of Graphviz.
//!
//! Neither can be read back. Both have the names of vertices and edges; GraphML also has the base data of RFC 4.

use std::fmt::Write as _;

use crate::description::model::Model;
use crate::description::vertex::EdgeId;

/// The keys of GraphML: id, element, type.
const KEYS: [(&str, &str, &str); 12] = [
    ("type", "node", "string"),
    ("basename", "node", "string"),
    ("name", "node", "string"),
    ("id", "node", "long"),
    ("uniq_id", "node", "long"),
    ("size", "node", "long"),
    ("unit", "node", "string"),
    ("rank", "node", "long"),
    ("paths", "node", "string"),
    ("props", "node", "string"),
    ("member_of", "edge", "string"),
    ("relation", "edge", "string"),
];

impl Model {
    /// The model in the language of Graphviz: names, and edges with their subsystem and type.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("digraph G {\n");
        for v in self.vertices() {
            let name = quoted(self.text(self.vertices[v.index()].name));
            let _ = writeln!(text, "{} [label={name}];", v.index());
        }
        for (from, to, subsystem, relation) in self.arrows() {
            let label = quoted(&format!("{subsystem}={relation}"));
            let _ = writeln!(text, "{from}->{to} [label={label}];");
        }
        text + "}\n"
    }

    /// The model as GraphML.
    pub fn to_graphml(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
        );
        for (key, of, type_) in KEYS {
            let id = key_id(of, key);
            let _ =
                writeln!(text, "  <key id=\"{id}\" for=\"{of}\" attr.name=\"{key}\" attr.type=\"{type_}\"/>");
        }
        text += "  <graph id=\"G\" edgedefault=\"directed\">\n";
        for v in self.vertices() {
            let it = &self.vertices[v.index()];
            let paths = self.paths(v).into_iter().map(|(s, path)| format!("{}={path}", self.text(s)));
            let properties = self.properties(v).map(|(key, value)| format!("{key}={value}"));
            let values = [
                self.text(it.type_).to_owned(),
                self.text(it.basename).to_owned(),
                self.text(it.name).to_owned(),
                it.id.to_string(),
                it.unique.to_string(),
                it.size.to_string(),
                self.text(it.unit).to_owned(),
                it.rank.to_string(),
                format!("{{{}}}", paths.collect::<Vec<_>>().join(",")),
                format!("{{{}}}", properties.collect::<Vec<_>>().join(",")),
            ];
            let _ = writeln!(text, "    <node id=\"n{}\">", v.index());
            for ((key, of, _), value) in KEYS.iter().zip(values) {
                data(&mut text, of, key, &value);
            }
            text += "    </node>\n";
        }
        for (number, (from, to, subsystem, relation)) in self.arrows().enumerate() {
            let _ = writeln!(text, "    <edge id=\"e{number}\" source=\"n{from}\" target=\"n{to}\">");
            data(&mut text, "edge", "member_of", subsystem);
            data(&mut text, "edge", "relation", relation);
            text += "    </edge>\n";
        }
        text + "  </graph>\n</graphml>\n"
    }

    /// Source, target, subsystem and type of every edge.
    fn arrows(&self) -> impl Iterator<Item = (usize, usize, &str, &str)> + '_ {
        let edges = (0..self.edges.len() as u32).map(EdgeId).filter(|e| !self.is_removed(*e));
        edges.map(|e| {
            let it = &self.edges[e.index()];
            (it.from.index(), it.to.index(), self.text(it.subsystem), self.text(it.type_))
        })
    }
}

fn key_id(of: &str, key: &str) -> String {
    format!("{of}_{key}")
}

fn data(text: &mut String, of: &str, key: &str, value: &str) {
    let id = key_id(of, key);
    let _ = writeln!(text, "      <data key=\"{id}\">{}</data>", escaped(value));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
