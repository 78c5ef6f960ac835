//! The tokio driver of the scheduler service: its socket, signals, clock, worker threads and files.
//!
//! The service is a state machine on one task. The responder sees each message first, on a task of its own, and goes on
//! while the service makes a pass; questions of feasibility, and work that the service starts, are done on threads beside
//! both. Must never know what the service does with a message.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_artefact::audit::Trail;
use fluxgate_journal::{OpenError, Options, Writer};
use fluxgate_sched::{
    Checked, Configuration, Document, Finished, Heard, Host, NextTurn, Responder, Service, ServiceIdentity,
    Store, Usage, Work,
};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::SessionError;
use fluxgate_wire::transport::{Disconnect, Inbox, Outbox};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tracing::level_filters::LevelFilter;

use crate::calendar;
use crate::clock::Clock;
use crate::directory;
use crate::files;
use crate::logging::{self, Line, Lines};
use crate::policy_source::PolicySource;
use crate::service_manager::ServiceManager;

/// Messages taken in before the engine gets its turn, so that a flood cannot keep it from scheduling.
const MESSAGES_PER_TURN_MAX: usize = 4096;
/// Requests of guests taken in before the engine gets its turn.
const GUESTS_PER_TURN_MAX: usize = 16;
/// Time after which no further request of a guest is taken in: the messages of the instance's own services wait no longer.
const GUESTS_TIME_MAX: Duration = Duration::from_millis(1);
/// Matchtag of the questions asked before the session begins.
const EARLY_TAG: u32 = 1;
/// Longest time from a signal that ends the scheduler to the end of the process, whatever is under way.
const STOP_MAX: Duration = Duration::from_millis(900);

/// Runs `work` to its end. One thread does everything; during a pass another thread takes over the other tasks.
pub(crate) fn on_runtime(work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let work = runtime.spawn(work);
    let result = runtime.block_on(work).context("the scheduler's own task");
    // Work on other threads is of no use any more; components are compiled in processes that end with this one.
    runtime.shutdown_background();
    result?
}

/// Ask one question before the session begins; `None` when no service answers it.
async fn ask(outbox: &Outbox, inbox: &mut Inbox, topic: &str) -> Result<Option<Value>> {
    outbox.send(&Message::request(topic).with_json(&json!({})).with_matchtag(EARLY_TAG))?;
    loop {
        let answer = inbox.recv().await.map_err(|reason| anyhow!("the broker hung up: {reason}"))?;
        if answer.matchtag() != EARLY_TAG || !answer.is_response() {
            continue;
        }
        return match answer.errnum() {
            0 => answer.json().map(Some).with_context(|| topic.to_owned()),
            errno::ENOSYS => Ok(None),
            errnum => Err(anyhow!("{topic}: the broker answers error {errnum}")),
        };
    }
}

/// The clock of the instance. An embedded instance has one of its own; a broker does not know the question.
pub(crate) async fn ask_clock(outbox: &Outbox, inbox: &mut Inbox) -> Result<Clock> {
    let Some(payload) = ask(outbox, inbox, "fluxgate-instance.info").await? else { return Ok(Clock::real()) };
    match (payload["now"].as_f64(), payload["speed"].as_f64()) {
        (Some(now), Some(speed)) if speed > 0.0 => Ok(Clock::at(now, speed)),
        _ => bail!("fluxgate-instance.info: expected numbers now and speed, found {payload}"),
    }
}

/// The configuration of the instance.
pub(crate) async fn ask_config(outbox: &Outbox, inbox: &mut Inbox) -> Result<Value> {
    Ok(ask(outbox, inbox, "config.get").await?.unwrap_or(Value::Null))
}

/// True if the error is only that the instance went down.
pub(crate) fn is_orderly(error: &anyhow::Error) -> bool {
    error.downcast_ref::<SessionError>().is_some_and(SessionError::is_orderly)
}

/// Runs the scheduler of the broker at the other end, until the broker or a signal ends it. The line `ready`, if there is one, is
/// written to standard output when the scheduler is ready. The state of the scheduler is reported to `manager`.
pub(crate) async fn serve(
    identity: ServiceIdentity,
    configuration: Configuration,
    clock: Clock,
    (outbox, inbox): (&Outbox, &mut Inbox),
    lines: Lines,
    (ready, manager): (Option<&str>, ServiceManager),
) -> Result<()> {
    let components = Arc::new(PolicySource::of(configuration.settings())?);
    let (finished, arrivals) = mpsc::unbounded_channel();
    let host = Outside { clock, outbox: outbox.clone(), finished };
    let service = Service::new(Arc::new(host), identity, configuration, components)?;
    let guests = open_desk(service.responder(), clock, inbox, outbox);
    let mut driver = Driver { service, clock, arrivals, guests, lines, ready, manager };
    let result = driver.turns(inbox).await;
    driver.manager.stopping();
    while let Some(line) = driver.lines.try_recv() {
        driver.log(&line);
    }
    driver.service.goodbye();
    result
}

struct Driver<'a> {
    service: Service,
    clock: Clock,
    /// Work that was done.
    arrivals: mpsc::UnboundedReceiver<Finished>,
    /// A request of a guest has come.
    guests: Arc<Notify>,
    lines: Lines,
    /// The line that is still to be written to standard output.
    ready: Option<&'a str>,
    manager: ServiceManager,
}

impl Driver<'_> {
    /// One turn after the other: until the broker or a signal says that it is over, or something is fatal.
    async fn turns(&mut self, inbox: &mut Inbox) -> Result<()> {
        let responder = self.service.responder();
        let mut stop = stop_signals(Arc::clone(&responder))?;
        let mut hangup = signal(SignalKind::hangup())?;
        self.service.start();
        loop {
            self.take_guests(&responder);
            self.turn(!inbox.is_empty())?;
            if self.service.is_leaving() {
                return Ok(());
            }
            let (busy, idle) = (self.service.is_busy() || responder.has_guests(), self.idle_for());
            tokio::select! {
                biased;
                _ = stop.recv() => return Ok(()),
                _ = hangup.recv() => {
                    self.manager.reloading();
                    self.service.hangup();
                }
                message = inbox.recv() => match message {
                    Ok(message) => self.messages(message, inbox),
                    Err(Disconnect::Local) => return Ok(()),
                    Err(reason) => bail!("the connection to the broker is lost: {reason}"),
                },
                Some(finished) = self.arrivals.recv() => self.service.finished(finished),
                () = self.guests.notified() => {}
                Some(line) = self.lines.recv() => self.log(&line),
                () = tokio::time::sleep(idle), if !busy => {}
                () = std::future::ready(()), if busy => {}
            }
        }
    }

    /// One turn; `waiting` when there are messages that were not taken in yet.
    fn turn(&mut self, waiting: bool) -> Result<()> {
        if self.service.prepare() {
            if waiting {
                cut_in_time(&self.service.responder(), self.clock);
            }
            // The other tasks of this thread, the responder's first of all, go on beside it.
            tokio::task::block_in_place(|| self.service.pass());
        }
        self.service.settle(waiting)?;
        if self.service.is_ready()
            && let Some(line) = self.ready.take()
        {
            // The reader may be gone.
            let mut out = io::stdout();
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
        self.manager.turn(&self.service);
        Ok(())
    }

    /// Take in this message and those that are there already, so that a burst costs one pass.
    fn messages(&mut self, first: Message, inbox: &mut Inbox) {
        self.service.message(first);
        for _ in 1..MESSAGES_PER_TURN_MAX {
            let Some(message) = inbox.try_recv() else { break };
            self.service.message(message);
        }
    }

    /// Take in some requests of guests.
    fn take_guests(&mut self, responder: &Responder) {
        let begin = self.clock.elapsed();
        for _ in 0..GUESTS_PER_TURN_MAX {
            let Some(message) = responder.guest() else { break };
            self.service.message(message);
            if self.clock.elapsed().saturating_sub(begin) > GUESTS_TIME_MAX {
                break;
            }
        }
    }

    fn log(&self, line: &Line) {
        self.service.log(line.severity, &line.text);
    }

    /// The time until the next work, if nothing happens before.
    fn idle_for(&self) -> Duration {
        let NextTurn { time, elapsed } = self.service.next_turn();
        let idle = self.clock.until(time).min(elapsed.saturating_sub(self.clock.elapsed()));
        idle.min(self.manager.idle_for())
    }
}

/// Receives SIGINT and SIGTERM on a task of its own. A signal cuts the pass that is being made, and the process ends in time even
/// if other work goes on.
fn stop_signals(responder: Arc<Responder>) -> Result<mpsc::Receiver<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (told, stop) = mpsc::channel(1);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // A thread, as every task of the runtime may be waiting for something.
        let _ = std::thread::Builder::new().name("stop".to_owned()).spawn(|| {
            std::thread::sleep(STOP_MAX);
            fluxgate_log::log!(
                StoppedInPass,
                "ended by a signal in the middle of a pass: states of policies are those of their last save"
            );
            std::process::exit(0);
        });
        responder.cut_now();
        let _ = told.send(()).await;
    });
    Ok(stop)
}

/// Have the responder see each message before the service does. The result is notified of requests of guests.
fn open_desk(responder: Arc<Responder>, clock: Clock, inbox: &mut Inbox, outbox: &Outbox) -> Arc<Notify> {
    let (watched, checked) = (Arc::downgrade(&responder), Arc::downgrade(&responder));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Responder::LOOK_PERIOD).await;
            let Some(responder) = watched.upgrade() else { break };
            responder.look(clock.elapsed());
        }
    });
    let (questions, guests) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    tokio::spawn(check_questions(checked, clock, outbox.clone(), Arc::clone(&questions)));
    let (outbox, guests_come) = (outbox.clone(), Arc::clone(&guests));
    inbox.through(move |message| {
        match responder.hear(message) {
            Heard::Answer(answer) => {
                // A connection that is gone shows when it is read.
                let _ = outbox.send(&answer);
            }
            Heard::Question => questions.notify_one(),
            Heard::Guest => guests_come.notify_one(),
            Heard::Dropped => {}
            Heard::Onward(message) => {
                cut_in_time(&responder, clock);
                return Some(message);
            }
        }
        None
    });
    guests
}

/// Answer questions of feasibility as they come, on a thread for that.
async fn check_questions(responder: Weak<Responder>, clock: Clock, outbox: Outbox, questions: Arc<Notify>) {
    let mut wait = None;
    loop {
        let pause = wait.unwrap_or(Duration::MAX);
        tokio::select! {
            () = questions.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        let Some(responder) = responder.upgrade() else { break };
        let outbox = outbox.clone();
        let checked = tokio::task::spawn_blocking(move || {
            loop {
                match responder.check(|| clock.elapsed()) {
                    Checked::Answer(answer) => {
                        // A connection that is gone shows when it is read.
                        let _ = outbox.send(&answer);
                    }
                    Checked::Wait(time) => break Some(time),
                    Checked::Idle => break None,
                }
            }
        });
        // A check that fails leaves its question without an answer; the other questions go on.
        wait = checked.await.unwrap_or(None);
    }
}

/// Cuts the pass that is being made, if any, when the cut is due, because a message waits.
fn cut_in_time(responder: &Arc<Responder>, clock: Clock) {
    let Some(cut) = responder.waits() else { return };
    let responder = Arc::clone(responder);
    tokio::spawn(async move {
        tokio::time::sleep(cut.at.saturating_sub(clock.elapsed())).await;
        responder.cut(&cut);
    });
}

/// The world as the service sees it.
#[derive(Clone)]
struct Outside {
    clock: Clock,
    outbox: Outbox,
    finished: mpsc::UnboundedSender<Finished>,
}

impl Host for Outside {
    fn now(&self) -> f64 {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn wall_clock(&self) -> f64 {
        Clock::real().now()
    }

    fn send(&self, message: Message) {
        // A connection that is gone shows when it is read.
        let _ = self.outbox.send(&message);
    }

    fn start(&self, work: Work) {
        let host = self.clone();
        tokio::task::spawn_blocking(move || {
            let finished = work.run(&host);
            // Without a receiver the service is gone, and no request waits for this.
            let _ = host.finished.send(finished);
        });
    }

    fn read(&self, document: Document<'_>) -> Result<Option<Vec<u8>>> {
        match document {
            Document::Config(path) => files::config_text(path).map(|text| Some(text.into_bytes())),
            Document::PolicyState { path, bytes_max } => files::read_private(path, bytes_max),
        }
    }

    fn store(&self, store: Store<'_>) -> io::Result<()> {
        match store {
            Store::AuditTrail(path, entry) => Trail::at(path).append(entry),
            Store::PolicyState(path, bytes) => files::write_private(path, bytes),
            Store::NoPolicyState(path) => fs::remove_file(path),
        }
    }

    fn journal(&self, options: &Options) -> Result<Writer, OpenError> {
        Writer::open(options)
    }

    fn local_time(&self, time: f64) -> String {
        calendar::local(time, &jiff::tz::TimeZone::system())
    }

    fn next_occurrence(&self, every: &str, zone: &str, after: f64) -> Result<f64> {
        calendar::next(every, &calendar::zone(zone)?, after)
    }

    fn group_members(&self, group: &str) -> Result<BTreeSet<u32>> {
        directory::members(group)
    }

    fn usage(&self, of: Usage) -> Result<Value> {
        let who = match of {
            Usage::Process => UsageWho::RUSAGE_SELF,
            Usage::Children => UsageWho::RUSAGE_CHILDREN,
            Usage::Thread => UsageWho::RUSAGE_THREAD,
        };
        let usage = getrusage(who).context("getrusage")?;
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Ok(json!({
            "utime": seconds(usage.user_time()), "stime": seconds(usage.system_time()),
            "maxrss": usage.max_rss(), "ixrss": usage.shared_integral(),
            "idrss": usage.unshared_data_integral(), "isrss": usage.unshared_stack_integral(),
            "minflt": usage.minor_page_faults(), "majflt": usage.major_page_faults(),
            "nswap": usage.full_swaps(), "inblock": usage.block_reads(), "oublock": usage.block_writes(),
            "msgsnd": usage.ipc_sends(), "msgrcv": usage.ipc_receives(), "nsignals": usage.signals(),
            "nvcsw": usage.voluntary_context_switches(), "nivcsw": usage.involuntary_context_switches(),
        }))
    }

    fn process_size(&self) -> (u64, u64) {
        // Both are of Linux alone.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        let resident = resident.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
        // The folder itself is open while it is read.
        let files = fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1));
        (resident * 1024, files as u64)
    }

    fn set_log_level(&self, level: LevelFilter) -> Result<()> {
        logging::set_broker_level(level)
    }
}
