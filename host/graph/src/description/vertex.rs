//! The base data of a resource pool (RFC 4).
//!
//! This module must never know edges, jobs or file formats.

use crate::description::names::Name;

/// Number of a vertex of a [`Model`](super::Model): vertices count from 0 in the order they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(pub u32);

/// Number of an edge of a [`Model`](super::Model): edges count from 0 in the order they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub u32);

impl VertexId {
    /// Position of the vertex, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    /// Position of the edge, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// State of a pool (RFC 4, extended data).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum State {
    /// Usable.
    #[default]
    Up,
    /// Not usable; not matched.
    Down,
    /// Usable in part; not matched.
    Degraded,
    /// About to fail; not matched.
    Failing,
    /// The state is not known; not matched.
    Unknown,
    /// No state applies; not matched.
    Null,
}

impl State {
    /// All states, in the order RFC 4 names them.
    pub const ALL: [State; 6] =
        [State::Up, State::Down, State::Degraded, State::Failing, State::Unknown, State::Null];

    /// The word of RFC 4 for it.
    pub fn text(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Down => "down",
            State::Degraded => "degraded",
            State::Failing => "failing",
            State::Unknown => "unknown",
            State::Null => "null",
        }
    }

    /// The state for a word of RFC 4; `None` for any other text.
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.text() == text)
    }
}

/// Base data of a pool, and where its edges begin. Texts are [`Name`]s of the model's table.
#[derive(Debug, Clone)]
pub struct Vertex {
    pub(crate) type_: Name,
    pub(crate) basename: Name,
    pub(crate) name: Name,
    pub(crate) unit: Name,
    pub(crate) id: i64,
    pub(crate) unique: i64,
    pub(crate) size: u64,
    pub(crate) rank: i64,
    pub(crate) state: State,
    /// False once the vertex was removed; its number is not used again.
    pub(crate) present: bool,
    pub(crate) first_out: u32,
    pub(crate) last_out: u32,
    pub(crate) first_in: u32,
    pub(crate) last_in: u32,
}

/// End of a list of edges.
pub(crate) const NONE: u32 = u32::MAX;

impl Vertex {
    /// Its type, such as `core`.
    #[inline]
    pub fn type_(&self) -> Name {
        self.type_
    }

    /// The prefix of its name; its type unless given.
    #[inline]
    pub fn basename(&self) -> Name {
        self.basename
    }

    /// Its name: the given one, or basename and id.
    #[inline]
    pub fn name(&self) -> Name {
        self.name
    }

    /// The unit of its size; may be empty.
    #[inline]
    pub fn unit(&self) -> Name {
        self.unit
    }

    /// Its number among vertices of its type; `None` if it has none.
    #[inline]
    pub fn id(&self) -> Option<i64> {
        (self.id >= 0).then_some(self.id)
    }

    /// A number that is unique in the source from which the vertex was read.
    #[inline]
    pub fn unique(&self) -> i64 {
        self.unique
    }

    /// Units, 1 to [`SIZE_MAX`](crate::SIZE_MAX).
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The execution target it belongs to; `None` when it has none.
    #[inline]
    pub fn rank(&self) -> Option<i64> {
        (self.rank >= 0).then_some(self.rank)
    }

    /// Its own state. A vertex below one that is down is not available, whatever its own state is.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }
}

/// A pool to be added to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its type; not empty.
    pub type_: String,
    /// The prefix of its name; empty means the type.
    pub basename: String,
    /// Its name; empty means basename and id. `${key}` stands for the property `key`, or for one of the fields `type`,
    /// `basename`, `id`, `rank`, `size` and `unit`.
    pub name: String,
    /// The unit of its size; may be empty.
    pub unit: String,
    /// Its number among vertices of its type; a negative one means none.
    pub id: i64,
    /// A number that is unique in its source; `None` for its position in the model.
    pub unique: Option<i64>,
    /// Units: 1 to [`SIZE_MAX`](crate::SIZE_MAX).
    pub size: u64,
    /// The execution target it belongs to; a negative one means none.
    pub rank: i64,
    /// Its state.
    pub state: State,
    /// Static properties, with values that may be empty.
    pub properties: Vec<(String, String)>,
    /// Universally unique id; no other vertex may have it.
    pub uuid: Option<String>,
}

impl Pool {
    /// A pool of size 1 of a type, up, with this id and without a rank.
    pub fn new(type_: impl Into<String>, id: i64) -> Self {
        Pool {
            type_: type_.into(),
            basename: String::new(),
            name: String::new(),
            unit: String::new(),
            id,
            unique: None,
            size: 1,
            rank: -1,
            state: State::Up,
            properties: Vec::new(),
            uuid: None,
        }
    }
}
