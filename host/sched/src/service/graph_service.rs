//! Requests under the names of the graph scheduler: status and properties of vertices by path, counters, parameters.
//!
//! A request that repeats the present state is answered and is no event. Must never know what a vertex means to a policy.

use std::collections::BTreeSet;

use fluxgate_engine::{Engine, Event, QueueStatus, RpcError};
use fluxgate_formats::JobId;
use fluxgate_graph::Resources;
use fluxgate_wire::graph_service::{
    QUEUE_SERVICE, RESOURCE_SERVICE, VertexRequest, is_graph_service, missing_path, missing_property,
    refusal, unknown_path, unknown_status, vertex_request,
};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use super::{Service, find};

/// Most parent paths of unknown vertices that are remembered.
const PARENTS_MAX: usize = 1024;
/// Most job ids of one kind in the counters of a queue.
const IDS_MAX: usize = 4096;

/// Counters of these services, and the unknown paths that were logged.
#[derive(Debug, Default)]
pub(super) struct GraphService {
    /// The parents of unknown vertices that were logged.
    unknown: BTreeSet<String>,
    /// When the engine was made.
    pub(super) began: f64,
    /// When the counters were cleared, starts and denials then.
    cleared: Option<(f64, u64, u64)>,
}

impl GraphService {
    /// A path that no vertex has is logged once for all below the same parent: a storage service that has wrong paths
    /// goes on without a word, and its storage never comes up.
    fn unknown(&mut self, request: &ControlRequest, path: &str) {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if self.unknown.len() < PARENTS_MAX && self.unknown.insert(parent.to_owned()) {
            fluxgate_log::log!(
                PathUnknown,
                "{}: could not find path '{path}' in resource graph; no further paths below '{parent}' are logged",
                request.topic
            );
        }
    }
}

impl Service {
    /// Serve a request about vertices, or one under the names of the graph scheduler; false for any other.
    pub(super) fn graph_request(&mut self, request: &ControlRequest) -> bool {
        let (service, method) = (request.service(), request.method());
        let graph = is_graph_service(service);
        let vertices = service != QUEUE_SERVICE;
        let question = vertices.then(|| vertex_request(method, &request.payload)).flatten();
        if question.is_some() && self.kept_vertices.postpone(request) {
            return true;
        }
        let answer = match question {
            Some(Ok(question)) => self.vertex(request, question),
            Some(Err(error)) => Err(error),
            None if !graph => return false,
            // The responder answers pings that want an answer.
            None if method == "ping" => return true,
            None => self.graph_answer(request),
        };
        let message = match answer {
            Ok(payload) => request.ok(&payload),
            Err(RpcError { errnum, text }) => request.error(errnum, &text),
        };
        self.send(message);
        true
    }

    /// Status and properties that were set on vertices, for our own commands.
    pub(super) fn vertex_marks(&self) -> anyhow::Result<Value> {
        let marks = self.engine.as_ref().map(|engine| engine.resources().vertex_marks());
        Ok(serde_json::to_value(marks.unwrap_or_default())?)
    }

    fn vertex(&mut self, request: &ControlRequest, question: VertexRequest) -> Result<Value, RpcError> {
        let set = match &question {
            _ if !self.kept_vertices.is_unread() => None,
            VertexRequest::SetStatus { path, .. } => Some((vec![path.clone()], None)),
            VertexRequest::SetProperty { paths, key, .. } | VertexRequest::RemoveProperty { paths, key } => {
                Some((paths.clone(), Some(key.clone())))
            }
            VertexRequest::GetProperty { .. } => None,
        };
        let answer = self.vertex_answer(request, question)?;
        if let Some((paths, key)) = set {
            self.note_set(&paths, key.as_ref());
        }
        Ok(answer)
    }

    fn vertex_answer(
        &mut self,
        request: &ControlRequest,
        question: VertexRequest,
    ) -> Result<Value, RpcError> {
        let resources = self.running_engine()?.resources();
        let missing = |paths: &[String]| paths.iter().find(|path| !resources.has_path(path)).cloned();
        match question {
            VertexRequest::SetStatus { path, status } => {
                let Ok(down) = resources.is_marked_down(&path) else {
                    self.graph_service.unknown(request, &path);
                    return Err(unknown_path(&path));
                };
                let up = match status.as_str() {
                    "up" => true,
                    "down" => false,
                    other => return Err(unknown_status(other)),
                };
                if down == up {
                    self.step(Event::VertexStatus { paths: vec![path], up });
                }
                Ok(Value::Null)
            }
            VertexRequest::SetProperty { paths, key, value } => {
                if let Some(path) = missing(&paths) {
                    self.graph_service.unknown(request, &path);
                    return Err(missing_path(&path));
                }
                if !paths.iter().all(|path| has(resources, path, &key, Some(&value))) {
                    self.step(Event::VertexProperty { paths, key, value: Some(value) });
                }
                Ok(json!({}))
            }
            VertexRequest::RemoveProperty { paths, key } => {
                if let Some(path) = missing(&paths) {
                    self.graph_service.unknown(request, &path);
                    return Err(missing_path(&path));
                }
                if !paths.iter().all(|path| has(resources, path, &key, None)) {
                    self.step(Event::VertexProperty { paths, key, value: None });
                }
                Ok(json!({}))
            }
            VertexRequest::GetProperty { path, key } => {
                let values = resources.vertex_property(&path, &key).map_err(|_| missing_path(&path))?;
                if values.is_empty() {
                    return Err(missing_property(&path, &key));
                }
                Ok(json!({ "values": values }))
            }
        }
    }

    fn running_engine(&self) -> Result<&Engine, RpcError> {
        self.engine.as_deref().ok_or_else(|| refusal(errno::EAGAIN, "the scheduler is still starting"))
    }

    fn graph_answer(&mut self, request: &ControlRequest) -> Result<Value, RpcError> {
        match (request.service(), request.method()) {
            (RESOURCE_SERVICE, "status") => Ok(self.resource_status()),
            (RESOURCE_SERVICE, "find") => find::find(self.running_engine()?, &request.payload),
            (RESOURCE_SERVICE, "info") => find::info(self.running_engine()?, &request.payload),
            (RESOURCE_SERVICE, "stats-get") => Ok(self.graph_stats()),
            (RESOURCE_SERVICE, "params") => Ok(self.graph_params()),
            (QUEUE_SERVICE, "stats-get") => Ok(self.queue_stats()),
            (QUEUE_SERVICE, "params") => Ok(self.queue_params()),
            (_, "stats-clear") => {
                let now = self.host.now();
                let stats = self.engine.as_ref().map(|engine| *engine.stats()).unwrap_or_default();
                self.graph_service.cleared = Some((now, stats.starts, stats.denied));
                Ok(Value::Null)
            }
            _ => Err(refusal(errno::ENOSYS, format!("{}: no such method", request.topic))),
        }
    }

    fn graph_stats(&self) -> Value {
        let Some(engine) = &self.engine else { return json!({}) };
        let (resources, stats, now) = (engine.resources(), engine.stats(), self.host.now());
        let counts = resources.vertex_counts();
        let by_rank: Map<String, Value> =
            counts.by_rank.iter().map(|(ranks, count)| (format!("[{ranks}]"), json!(count))).collect();
        let (since, starts, denied) = self.graph_service.cleared.unwrap_or((self.graph_service.began, 0, 0));
        // The time that single searches take is not measured.
        let figures = |jobs: u64, before: u64| {
            json!({
                "njobs": jobs, "njobs-reset": jobs.saturating_sub(before), "max-match-jobid": 0,
                "max-match-iters": 0, "stats": {"min": 0.0, "max": 0.0, "avg": 0.0, "variance": 0.0},
            })
        };
        json!({
            "V": counts.vertices, "E": counts.edges, "by_rank": by_rank, "load-time": 0.0,
            "graph-uptime": now - self.graph_service.began, "time-since-reset": now - since,
            "match": {"succeeded": figures(stats.starts, starts), "failed": figures(stats.denied, denied)},
        })
    }

    fn graph_params(&self) -> Value {
        let resources = self.engine.as_ref().map(|engine| engine.resources());
        let format = if resources.is_some_and(Resources::has_site_graph) { "jgf" } else { "rv1exec" };
        let settings = &self.configuration.settings;
        json!({"params": {
            "load-file": "", "load-format": format, "load-allowlist": "", "policy": settings.placement.name(),
            "match-format": settings.record_format.name(), "subsystems": "containment",
            "reserve-vtx-vec": 0, "prune-filters": "", "update-interval": 0, "traverser": "simple",
        }})
    }

    /// The queues by name; the anonymous one, or none at all, is called default.
    fn queues_by_name(&self, row: impl Fn(&Engine, &QueueStatus<'_>) -> Value) -> Map<String, Value> {
        let Some(engine) = &self.engine else { return Map::new() };
        let name = |queue: &str| if queue.is_empty() { "default".to_owned() } else { queue.to_owned() };
        let rows = engine.queues().map(|queue| (name(queue.queue), row(engine, &queue)));
        let mut rows: Map<String, Value> = rows.collect();
        // A queue is known to the engine from its first job on.
        let settings = &self.configuration.settings;
        let named = settings.queue_names().filter(|name| !settings.virtual_queues.contains_key(*name));
        let mut missing: Vec<&str> = named.filter(|name| !rows.contains_key(*name)).collect();
        if rows.is_empty() && missing.is_empty() {
            missing.push("");
        }
        for queue in missing {
            let none = QueueStatus {
                queue,
                policy: engine.policy_name(),
                own: false,
                suspended_by: None,
                pending: 0,
                counts: Default::default(),
                swap: None,
                cost: Default::default(),
            };
            rows.insert(name(queue), row(engine, &none));
        }
        rows
    }

    fn queue_stats(&self) -> Value {
        let depth = self.configuration.settings.value("queue-depth");
        let row = |engine: &Engine, queue: &QueueStatus<'_>| {
            let ids = |ids: Vec<JobId>| ids.into_iter().map(|id| id.to_f58_ascii()).collect::<Vec<_>>();
            let (pending, running) = engine.queue_jobs(queue.queue, IDS_MAX);
            json!({
                "policy": queue.policy, "queue_depth": depth, "max_queue_depth": depth,
                "queue_parameters": {}, "policy_parameters": {},
                "action_counts": {
                    "pending": queue.pending, "running": queue.counts.starts,
                    "reserved": queue.counts.reservations, "rejected": 0, "complete": 0, "cancelled": 0,
                    "reprioritized": 0,
                },
                "pending_queues": {"pending": ids(pending), "pending_provisional": [], "blocked": []},
                "scheduled_queues": {"running": ids(running), "rejected": [], "canceled": []},
            })
        };
        json!({ "queues": self.queues_by_name(row) })
    }

    fn queue_params(&self) -> Value {
        let depth = self.configuration.settings.value("queue-depth");
        let depth =
            format!("queue-depth={}", depth.as_str().map_or_else(|| depth.to_string(), str::to_owned));
        let mut params = self.queues_by_name(|_, queue| json!({ "queue-policy": queue.policy }));
        params.remove("default");
        let policy = self.engine.as_ref().map_or(fluxgate_engine::BUILTIN, |engine| engine.policy_name());
        params.insert("queue-policy".to_owned(), json!(policy));
        params.insert("queue-params".to_owned(), json!(depth));
        params.insert("policy-params".to_owned(), json!(""));
        json!({ "params": params })
    }
}

/// Has the vertex of a path this value of a property, or with `None` not the property?
fn has(resources: &Resources, path: &str, key: &str, value: Option<&str>) -> bool {
    let Ok(values) = resources.vertex_property(path, key) else { return false };
    match value {
        Some(value) => !values.is_empty() && values.iter().all(|known| known == value),
        None => values.is_empty(),
    }
}
