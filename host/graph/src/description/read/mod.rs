//! Readers of descriptions, one for each format: GRUG recipes, JGF, R with its `scheduling`, the XML of hwloc and TOML.
//!
//! A reader loads everything or nothing, bounds its input, and names the place of an error.
//!
//! These modules must never know the use of what they read.

mod flow;
mod grug;
mod hwloc;
pub(crate) mod jgf;
pub(crate) mod r;
mod source;
pub(crate) mod toml;
pub(crate) mod topology;
mod treepool;

use fluxgate_formats::rset::R;

use crate::description::error::LoadError;

use super::model::Model;
use super::runs::Description;

pub use jgf::{JgfClaim, JgfClaims};
pub use source::Source;

pub(crate) use jgf::LINKED;

/// Longest text of any format, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 30;

impl Description {
    /// Reads JGF (RFC 40): the graph alone, or an R whose `scheduling` holds one.
    ///
    /// # Errors
    /// The text is too long or invalid: the error names the element, what was found there and what is accepted.
    pub fn from_jgf(text: &str) -> Result<Description, LoadError> {
        jgf::read(bounded("JGF", text)?)
    }
}

impl Model {
    /// Reads a GRUG recipe (GraphML) and makes the graph it describes.
    ///
    /// # Errors
    /// The text is too long or invalid, or the graph breaks a rule of RFC 4.
    ///
    /// ```
    /// # use fluxgate_graph::description::Model;
    /// let recipe = r#"<graphml><graph id="g" edgedefault="directed">
    ///     <node id="c"><data key="root">1</data><data key="type">cluster</data><data key="basename">tiny</data></node>
    ///     <node id="n"><data key="type">node</data><data key="basename">node</data></node>
    ///     <edge source="c" target="n"><data key="multi_scale">3</data></edge>
    /// </graph></graphml>"#;
    /// let model = Model::from_grug(recipe).unwrap();
    /// assert_eq!(model.at_path("/tiny0/node2").len(), 1);
    /// ```
    pub fn from_grug(text: &str) -> Result<Model, LoadError> {
        Model::of(&grug::load(bounded("GRUG", text)?)?)
    }

    /// Reads JGF (RFC 40): the graph alone, or an R whose `scheduling` holds one.
    ///
    /// # Errors
    /// The text is too long or invalid, or the graph breaks a rule of RFC 4.
    pub fn from_jgf(text: &str) -> Result<Model, LoadError> {
        Model::of(&Description::from_jgf(text)?)
    }

    /// The machine that an R (RFC 20) describes: a cluster of nodes with the resources in R_lite. `scheduling` is
    /// ignored; [`from_jgf`](Self::from_jgf) reads it.
    ///
    /// # Errors
    /// R names what a model cannot hold, or the graph breaks a rule of RFC 4.
    pub fn from_r(r: &R) -> Result<Model, LoadError> {
        Model::of(&r::load(r)?)
    }

    /// Reads the XML of hwloc, version 1 or 2: one machine, below a cluster. With `allow` only these types are loaded:
    /// node, group, numanode, socket, L1cache, L2cache, L3cache, core, pu, gpu, storage.
    ///
    /// # Errors
    /// The text is too long or invalid, or the graph breaks a rule of RFC 4. An unknown type in `allow` is no error.
    pub fn from_hwloc(text: &str, allow: Option<&[&str]>) -> Result<Model, LoadError> {
        Model::of(&hwloc::load(bounded("hwloc", text)?, allow)?)
    }
}

fn bounded<'t>(format: &'static str, text: &'t str) -> Result<&'t str, LoadError> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("{} bytes found; at most {TEXT_BYTES_MAX} are accepted", text.len());
        return Err(LoadError::new(format, "text", what));
    }
    Ok(text)
}
