//! The wire between Fluxgate and a Flux broker, real or embedded.
//!
//! Lowest floor first: [`proto`] and [`codec`] turn bytes into [`message::Message`]s; [`transport`] moves
//! them over a UNIX socket, [`server`] on the listening side; [`rpc`] is a client for everybody who asks.
//!
//! Nothing here decides what runs where: this crate translates.
#![forbid(unsafe_code)]

pub mod codec;
pub mod dialect;
pub mod logging;
pub mod message;
pub mod proto;
pub mod rpc;
pub mod server;
pub mod transport;

pub use message::{Kind, Message, PayloadError, ReplyTo};
pub use proto::{Flags, MessageType, errno, role};
pub use rpc::{Client, Requests, ResponseStream, RpcError};
pub use transport::{ConnectError, ConnectOptions, Connection, Disconnect, Options};
