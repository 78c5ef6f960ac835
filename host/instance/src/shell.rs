//! The loop that joins state machine, database, sockets, processes and the clock.
//!
//! A turn: wait for input or for a time; take all inputs at hand; pass them to the state machine; commit its records;
//! then carry out its effects. The loop runs in a thread of its own, so that neither it nor the rest of the process can
//! block the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fluxgate_formats::Idset;
use fluxgate_wire::server::{Listener, Peer};
use fluxgate_wire::transport::{Connection, Outbox};
use fluxgate_wire::{Message, ReplyTo};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::durable::Durable;
use crate::effect::{ClientId, Effect};
use crate::error::InstanceError;
use crate::limits::{COMMIT_RETRY, KILL_TIMEOUT, SCHED_BACKLOG_MAX, TURN_ALLOCS_MAX, TURN_INPUTS_MAX};
use crate::runner::{Report, Runner};
use crate::store::Store;

/// Maximum wait of the loop for a scheduler that does not read.
const BACKLOG_PAUSE: Duration = Duration::from_millis(2);
/// Maximum wait at the end for clients to read their messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// An input of the loop.
pub(crate) enum Input {
    Connected(Peer, Outbox, mpsc::UnboundedSender<ClientId>),
    Message(ClientId, Message),
    Gone(ClientId, String),
    Audited(ClientId, Box<ReplyTo>, Result<Value, String>),
    Control(Control),
}

/// A request of the instance's handle.
pub(crate) enum Control {
    Shutdown,
    Abort,
    DropScheduler(oneshot::Sender<bool>),
    Down(Idset, bool),
    Up(Idset),
}

pub(crate) struct Shell {
    pub(crate) core: Durable<Store>,
    pub(crate) clock: Clock,
    pub(crate) runner: Runner,
    pub(crate) inputs: mpsc::Receiver<Input>,
    pub(crate) sender: mpsc::Sender<Input>,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    clients: BTreeMap<ClientId, Outbox>,
    next_client: u64,
    /// Set when the instance is ending: the time until which it waits for processes.
    ending: Option<Instant>,
    /// Set for the holder of the handle once the instance ends in order.
    tell_ending: Arc<AtomicBool>,
    aborted: bool,
    /// When the records are tried again that could not be written.
    retry: Option<Instant>,
}

/// Accepts clients as long as the loop takes them.
pub(crate) async fn accept(listener: Listener, inputs: mpsc::Sender<Input>) {
    loop {
        match listener.accept().await {
            Ok((peer, Connection { outbox, inbox })) => {
                tokio::spawn(serve(peer, outbox, inbox, inputs.clone()));
            }
            Err(error) => {
                // Too many open files, most likely: some will be closed later.
                tracing::error!(%error, "cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(
    peer: Peer,
    outbox: Outbox,
    mut inbox: fluxgate_wire::transport::Inbox,
    inputs: mpsc::Sender<Input>,
) {
    let (tell, mut told) = mpsc::unbounded_channel();
    if inputs.send(Input::Connected(peer, outbox, tell)).await.is_err() {
        return;
    }
    let Some(id) = told.recv().await else { return };
    let reason = loop {
        match inbox.recv().await {
            Ok(message) => {
                if inputs.send(Input::Message(id, message)).await.is_err() {
                    return;
                }
            }
            Err(reason) => break reason.to_string(),
        }
    };
    let _ = inputs.send(Input::Gone(id, reason)).await;
}

impl Shell {
    pub(crate) fn new(
        core: Durable<Store>,
        clock: Clock,
        runner: Runner,
        (sender, inputs): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
        reports: mpsc::UnboundedReceiver<Report>,
        tell_ending: Arc<AtomicBool>,
    ) -> Self {
        Shell {
            core,
            clock,
            runner,
            inputs,
            sender,
            reports,
            clients: BTreeMap::new(),
            next_client: 1,
            ending: None,
            tell_ending,
            aborted: false,
            retry: None,
        }
    }

    /// Runs until the instance ends.
    pub(crate) async fn run(mut self) -> Result<(), InstanceError> {
        let mut more = true;
        loop {
            let mut batch = Vec::new();
            if more {
                tokio::task::yield_now().await;
            } else {
                self.wait(&mut batch, None).await;
            }
            while batch.len() < TURN_INPUTS_MAX
                && let Ok(input) = self.inputs.try_recv()
            {
                batch.push(input);
            }
            more = self.turn(batch);
            if self.aborted {
                return Ok(());
            }
            if more && self.window() == 0 {
                let mut batch = Vec::new();
                self.wait(&mut batch, Some(BACKLOG_PAUSE)).await;
                more |= self.turn(batch);
            }
            if let Some(deadline) = self.ending {
                if !self.core.processes_running() {
                    break;
                }
                if Instant::now() >= deadline {
                    tracing::warn!("processes did not end in time");
                    break;
                }
            }
        }
        self.farewell().await;
        self.core.into_hold().map_or(Ok(()), |why| Err(why.into()))
    }

    async fn wait(&mut self, batch: &mut Vec<Input>, limit: Option<Duration>) {
        let mut pause = limit.unwrap_or(Duration::from_secs(3600));
        match self.retry {
            Some(retry) => pause = pause.min(retry.saturating_duration_since(Instant::now())),
            None => {
                let wake = self.core.next_wake();
                pause = wake.map_or(pause, |wake| pause.min(self.clock.until(wake)));
            }
        }
        if let Some(deadline) = self.ending {
            pause = pause.min(deadline.saturating_duration_since(Instant::now()));
        }
        tokio::select! {
            biased;
            Some(report) = self.reports.recv(), if self.retry.is_none() => self.reported(report),
            Some(input) = self.inputs.recv() => batch.push(input),
            () = tokio::time::sleep(pause) => {}
        }
    }

    fn reported(&mut self, report: Report) {
        self.core.advance(self.clock.now());
        let id = match report {
            Report::Exited(id, status) => {
                self.core.task_exited(id, status);
                id
            }
            Report::Failed(id, note, status) => {
                self.core.task_failed(id, &note, status);
                id
            }
        };
        if !self.core.executes(id) {
            self.runner.sweep(id);
        }
    }

    fn window(&self) -> usize {
        let outbox = self.core.scheduler().and_then(|client| self.clients.get(&client));
        let full = outbox.is_some_and(|outbox| outbox.queued() > SCHED_BACKLOG_MAX);
        if full { 0 } else { TURN_ALLOCS_MAX }
    }

    /// One turn. True if there is more to do at once.
    fn turn(&mut self, batch: Vec<Input>) -> bool {
        if self.retry.is_some_and(|retry| retry <= Instant::now()) {
            self.try_again();
        }
        let mut more = self.core.advance(self.clock.now());
        while self.retry.is_none()
            && let Ok(report) = self.reports.try_recv()
        {
            self.reported(report);
        }
        for input in batch {
            self.input(input);
        }
        more |= self.core.pump(self.window());
        if self.aborted {
            return false;
        }
        let effects = self.core.settle();
        if let (Some(why), None) = (self.core.holds(), self.retry) {
            tracing::error!(
                "the instance waits until its records can be written, and tries again every second: {why}"
            );
            self.retry = Some(Instant::now() + COMMIT_RETRY);
        }
        self.carry_out(effects);
        more
    }

    /// The records that could not be written are tried again.
    fn try_again(&mut self) {
        let effects = self.core.retry();
        self.carry_out(effects);
        self.retry = self.core.holds().map(|_| Instant::now() + COMMIT_RETRY);
        if self.retry.is_none() {
            tracing::warn!("the records are written; the instance goes on");
        }
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Connected(peer, outbox, tell) => {
                let id = ClientId(self.next_client);
                self.next_client += 1;
                tracing::debug!(client = id.0, uuid = peer.uuid, "connected");
                self.clients.insert(id, outbox);
                self.core.connect(id, peer);
                // An error means that the client has disconnected; that is reported, too.
                let _ = tell.send(id);
            }
            Input::Message(id, message) => self.core.message(id, message),
            Input::Gone(id, reason) => {
                tracing::debug!(client = id.0, reason, "gone");
                self.clients.remove(&id);
                self.core.disconnect(id);
            }
            Input::Audited(client, reply, answer) => self.core.audited(client, &reply, answer),
            Input::Control(control) => match control {
                Control::Shutdown => self.core.shutdown(),
                Control::Abort => self.aborted = true,
                Control::DropScheduler(done) => {
                    let outbox = self.core.scheduler().and_then(|client| self.clients.get(&client));
                    if let Some(outbox) = outbox {
                        outbox.close();
                    }
                    let _ = done.send(outbox.is_some());
                }
                Control::Down(ranks, lost) => self.core.nodes_down(&ranks, lost),
                Control::Up(ranks) => self.core.nodes_up(&ranks),
            },
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        if effects.iter().any(|effect| matches!(effect, Effect::Shutdown)) {
            self.tell_ending.store(true, Ordering::Release);
        }
        // Consecutive messages to one client are written together.
        let mut gathered: Vec<Message> = Vec::new();
        let mut to = None;
        for effect in effects {
            if let Effect::Send(client, message) = effect {
                if to != Some(client) {
                    self.send(to, &mut gathered);
                    to = Some(client);
                }
                gathered.push(message);
                continue;
            }
            self.send(to, &mut gathered);
            match effect {
                Effect::Send(..) => {}
                Effect::Close(client) => {
                    if let Some(outbox) = self.clients.get(&client) {
                        outbox.close();
                    }
                }
                Effect::Spawn(launch) => self.runner.spawn(&launch),
                Effect::Signal { id, signal } => self.runner.signal(id, signal),
                Effect::Reattach { id } => self.runner.reattach(id),
                Effect::Audit { client, reply, active, machine } => {
                    let (database, inputs) = (self.core.records().path().to_owned(), self.sender.clone());
                    tokio::task::spawn_blocking(move || {
                        let answer = crate::audit::audit(&database, &active, &machine);
                        let _ = inputs.blocking_send(Input::Audited(client, reply, answer));
                    });
                }
                Effect::Shutdown => self.ending = Some(Instant::now() + KILL_TIMEOUT * 2),
            }
        }
        self.send(to, &mut gathered);
    }

    fn send(&self, to: Option<ClientId>, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        if let Some(outbox) = to.and_then(|client| self.clients.get(&client))
            && let Err(error) = outbox.send_all(messages)
        {
            tracing::warn!(client = to.map(|c| c.0), %error, "cannot send");
        }
        messages.clear();
    }

    async fn farewell(&mut self) {
        let flush = async {
            for outbox in self.clients.values() {
                outbox.flush().await;
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, flush).await.is_err() {
            tracing::warn!("a client did not read its last messages");
        }
        self.clients.clear();
        // The connections' own tasks shut the sockets down once their channels are closed.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
