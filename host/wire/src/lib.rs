//! The wire between Fluxgate and a Flux broker, real or embedded.
//!
//! Lowest layer first: [`proto`] and [`codec`] turn bytes into [`message::Message`]s; [`transport`] moves them over a
//! UNIX socket, [`server`] on the listening side; [`rpc`] is a client for remote procedure calls. [`module`] is the
//! life cycle of a broker module (RFC 5). [`dialect`] reads and writes the payloads of RFC 27 and 28. [`session`] is
//! the scheduler's side of these RFCs as a state machine without I/O, between messages and the engine's events and
//! actions.
//!
//! This crate translates; it makes no scheduling decision.
#![deny(unsafe_code)]

pub mod codec;
pub mod dialect;
pub mod graph_service;
pub mod logging;
pub mod message;
pub mod module;
pub mod proto;
pub mod rpc;
pub mod server;
pub mod session;
pub mod transport;

pub use message::{Kind, Message, PayloadError, ReplyTo};
pub use proto::{Flags, MessageType, errno, role};
pub use rpc::{Client, Requests, ResponseStream, RpcError};
pub use session::{ControlRequest, Output, Session, SessionConfig, SessionError};
pub use transport::{ConnectError, ConnectOptions, Connection, Disconnect, Options};
