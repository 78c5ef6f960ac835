//! One connection to an instance, for commands that ask something and end.

use anyhow::{Context, Result, anyhow};
use fluxgate_formats::JobId;
use fluxgate_wire::rpc::{Client as RpcClient, ResponseStream};
use serde_json::Value;

use crate::args::Target;
use crate::clock::Clock;
use crate::fail::usage;
use crate::place;

/// A connection with a runtime of its own.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    client: RpcClient,
}

impl Client {
    /// Connect to the instance that the user means.
    pub(crate) fn connect(target: &Target) -> Result<Client> {
        Client::connect_uri(&place::uri(target)?)
    }

    /// Connect to this socket.
    pub(crate) fn connect_uri(uri: &str) -> Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let (client, requests) = runtime.block_on(RpcClient::connect(uri))?;
        drop(requests);
        Ok(Client { runtime, client })
    }

    /// Ask, and wait for the answer.
    pub(crate) fn rpc(&self, topic: &str, payload: Value) -> Result<Value> {
        Ok(self.runtime.block_on(self.client.rpc(topic, payload))?)
    }

    /// Ask; the inner error is what the other side answered.
    pub(crate) fn lookup(&self, topic: &str, payload: Value) -> Result<Result<Value, i32>> {
        match self.runtime.block_on(self.client.rpc(topic, payload)) {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) if error.errnum != 0 => Ok(Err(error.errnum)),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that this is the embedded instance. A Flux has a command of its own for what `command` does.
    ///
    /// # Errors
    /// If it is not, with the command to use.
    pub(crate) fn embedded(&self, command: &str) -> Result<()> {
        match self.runtime.block_on(self.client.rpc("fluxgate-instance.info", Value::Null)) {
            Err(error) if error.errnum == fluxgate_wire::proto::errno::ENOSYS => {
                Err(crate::invoked::elsewhere(command))
            }
            // Any other fault shows at the next request.
            _ => Ok(()),
        }
    }

    /// The same for a question that only a scheduler can answer.
    pub(crate) fn sched(&self, topic: &str, payload: Value) -> Result<Value> {
        self.runtime.block_on(self.client.rpc(topic, payload)).map_err(|error| {
            if error.errnum == fluxgate_wire::proto::errno::ENOSYS {
                anyhow!(
                    "no Fluxgate scheduler serves this instance, or one that does not know {topic}; start one \
                     with 'fluxgate sched'"
                )
            } else {
                anyhow!(error.reason())
            }
        })
    }

    /// The instance's time, seconds since the epoch: the clock of an embedded one may run faster, that of a Flux is real time.
    pub(crate) fn now(&self) -> f64 {
        let info = self.rpc("fluxgate-instance.info", Value::Null).ok();
        info.and_then(|info| info["now"].as_f64()).unwrap_or_else(|| Clock::real().now())
    }

    /// Open a stream of answers.
    pub(crate) fn stream(&self, topic: &str, payload: Value) -> Result<ResponseStream> {
        let _context = self.runtime.enter();
        Ok(self.client.stream(topic, payload)?)
    }

    /// The next answer of a stream; `None` at its regular end.
    pub(crate) fn next(&self, stream: &mut ResponseStream) -> Result<Option<Value>> {
        Ok(self.runtime.block_on(stream.next()).transpose()?)
    }
}

impl Client {
    /// Wait until the other side has closed the connection.
    pub(crate) fn wait_until_closed(&self) {
        self.runtime.block_on(self.client.ended());
    }
}

/// A job id in any FLUID form.
pub(crate) fn job_id(text: &str) -> Result<JobId> {
    text.parse().map_err(|error| usage(format!("job id {text:?}: {error}")))
}
