//! `fluxgate replay --hook`: the events of a run as JSON lines, in a file, a FIFO or on standard output.
//!
//! Must never know how the events came about.

use std::io::{self, BufWriter, Write};

use fluxgate_sim::events::{Event, Listener};

/// Writes each event; those of an instant are there when it is over.
pub(super) struct Lines<W: Write>(BufWriter<W>);

impl<W: Write> Lines<W> {
    pub(super) fn new(out: W) -> Self {
        Lines(BufWriter::new(out))
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Listener for Lines<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        write(&mut self.0, event)?;
        if matches!(event, Event::Instant(_) | Event::Over { .. }) { self.0.flush() } else { Ok(()) }
    }
}

/// One event as a line.
pub(super) fn write(out: &mut impl Write, event: &Event) -> io::Result<()> {
    serde_json::to_writer(&mut *out, event)?;
    out.write_all(b"\n")
}
