//! Features, small networks, and the pass of a policy that was trained: the same code in the training environment, in
//! a native twin and in a component, so that all of them compute the same bits.
//!
//! - [`features`]: named, versioned sets of features.
//! - [`window`]: which waiting jobs are rows, when more wait than the network takes.
//! - `lanes`: a number of several rows, on WebAssembly in one vector.
//! - [`network`]: a kernel over every row, or one network over all rows, in f32 with a fixed order of sums.
//! - [`model`]: all of this together with the rules of the pass, as a file of weights describes it.
//! - [`noise`]: picks by chance, from a seed.
//! - [`pick`]: the pass in which rows are picked; the choice and the engine are parameters.
//! - `policy`: the policy of the SDK (feature `guest`).
//!
//! Only +, -, *, / and comparisons are used, which IEEE 754 defines to the bit, and integers. Constants of normalisation come from the
//! file of weights, never from the log or machine at hand. This crate reads no file and knows no format of files.

#![no_std]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "guest"))]
extern crate std;

pub mod features;
mod lanes;
pub mod model;
pub mod network;
pub mod noise;
pub mod pick;
#[cfg(feature = "guest")]
pub mod policy;
pub mod window;
