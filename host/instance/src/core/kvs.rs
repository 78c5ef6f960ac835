//! The key value store: values of jobs and a few others, one namespace, no directories.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fluxgate_formats::JobId;
use fluxgate_wire::errno;
use serde_json::json;

use super::{Core, Handled, Reply, Request};
use crate::effect::Record;
use crate::fail::Fail;
use crate::fields::Fields;
use crate::limits::{COMMIT_OPS_MAX, FREE_KEYS_SIZE_MAX, KEY_LEN_MAX, VALUE_SIZE_MAX};

/// The store; see the [module](self).
#[derive(Debug, Default)]
pub(super) struct Kvs {
    /// Values of jobs by job and rest of the key.
    jobs: BTreeMap<(JobId, String), Arc<[u8]>>,
    others: BTreeMap<String, Arc<[u8]>>,
    others_size: usize,
    version: u64,
}

/// Splits `job.<dothex>.<rest>`.
fn job_key(key: &str) -> Option<(JobId, &str)> {
    const DOTHEX_LEN: usize = 19;
    let rest = key.strip_prefix("job.")?;
    let (id, rest) = (rest.get(..DOTHEX_LEN)?, rest.get(DOTHEX_LEN..)?.strip_prefix('.')?);
    Some((JobId::parse(id).ok()?, rest))
}

impl Kvs {
    /// Writes or removes a key.
    pub(super) fn set(&mut self, key: &str, value: Option<Arc<[u8]>>) {
        self.version += 1;
        if let Some((id, rest)) = job_key(key) {
            match value {
                Some(value) => self.jobs.insert((id, rest.to_owned()), value),
                None => self.jobs.remove(&(id, rest.to_owned())),
            };
            return;
        }
        self.others_size += value.as_ref().map_or(0, |v| v.len());
        let old = match value {
            Some(value) => self.others.insert(key.to_owned(), value),
            None => self.others.remove(key),
        };
        self.others_size -= old.map_or(0, |v| v.len());
    }

    /// Reads a key.
    pub(super) fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        match job_key(key) {
            Some((id, rest)) => self.jobs.get(&(id, rest.to_owned())).cloned(),
            None => self.others.get(key).cloned(),
        }
    }

    /// The R that was committed for a job.
    pub(super) fn r_of(&self, id: JobId) -> Option<&[u8]> {
        self.jobs.get(&(id, "R".to_owned())).map(|value| &value[..])
    }

    /// A job is no longer kept in memory.
    pub(super) fn forget_job(&mut self, id: JobId) {
        let from = (id, String::new());
        let keys: Vec<_> = self
            .jobs
            .range(from..)
            .take_while(|((job, _), _)| *job == id)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.jobs.remove(&key);
        }
    }
}

impl Core {
    pub(super) fn kvs_service(&mut self, method: &str, request: &Request) -> Handled {
        let fields = Fields::of(&request.payload)?;
        match fields.opt_str("namespace")? {
            None | Some("primary") => {}
            Some(other) => return Err(Fail::missing(format!("field 'namespace': there is no '{other}'"))),
        }
        match method {
            "lookup" => {
                let key = fields.str("key")?;
                if fields.opt_u64("flags")?.unwrap_or(0) != 0 {
                    return Err(Fail::invalid("field 'flags' must be 0: there are no directories"));
                }
                let value = self.lookup(key).ok_or_else(|| Fail::missing(format!("no key '{key}'")))?;
                let data = STANDARD.encode(&value);
                Ok(Reply::Now(Some(json!({ "val": { "ver": 1, "type": "val", "data": data } }))))
            }
            "commit" => self.commit(fields),
            "getroot" => Ok(Reply::Now(Some(self.root()))),
            _ => Err(Fail::new(errno::ENOSYS, format!("the kvs service has no method '{method}'"))),
        }
    }

    fn lookup(&self, key: &str) -> Option<Vec<u8>> {
        if let Some((id, rest)) = job_key(key)
            && let Some(job) = self.table.get(id)
        {
            match rest {
                "jobspec" => return Some(job.spec.text.as_bytes().to_vec()),
                "eventlog" => return Some(job.log.clone().into_bytes()),
                _ => {}
            }
        }
        if key == "resource.R" {
            return Some(self.inventory.r().to_json().into_bytes());
        }
        self.kvs.get(key).map(|value| value.to_vec())
    }

    fn root(&self) -> serde_json::Value {
        let version = self.kvs.version;
        json!({ "rootref": format!("sha1-{version:040x}"), "rootseq": version })
    }

    /// All operations or none (R27-SUCC-1: the answer is sent when they are committed).
    fn commit(&mut self, fields: Fields<'_>) -> Handled {
        let ops = fields.array("ops")?;
        if ops.len() > COMMIT_OPS_MAX {
            return Err(Fail::invalid(format!("field 'ops' has more than {COMMIT_OPS_MAX} entries")));
        }
        let mut todo = Vec::with_capacity(ops.len());
        let mut size = 0;
        for (index, op) in ops.iter().enumerate() {
            let at = |fail: Fail| Fail::new(fail.errnum, format!("ops[{index}]: {}", fail.text));
            let op = Fields::of(op).map_err(at)?;
            let key = op.str("key").map_err(at)?;
            if key.is_empty() || key.len() > KEY_LEN_MAX {
                return Err(at(Fail::invalid(format!("field 'key' must have 1 to {KEY_LEN_MAX} bytes"))));
            }
            if op.opt_u64("flags").map_err(at)?.unwrap_or(0) != 0 {
                return Err(at(Fail::invalid("field 'flags' must be 0: appending is not supported")));
            }
            let reserved = job_key(key).is_some_and(|(_, rest)| matches!(rest, "eventlog" | "jobspec"));
            if reserved || key == "resource.R" {
                return Err(at(Fail::denied(format!("key '{key}' is written by the instance alone"))));
            }
            let value = match op.opt_object("dirent").map_err(at)? {
                None => None,
                Some(dirent) => {
                    let kind = dirent.get("type").and_then(|kind| kind.as_str()).unwrap_or("");
                    let data = dirent.get("data").and_then(|data| data.as_str());
                    let (Some(data), "val") = (data, kind) else {
                        let text = "field 'dirent' must be {\"ver\":1,\"type\":\"val\",\"data\":base64}";
                        return Err(at(Fail::invalid(text)));
                    };
                    let wrong = |e| at(Fail::invalid(format!("field 'dirent.data' is not base64: {e}")));
                    Some(STANDARD.decode(data).map_err(wrong)?)
                }
            };
            let len = value.as_ref().map_or(0, Vec::len);
            if len > VALUE_SIZE_MAX {
                let text =
                    format!("field 'dirent.data' has {len} bytes, at most {VALUE_SIZE_MAX} are accepted");
                return Err(at(Fail::new(errno::EFBIG, text)));
            }
            if job_key(key).is_none() {
                size += len;
            }
            todo.push((key.to_owned(), value.map(Arc::from)));
        }
        if self.kvs.others_size + size > FREE_KEYS_SIZE_MAX {
            return Err(Fail::new(errno::ENOSPC, format!("more than {FREE_KEYS_SIZE_MAX} bytes of values")));
        }
        for (key, value) in todo {
            self.kvs.set(&key, value.clone());
            self.records.push(Record::Value { key, value });
        }
        Ok(Reply::Now(Some(self.root())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_jobs_are_told_apart() {
        assert_eq!(job_key("job.0000.0007.0f00.0000.R"), Some((JobId(30_316_429_312), "R")));
        assert_eq!(job_key("job.0000.0007.0f00.0000.guest.x"), Some((JobId(30_316_429_312), "guest.x")));
        for other in ["job.0000.0007.0f00.0000", "job.0000.0007.0f00.000g.R", "resource.R", "job.ƒƒ", ""] {
            assert_eq!(job_key(other), None, "{other}");
        }
    }
}
