//! The scheduler's side of the conversation, over frames and over sockets.

mod broker;
mod codec;
mod common;
mod handshake;
mod host;
mod manager;
mod module;
mod nonsense;
mod pitfalls;
mod r27;
mod r28;
mod r3_r6_r12;
mod rows;
mod scripts;
mod serving;
mod socket;
mod talk;
mod unread;
mod watch;
mod world;
