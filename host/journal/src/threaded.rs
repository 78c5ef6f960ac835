//! The journal of a live scheduler: a thread with a clock, which pumps an [`Appender`] onto this machine's disk.
//!
//! Only this module of the crate has a clock or a thread. It only decides when to pump. Must never know records.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use crate::appender::Appender;
use crate::local_disk::LocalDisk;
use crate::options::{OpenError, Options};
use crate::writer::Writer;

impl Writer {
    /// Opens the folder on this machine's disk and starts the thread. The first entry must be a checkpoint.
    ///
    /// # Errors
    /// As [`Writer::on`]; [`OpenError::Io`] also if the thread cannot be started.
    pub fn open(options: &Options) -> Result<Writer, OpenError> {
        let (mut writer, appender) = Writer::on(Box::<LocalDisk>::default(), options)?;
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || run(appender))
            .map_err(|error| OpenError::Io { path: options.dir.clone(), error })?;
        // The thread ends with the queue; a panic in it was logged already.
        writer.finish = Some(Box::new(move || drop(thread.join())));
        Ok(writer)
    }
}

fn run(mut appender: Appender) {
    let begin = Instant::now();
    let now = || begin.elapsed().as_secs_f64();
    loop {
        appender.pump(now());
        match appender.entries.recv_timeout(appender.period()) {
            Ok(entry) => appender.take(entry, now()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    appender.close(now());
}
