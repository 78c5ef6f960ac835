//! Start of an instance, and the operations of its handle.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fluxgate_formats::Idset;
use fluxgate_wire::server::Listener;
use fluxgate_wire::transport::Options;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::config::Config;
use crate::durable::Durable;
use crate::error::InstanceError;
use crate::limits::{FRAME_SIZE_MAX, TURN_INPUTS_MAX};
use crate::runner::Runner;
use crate::shell::{Control, Input, Shell, accept};
use crate::store::Store;

/// The entry point: an instance is started from a [`Config`] and then controlled through its [`Handle`].
#[derive(Debug)]
pub struct Instance;

/// A running instance. Dropping the handle does not end it; see [`Handle::shutdown`].
#[derive(Debug)]
pub struct Handle {
    uri: String,
    socket: PathBuf,
    clock: Clock,
    inputs: mpsc::Sender<Input>,
    end: oneshot::Receiver<Result<(), InstanceError>>,
    ending: Arc<AtomicBool>,
}

struct Started {
    uri: String,
    socket: PathBuf,
    clock: Clock,
    inputs: mpsc::Sender<Input>,
}

impl Instance {
    /// Starts an instance in a thread of its own, and returns once its socket accepts clients.
    ///
    /// In the folder of an earlier instance, it continues from the state of that instance, also after a crash.
    ///
    /// # Errors
    /// [`InstanceError`] for an invalid configuration, a folder or database that cannot be used (another instance may run there), a
    /// socket that cannot be opened, or a thread that cannot be started.
    pub async fn start(config: Config) -> Result<Handle, InstanceError> {
        let (started, ready) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let ending = Arc::new(AtomicBool::new(false));
        let tell_ending = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("fluxgate-instance".to_owned());
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = match runtime {
                Ok(runtime) => {
                    let result = runtime.block_on(live(config, started, tell_ending));
                    // An audit may still be running; its result is not awaited.
                    runtime.shutdown_background();
                    result
                }
                Err(error) => Err(InstanceError::Thread(error.to_string())),
            };
            // The holder may be gone.
            let _ = ended.send(result);
        };
        thread.spawn(body).map_err(|error| InstanceError::Thread(error.to_string()))?;
        match ready.await {
            Ok(Started { uri, socket, clock, inputs }) => {
                Ok(Handle { uri, socket, clock, inputs, end, ending })
            }
            // It ended before it was ready, and says why.
            Err(_) => match end.await {
                Ok(Err(error)) => Err(error),
                _ => Err(InstanceError::Thread("ended before it was ready".to_owned())),
            },
        }
    }

    /// Starts an instance and runs it until it ends, by request of a client or by an error.
    ///
    /// # Errors
    /// As [`Instance::start`], and as [`Handle::wait`].
    pub async fn run(config: Config) -> Result<(), InstanceError> {
        Instance::start(config).await?.wait().await
    }
}

async fn live(
    config: Config,
    started: oneshot::Sender<Started>,
    ending: Arc<AtomicBool>,
) -> Result<(), InstanceError> {
    let system = Clock::system_now();
    let begin = config.start_time.unwrap_or(system);
    let (store, restored, latest) = Store::open(&config.dir, config.durability, begin)?;
    // A clock that runs at speed 1 is the time of day; a faster one stands still while no instance runs.
    let resumed = latest > 0.0;
    let real = config.speed == 1.0 && config.start_time.is_none();
    let now = match (resumed, real) {
        (true, true) => latest.max(system),
        (true, false) => latest,
        (false, _) => begin,
    };
    let clock = Clock::start(now, config.speed);
    let options = Options {
        limits: fluxgate_wire::codec::Limits { frame_size_max: FRAME_SIZE_MAX, ..Default::default() },
        ..Options::default()
    };
    let socket = config.socket_path();
    let listener = Listener::bind(&socket, config.access, options)?;
    let uri = listener.uri();
    let (report, reports) = mpsc::unbounded_channel();
    let runner = Runner::new(&config.dir, &uri, report);
    let core = Durable::new(config, restored, now, store)?;
    let (sender, inputs) = mpsc::channel(TURN_INPUTS_MAX);
    let shell = Shell::new(core, clock, runner, (sender.clone(), inputs), reports, ending);
    let acceptor = tokio::spawn(accept(listener, sender.clone()));
    // If the handle has been dropped already, the instance goes on for its clients.
    let _ = started.send(Started { uri, socket, clock, inputs: sender });
    let result = shell.run().await;
    acceptor.abort();
    // The listener removes its socket when it is dropped.
    let _ = acceptor.await;
    result
}

impl Handle {
    /// The address for clients, `local://` and the path of the socket.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The socket's path.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// A copy of the instance's clock. Time stands still in an instance that cannot write its records; this clock goes on.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// True once its orderly end was requested, by a client or through a handle. From then on its clients go, the scheduler among
    /// them; it is set before they are told.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    async fn control(&self, control: Control) {
        // An error means that the instance has ended; there is nothing left to control.
        let _ = self.inputs.send(Input::Control(control)).await;
    }

    /// Cuts the scheduler's connection, as a fault would. True if there was one; false also if the instance has ended.
    pub async fn drop_scheduler(&self) -> bool {
        let (done, answer) = oneshot::channel();
        self.control(Control::DropScheduler(done)).await;
        answer.await.unwrap_or(false)
    }

    /// Sets the nodes of these ranks down. With `lost`, or with [`Config::shrink_down_ranks`], they do not come back while this instance
    /// runs; a restarted one has all nodes up. Does nothing if the instance has ended.
    pub async fn nodes_down(&self, ranks: Idset, lost: bool) {
        self.control(Control::Down(ranks, lost)).await;
    }

    /// Sets the nodes of these ranks up, except for lost ones. Does nothing if the instance has ended.
    pub async fn nodes_up(&self, ranks: Idset) {
        self.control(Control::Up(ranks)).await;
    }

    /// Ends the instance in order, and waits for it.
    ///
    /// # Errors
    /// As [`Handle::wait`].
    pub async fn shutdown(self) -> Result<(), InstanceError> {
        self.control(Control::Shutdown).await;
        self.wait().await
    }

    /// Ends the instance as a crash would: uncommitted data are lost, and no client gets a message.
    ///
    /// # Errors
    /// As [`Handle::wait`].
    pub async fn abort(self) -> Result<(), InstanceError> {
        self.control(Control::Abort).await;
        self.wait().await
    }

    /// Requests the orderly end of the instance, without waiting for it.
    pub async fn request_shutdown(&self) {
        self.control(Control::Shutdown).await;
    }

    /// Waits until the instance has ended.
    ///
    /// # Errors
    /// The error that ended the instance, or [`InstanceError::Thread`] if its thread panicked.
    pub async fn wait(self) -> Result<(), InstanceError> {
        drop(self.inputs);
        self.end.await.unwrap_or_else(|_| Err(InstanceError::Thread("it panicked".to_owned())))
    }

    /// Waits until the instance has ended, keeping the handle for [`Handle::request_shutdown`]. To be called once: after the end it
    /// panics.
    ///
    /// # Errors
    /// As [`Handle::wait`].
    pub async fn ended(&mut self) -> Result<(), InstanceError> {
        let end = &mut self.end;
        end.await.unwrap_or_else(|_| Err(InstanceError::Thread("it panicked".to_owned())))
    }
}
