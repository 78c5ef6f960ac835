//! The durable state: one SQLite database in the folder of the instance.
//!
//! One connection writes it in the order of the events, one transaction per turn, in WAL mode. With
//! `synchronous=NORMAL` a commit does not wait for the disk: the data are with the operating system, so the end of the
//! process at any instruction loses nothing; `FULL` waits, see [`Durability`]. The order of the events table (`seq`) is
//! the order of the whole instance, on which the audit relies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluxgate_formats::JobId;
use fluxgate_wire::errno;
use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use crate::config::Durability;
use crate::core::{Restored, RestoredEvent};
use crate::durable::Records;
use crate::effect::Record;

/// Layout of the tables; a database of another layout is refused.
pub(crate) const LAYOUT: i64 = 1;
/// Name of the database in the folder.
pub(crate) const DATABASE: &str = "instance.sqlite";
/// Name of the file that marks a folder in use by an instance.
pub(crate) const LOCK: &str = "instance.lock";

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS spec (key INTEGER PRIMARY KEY, text TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, spec INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS event (
        seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, time REAL NOT NULL, name TEXT NOT NULL, context TEXT);
    CREATE TABLE IF NOT EXISTS value (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
";

/// Longest wait for another process that is writing the database; the instance holds then.
const BUSY_TIMEOUT: Duration = Duration::from_millis(100);

/// The database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another instance uses the folder.
    #[error("{}: another instance is running in this folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// No instance has used this folder yet.
    #[error("{}: no instance has its records in this folder; nothing was removed", path.display())]
    NoInstance {
        /// The folder.
        path: PathBuf,
    },
    /// The database was made by another version.
    #[error("{}: the database has layout {found}, this version reads layout {LAYOUT}", path.display())]
    Layout {
        /// The database.
        path: PathBuf,
        /// Its layout.
        found: i64,
    },
    /// The folder or the lock file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The database.
    #[error("{}: {source}", path.display())]
    Sql {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    _lock: Flock<std::fs::File>,
}

fn id_of(column: i64) -> JobId {
    JobId(column as u64)
}

fn column_of(id: JobId) -> i64 {
    id.0 as i64
}

impl Store {
    /// Opens the database in a folder, or creates it; `now` is the epoch of a new one. Returns its content, and the
    /// latest time in it.
    pub(crate) fn open(
        dir: &Path,
        durability: Durability,
        now: f64,
    ) -> Result<(Store, Restored, f64), StoreError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { path, source }
        };
        make_private(dir).map_err(io(dir))?;
        let lock_path = dir.join(LOCK);
        let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = Flock::lock(file.map_err(io(&lock_path))?, FlockArg::LockExclusiveNonblock)
            .map_err(|_| StoreError::InUse { path: dir.to_owned() })?;
        let path = dir.join(DATABASE);
        let sql = |source| StoreError::Sql { path: path.clone(), source };
        let connection = Connection::open(&path).map_err(sql)?;
        let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql)?;
        if found != 0 && found != LAYOUT {
            return Err(StoreError::Layout { path, found });
        }
        let synchronous = match durability {
            Durability::Process => "NORMAL",
            Durability::Power => "FULL",
        };
        let pragmas = format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA cache_size=-32768;
             PRAGMA user_version={LAYOUT}; PRAGMA wal_autocheckpoint=4000;"
        );
        connection.execute_batch(&pragmas).map_err(sql)?;
        connection.execute_batch(TABLES).map_err(sql)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
        connection
            .execute("INSERT OR IGNORE INTO fact VALUES ('epoch', ?1)", params![now.to_string()])
            .map_err(sql)?;
        connection.set_prepared_statement_cache_capacity(32);
        let restored = read_all(&connection).map_err(sql)?;
        let latest = restored.events.iter().map(|event| event.time).fold(0.0, f64::max);
        let noted = restored.facts.get("now").and_then(|text| text.parse().ok()).unwrap_or(0.0);
        Ok((Store { connection, path, _lock: lock }, restored, latest.max(noted)))
    }

    /// Path of the database.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Records for Store {
    type Error = StoreError;

    fn commit(&mut self, records: &[Record], now: f64) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let written = write_all(&mut self.connection, records, now);
        written.map_err(|source| StoreError::Sql { path: self.path.clone(), source })
    }

    fn errnum(error: &StoreError) -> i32 {
        match error {
            StoreError::Sql { source, .. } => match source.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => errno::ENOSPC,
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => errno::EAGAIN,
                _ => errno::EIO,
            },
            _ => errno::EIO,
        }
    }
}

/// Creates a folder that only the owner can use, with its parents.
fn make_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Opens a database for reading beside its writer.
pub(crate) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

fn write_all(connection: &mut Connection, records: &[Record], now: f64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut event = transaction
            .prepare_cached("INSERT INTO event(job, time, name, context) VALUES (?1, ?2, ?3, ?4)")?;
        for record in records {
            match record {
                Record::Event { id, time, name, context } => {
                    event.execute(params![column_of(*id), time, name, context])?;
                }
                Record::Job { id, spec } => {
                    transaction
                        .prepare_cached("INSERT INTO job VALUES (?1, ?2)")?
                        .execute(params![column_of(*id), spec])?;
                }
                Record::Spec { key, text } => {
                    transaction
                        .prepare_cached("INSERT INTO spec VALUES (?1, ?2)")?
                        .execute(params![key, &**text])?;
                }
                Record::Value { key, value: Some(value) } => {
                    transaction
                        .prepare_cached("INSERT OR REPLACE INTO value VALUES (?1, ?2)")?
                        .execute(params![key, &**value])?;
                }
                Record::Value { key, value: None } => {
                    transaction.prepare_cached("DELETE FROM value WHERE key = ?1")?.execute(params![key])?;
                }
                Record::Fact { name, value: Some(value) } => set_fact(&transaction, name, value)?,
                Record::Fact { name, value: None } => {
                    transaction.prepare_cached("DELETE FROM fact WHERE name = ?1")?.execute(params![name])?;
                }
                Record::Count(name) => {
                    transaction
                        .prepare_cached(
                            "INSERT INTO counter VALUES (?1, 1) ON CONFLICT(name) DO UPDATE SET n = n + 1",
                        )?
                        .execute(params![name])?;
                }
            }
        }
    }
    set_fact(&transaction, "now", &now.to_string())?;
    transaction.commit()
}

fn set_fact(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO fact VALUES (?1, ?2)")?;
    statement.execute(params![name, value]).map(drop)
}

fn read_all(connection: &Connection) -> rusqlite::Result<Restored> {
    let mut restored = Restored::default();
    let mut statement = connection.prepare("SELECT key, text FROM spec")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        restored.specs.insert(row.get(0)?, Arc::from(row.get::<_, String>(1)?));
    }
    let mut statement = connection.prepare("SELECT id, spec FROM job")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        restored.jobs.push((id_of(row.get(0)?), row.get(1)?));
    }
    for_each_event(connection, |_, event| restored.events.push(event))?;
    let mut statement = connection.prepare("SELECT key, value FROM value")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        restored.values.push((row.get(0)?, Arc::from(row.get::<_, Vec<u8>>(1)?)));
    }
    let mut statement = connection.prepare("SELECT name, value FROM fact")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        restored.facts.insert(row.get(0)?, row.get(1)?);
    }
    restored.epoch = restored.facts.get("epoch").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    Ok(restored)
}

/// All events in their order, with their number in it.
pub(crate) fn for_each_event(
    connection: &Connection,
    mut take: impl FnMut(i64, RestoredEvent),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT seq, job, time, name, context FROM event ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let event = RestoredEvent {
            id: id_of(row.get(1)?),
            time: row.get(2)?,
            name: row.get(3)?,
            context: row.get(4)?,
        };
        take(row.get(0)?, event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_committed_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, restored, latest) = Store::open(dir.path(), Durability::Process, 1000.0).unwrap();
        assert_eq!((restored.epoch, restored.jobs.len(), latest), (1000.0, 0, 0.0));
        let id = JobId(u64::MAX);
        let event = |name: &str, context: Option<&str>| Record::Event {
            id,
            time: 1001.5,
            name: name.into(),
            context: context.map(str::to_owned),
        };
        let records = [
            Record::Spec { key: 1, text: "{}".into() },
            Record::Job { id, spec: 1 },
            event("submit", Some("{\"a\":1}")),
            event("validate", None),
            Record::Value { key: "k".into(), value: Some(Arc::from(&b"v"[..])) },
            Record::Value { key: "gone".into(), value: Some(Arc::from(&b"v"[..])) },
            Record::Value { key: "gone".into(), value: None },
            Record::Fact { name: "drain.1".into(), value: Some("x".into()) },
            Record::Count("hellos"),
            Record::Count("hellos"),
        ];
        store.commit(&records, 1002.0).unwrap();
        assert!(matches!(Store::open(dir.path(), Durability::Process, 0.0), Err(StoreError::InUse { .. })));
        drop(store);
        let (store, restored, latest) = Store::open(dir.path(), Durability::Power, 5000.0).unwrap();
        assert_eq!((restored.epoch, latest), (1000.0, 1002.0));
        assert_eq!(restored.jobs, [(id, 1)]);
        let names: Vec<&str> = restored.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["submit", "validate"]);
        assert_eq!(restored.values, [("k".to_owned(), Arc::from(&b"v"[..]))]);
        assert_eq!(restored.facts["drain.1"], "x");
        drop(store);
        let reader = open_reader(&dir.path().join(DATABASE)).unwrap();
        let hellos: i64 =
            reader.query_row("SELECT n FROM counter WHERE name = 'hellos'", [], |row| row.get(0)).unwrap();
        assert_eq!(hellos, 2);
    }

    #[test]
    fn a_database_of_another_layout_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join(DATABASE)).unwrap();
        connection.execute_batch("PRAGMA user_version=99").unwrap();
        drop(connection);
        let error = Store::open(dir.path(), Durability::Process, 0.0).unwrap_err();
        assert!(error.to_string().contains("layout 99"), "{error}");
    }
}
