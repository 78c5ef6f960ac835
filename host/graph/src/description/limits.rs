//! Bounds of every description of a machine, in any format.

/// Most units of one pool.
pub const SIZE_MAX: u64 = 1 << 53;
/// Deepest containment tree that is scheduled.
pub const DEPTH_MAX: u32 = 64;
/// Most ranks of one machine.
pub(crate) const NODES_MAX: u64 = 1 << 20;
/// Most members of one type on one node.
pub(crate) const MEMBERS_MAX: u64 = 1 << 20;
