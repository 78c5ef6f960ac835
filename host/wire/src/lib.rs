//! The wire between Fluxgate and a Flux broker, real or embedded.
//!
//! Lowest floor first: [`proto`] and [`codec`] turn bytes into [`message::Message`]s; [`transport`] moves
//! them over a UNIX socket, [`server`] on the listening side; [`rpc`] is a client for everybody who asks.
//! [`module`] is the life of a broker module (RFC 5). [`dialect`] reads and writes the payloads of RFC 27 and 28, and [`session`] is the scheduler's side of
//! those as a state machine without I/O, between messages and the engine's events and actions.
//!
//! Nothing here decides what runs where: this crate translates.
#![deny(unsafe_code)]

pub mod codec;
pub mod dialect;
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
