//! The formats of descriptions, and detecting the format of a text by its content.
//!
//! This module must never know where a text comes from.

use fluxgate_formats::rset::R;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::description::error::LoadError;
use crate::description::flow::WRITER;
use crate::description::model::Model;
use crate::description::rows::Saved;
use crate::description::runs::Description;

use super::{bounded, toml};

/// A format that machines are described in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A recipe in GraphML.
    Grug,
    /// JGF (RFC 40), alone or as the `scheduling` of an R.
    Jgf,
    /// R (RFC 20); its `scheduling` is ignored.
    R,
    /// R with the topology of nodes in its `scheduling` (RFC 49).
    TreePool,
    /// The XML of hwloc.
    Hwloc,
    /// TOML with `[[resource.config]]`.
    Toml,
    /// A saved state: a whole model and changes after it.
    State,
}

impl Source {
    /// All of them with their names.
    pub const ALL: [(&'static str, Source); 7] = [
        ("grug", Source::Grug),
        ("jgf", Source::Jgf),
        ("r", Source::R),
        ("treepool", Source::TreePool),
        ("hwloc", Source::Hwloc),
        ("toml", Source::Toml),
        ("state", Source::State),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Source::ALL.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }

    /// The one of this name; `None` for any other text.
    pub fn parse(text: &str) -> Option<Source> {
        Source::ALL.iter().find(|(name, _)| *name == text).map(|(_, it)| *it)
    }

    /// The format of a text by its content; an R with a graph is JGF. The text may still be invalid. An R whose
    /// `scheduling` is of an unknown writer is refused; read explicitly as [`Source::R`], that key is ignored.
    ///
    /// # Errors
    /// The content is that of no format, or is JSON that is invalid or too long.
    pub fn detect(text: &str) -> Result<Source, LoadError> {
        let unknown = |place: &str, what: String| Err(LoadError::new("unknown format", place, what));
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match text.chars().next() {
            None => unknown("text", format!("nothing found; {ACCEPTED}")),
            Some('<') => match element(text) {
                Some("graphml") => Ok(Source::Grug),
                Some("topology") => Ok(Source::Hwloc),
                Some(other) => unknown("text", format!("XML that begins with <{other}> found; {ACCEPTED}")),
                None => unknown("text", format!("XML without an element found; {ACCEPTED}")),
            },
            Some('{') => match serde_json::from_str::<Keys>(bounded("JSON", text)?) {
                Ok(Keys { fluxgate_state: Some(_), .. }) => Ok(Source::State),
                Ok(Keys { graph: Some(_), .. }) => Ok(Source::Jgf),
                Ok(Keys { scheduling: Scheduling { graph: Some(_), writer }, execution, .. }) => {
                    let source = written(writer.as_deref())?;
                    let known = source == Source::Jgf || execution.is_some();
                    if known {
                        Ok(source)
                    } else {
                        unknown("text", "a topology without 'execution' found".into())
                    }
                }
                Ok(Keys { execution: Some(_), scheduling: Scheduling { writer: None, .. }, .. }) => {
                    Ok(Source::R)
                }
                Ok(Keys { execution: Some(_), scheduling, .. }) => written(scheduling.writer.as_deref()),
                Ok(_) => unknown("text", format!("JSON without 'graph' or 'execution' found; {ACCEPTED}")),
                Err(e) => {
                    let words = e.to_string();
                    let words = words.split(" at line ").next().unwrap_or(&words);
                    Err(LoadError::new("JSON", format!("line {} column {}", e.line(), e.column()), words))
                }
            },
            Some(_) => {
                let table = |line: &str| line.starts_with("[resource") || line.starts_with("[[resource");
                if text.lines().any(|line| table(line.trim_start())) {
                    return Ok(Source::Toml);
                }
                let start: String = text.chars().take(20).collect();
                unknown("line 1", format!("{start:?} found; {ACCEPTED}"))
            }
        }
    }
}

/// The writer that leaves out vertices below one that is given as a whole.
const SHORTHAND: &str = "fluxion:jgf_shorthand";

/// The accepted formats.
const ACCEPTED: &str =
    "a GRUG recipe (GraphML), JGF, R, hwloc XML or TOML with [[resource.config]] is accepted";

#[derive(Deserialize)]
struct Keys {
    fluxgate_state: Option<IgnoredAny>,
    graph: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "scheduling")]
    scheduling: Scheduling,
    execution: Option<IgnoredAny>,
}

#[derive(Default)]
struct Scheduling {
    graph: Option<IgnoredAny>,
    /// The value of the key, of any type.
    writer: Option<String>,
}

/// The content of `scheduling` is defined by a scheduler: no content is an error here.
fn scheduling<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Scheduling, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Any {
        Keys { graph: Option<IgnoredAny>, writer: Option<serde_json::Value> },
        Other(IgnoredAny),
    }
    Ok(match Any::deserialize(from)? {
        Any::Keys { graph, writer } => {
            let text = |writer: serde_json::Value| writer.as_str().map_or(writer.to_string(), str::to_owned);
            Scheduling { graph, writer: writer.map(text) }
        }
        Any::Other(IgnoredAny) => Scheduling::default(),
    })
}

/// The format of a writer (RFC 20, 40 and 49); the first one if none is named.
fn written(writer: Option<&str>) -> Result<Source, LoadError> {
    match writer.unwrap_or("fluxion") {
        "fluxion" | "fluxion:jgf" | SHORTHAND => Ok(Source::Jgf),
        "TreePool" => Ok(Source::TreePool),
        WRITER => Ok(Source::R),
        other => {
            let short: String = other.chars().take(60).collect();
            let what = format!(
                "writer '{short}' found; fluxion:jgf, {SHORTHAND}, TreePool and fluxgate are accepted, and when it is read \
                 as R alone any"
            );
            Err(LoadError::new("R", "scheduling.writer", what))
        }
    }
}

/// The name of the first element, without prefix.
fn element(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = rest.get(rest.find('<')? + 1..)?;
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.get(comment.find("-->")?..)?;
        } else if !rest.starts_with(['?', '!']) {
            let end = rest.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
            return rest[..end].rsplit(':').next();
        }
    }
}

impl Description {
    /// Reads a text of a format; with `None` its content says of which ([`Source::detect`]).
    ///
    /// # Errors
    /// The text is too long, has an unknown or another format, or its content is invalid.
    ///
    /// ```
    /// # use fluxgate_graph::description::{Description, Source};
    /// let text = "[[resource.config]]\nhosts = \"node[0-3]\"\ncores = \"0-7\"\n";
    /// assert_eq!(Source::detect(text).unwrap(), Source::Toml);
    /// let described = Description::load(text, None).unwrap();
    /// // A cluster, and four nodes with a run of cores each.
    /// assert_eq!((described.vertex_count(), described.runs().len()), (1 + 4 * 9, 1 + 4 * 2));
    /// ```
    pub fn load(text: &str, source: Option<Source>) -> Result<Description, LoadError> {
        match source.map_or_else(|| Source::detect(text), Ok)? {
            Source::Grug => super::grug::load(bounded("GRUG", text)?),
            Source::Jgf => {
                let mut described = Description::from_jgf(text)?;
                // The shorthand says all that is known of a graph alone.
                let short = described.document.get("writer").and_then(|w| w.as_str()) == Some(SHORTHAND);
                if let Some(r) = short.then(|| R::from_json(text).ok()).flatten() {
                    super::r::fill(&mut described, &r)?;
                    described.document.insert("writer".to_owned(), "fluxion:jgf".into());
                }
                Ok(described)
            }
            Source::R => super::r::load(&r_of(text)?),
            Source::TreePool => super::treepool::load(&r_of(text)?),
            Source::Hwloc => super::hwloc::load(bounded("hwloc", text)?, None),
            Source::Toml => super::r::load(&toml::read(text)?),
            Source::State => Saved::from_json(bounded("state", text)?)?.rows().to_description(),
        }
    }
}

impl Model {
    /// Reads a text of a format; with `None` its content says of which ([`Source::detect`]).
    ///
    /// # Errors
    /// As [`Description::load`], or the machine breaks a rule of RFC 4.
    pub fn load(text: &str, source: Option<Source>) -> Result<Model, LoadError> {
        Model::of(&Description::load(text, source)?)
    }
}

fn r_of(text: &str) -> Result<R, LoadError> {
    R::from_json(text).map_err(|e| {
        let words = e.to_string();
        LoadError::new("R", "text", words.strip_prefix("R: ").unwrap_or(&words))
    })
}
