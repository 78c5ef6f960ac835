//! A connection between the scheduler and its broker: bytes that arrive late, in pieces, or not at all.
//!
//! Frames are made and read by the codec of `fluxgate-wire`. Bytes keep their order in each direction. When a connection
//! ends, any number of the bytes under way may still arrive, so that the last frame is cut at any byte.
//! Must never know what a message says.

use std::collections::VecDeque;

use fluxgate_wire::codec::{Decoder, encode};
use fluxgate_wire::message::Message;

use crate::agenda::Time;
use crate::dice::Dice;

/// Most pieces of one frame.
const PIECES_MAX: u64 = 4;

/// One direction.
#[derive(Debug, Default)]
pub struct Pipe {
    under_way: VecDeque<Vec<u8>>,
    /// The time at which the last of them arrives.
    last: Time,
    decoder: Decoder,
    /// Nothing arrives before this time.
    stalled: Time,
}

/// The delays of a direction, microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// The shortest.
    pub low: Time,
    /// The longest.
    pub high: Time,
    /// Frames in a thousand that arrive in pieces.
    pub pieces: u64,
}

impl Pipe {
    /// Sends a message, and returns the times at which its pieces arrive.
    pub fn send(&mut self, message: &Message, now: Time, delays: Delays, dice: &mut Dice) -> Vec<Time> {
        // All messages here are far below the bounds of a frame.
        let Ok(frame) = encode(message) else { return Vec::new() };
        let pieces = if dice.often(delays.pieces) { dice.range(2, PIECES_MAX) } else { 1 };
        let mut cuts: Vec<usize> = (1..pieces).map(|_| dice.below(frame.len() as u64) as usize).collect();
        cuts.push(frame.len());
        cuts.sort_unstable();
        let (mut begin, mut times) = (0, Vec::new());
        for end in cuts {
            if end == begin {
                continue;
            }
            let delay = dice.range(delays.low, delays.high);
            self.last = self.last.max(now + delay).max(self.stalled);
            self.under_way.push_back(frame[begin..end].to_vec());
            times.push(self.last);
            begin = end;
        }
        times
    }

    /// Nothing that is sent from now on arrives before this time.
    pub fn stall(&mut self, until: Time) {
        self.stalled = self.stalled.max(until);
    }

    /// The next piece arrives: returns the messages that are whole now.
    pub fn arrives(&mut self) -> Vec<Message> {
        if let Some(piece) = self.under_way.pop_front() {
            self.decoder.push(&piece);
        }
        self.messages()
    }

    /// The connection ends: some of the bytes under way still arrive. True if a frame was cut in the middle.
    pub fn ends(&mut self, dice: &mut Dice) -> (Vec<Message>, bool) {
        let bytes: Vec<u8> = self.under_way.drain(..).flatten().collect();
        let kept = match dice.below(3) {
            0 => 0,
            1 => bytes.len(),
            _ => dice.below(bytes.len() as u64 + 1) as usize,
        };
        self.decoder.push(&bytes[..kept]);
        let whole = self.messages();
        (whole, self.decoder.pending() > 0)
    }

    fn messages(&mut self) -> Vec<Message> {
        let mut whole = Vec::new();
        // The codec decodes every frame that it encoded; a test of the codec holds that.
        while let Ok(Some(message)) = self.decoder.next_message() {
            whole.push(message);
        }
        whole
    }

    /// Is nothing under way?
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}

/// See the module text.
#[derive(Debug, Default)]
pub struct Link {
    /// From the broker.
    pub to_scheduler: Pipe,
    /// To the broker.
    pub to_broker: Pipe,
}

impl Link {
    /// Is nothing under way?
    pub fn is_quiet(&self) -> bool {
        self.to_scheduler.is_empty() && self.to_broker.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_same_messages_and_an_end_cuts_anywhere() {
        let delays = Delays { low: 1, high: 9, pieces: 700 };
        for seed in 0..50 {
            let (mut dice, mut pipe) = (Dice::new(seed, "link"), Pipe::default());
            let mut times = Vec::new();
            for n in 0..10 {
                times.extend(pipe.send(&Message::request(&format!("a.b{n}")), n, delays, &mut dice));
            }
            assert!(times.is_sorted());
            let all: Vec<Message> = times.iter().take(7).flat_map(|_| pipe.arrives()).collect();
            let (rest, cut) = pipe.ends(&mut dice);
            let names: Vec<String> = all.iter().chain(&rest).map(|m| m.topic().to_owned()).collect();
            let wanted: Vec<String> = (0..names.len()).map(|n| format!("a.b{n}")).collect();
            assert_eq!(names, wanted);
            assert!(names.len() < 10 || !cut);
        }
    }
}
