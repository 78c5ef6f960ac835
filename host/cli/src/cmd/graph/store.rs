//! A state in SQLite: the rows of a model, and a row for each saving.
//!
//! Each saving is one transaction: an interrupted one leaves the state before it. A file that is no state, or not whole, is
//! refused and left as it is. This module must never know the meaning of a row.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use fluxgate_graph::description::{Changes, Delta, Row, Rows, STATE_VERSION};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use serde_json::Value;

/// The first bytes of an SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Application id in the header of the file: "FXGS".
const APPLICATION: i64 = 0x4658_4753;
/// Most rows of a table.
const ROWS_MAX: i64 = 1 << 24;

const TABLES: &str = "
    CREATE TABLE vertex (key TEXT PRIMARY KEY, place INTEGER NOT NULL, data TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE edge (key TEXT PRIMARY KEY, place INTEGER NOT NULL, data TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE document (data TEXT NOT NULL);
    CREATE TABLE saving (number INTEGER PRIMARY KEY, whole INTEGER NOT NULL, vertices INTEGER NOT NULL,
        edges INTEGER NOT NULL);
";

/// True for the name of a database, as SQLite's own tools have them.
pub(super) fn named(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    matches!(extension, Some("db" | "db3" | "sqlite" | "sqlite3"))
}

/// True when a file is a database of SQLite.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

fn wrong(path: &Path, what: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{}: SQLite: {what}", path.display())
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|e| wrong(path, e))?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(|e| wrong(path, e))?;
    if application != APPLICATION {
        let what = "not a state of Fluxgate: the database belongs to another program";
        return Err(wrong(path, what));
    }
    let version = pragma("user_version").map_err(|e| wrong(path, e))?;
    if version != i64::from(STATE_VERSION) {
        return Err(wrong(path, format!("version {version} found; {STATE_VERSION} is accepted")));
    }
    let sound: String = connection
        .pragma_query_value(None, "quick_check", |row| row.get(0))
        .map_err(|e| wrong(path, format!("the database is damaged: {e}")))?;
    if sound != "ok" {
        let first = sound.lines().next().unwrap_or_default();
        return Err(wrong(path, format!("the database is damaged: {first}")));
    }
    Ok(connection)
}

/// The rows of a state.
pub(super) fn load(path: &Path) -> Result<Rows> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    read(&connection, path)
}

fn read(connection: &Connection, path: &Path) -> Result<Rows> {
    let table = |name: &str| -> Result<BTreeMap<String, Row>> {
        let at = |e: rusqlite::Error| wrong(path, format!("table {name}: {e}"));
        let count: i64 = connection
            .query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0))
            .map_err(at)?;
        if count > ROWS_MAX {
            return Err(wrong(
                path,
                format!("table {name}: {count} rows found; at most {ROWS_MAX} are accepted"),
            ));
        }
        let mut query = connection.prepare(&format!("SELECT key, place, data FROM {name}")).map_err(at)?;
        let mut rows = query.query([]).map_err(at)?;
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next().map_err(at)? {
            let key: String = row.get(0).map_err(at)?;
            let (place, text): (i64, String) = (row.get(1).map_err(at)?, row.get(2).map_err(at)?);
            let data = json(&text).map_err(|e| wrong(path, format!("table {name}, key {key}: {e}")))?;
            found.insert(key, Row { place, data });
        }
        Ok(found)
    };
    let document: String = connection
        .query_row("SELECT data FROM document", [], |row| row.get(0))
        .map_err(|e| wrong(path, format!("table document: {e}")))?;
    let document = json(&document).map_err(|e| wrong(path, format!("table document: {e}")))?;
    Ok(Rows { document, vertices: table("vertex")?, edges: table("edge")? })
}

fn json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text)
}

/// Saves all rows, in place of the earlier ones.
pub(super) fn save_whole(path: &Path, rows: &Rows) -> Result<()> {
    let mut connection = match path.exists() {
        true => open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
        false => {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            Connection::open_with_flags(path, flags).map_err(|e| wrong(path, e))?
        }
    };
    let mut done = || -> rusqlite::Result<()> {
        let change = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        let made: i64 = change.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if made != APPLICATION {
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "application_id", APPLICATION)?;
            change.pragma_update(None, "user_version", STATE_VERSION)?;
        }
        change.execute_batch("DELETE FROM vertex; DELETE FROM edge; DELETE FROM document;")?;
        put(&change, "vertex", &rows.vertices)?;
        put(&change, "edge", &rows.edges)?;
        change.execute("INSERT INTO document VALUES (?1)", params![rows.document.to_string()])?;
        note(&change, true, rows.vertices.len(), rows.edges.len())?;
        change.commit()
    };
    done().map_err(|e| wrong(path, e))
}

/// Saves the changes since the last saving, and returns them.
pub(super) fn save_changed(path: &Path, rows: &Rows) -> Result<Changes> {
    let mut connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut done = || -> Result<Changes> {
        // One transaction for reading and writing: no other process writes in between.
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changes = rows.changes_since(&read(&change, path)?);
        if !changes.is_empty() {
            for (table, delta) in [("vertex", &changes.vertices), ("edge", &changes.edges)] {
                apply(&change, table, delta)?;
            }
            if let Some(document) = &changes.document {
                change.execute("UPDATE document SET data = ?1", params![document.to_string()])?;
            }
            let count = |delta: &Delta| delta.put.len() + delta.gone.len();
            note(&change, false, count(&changes.vertices), count(&changes.edges))?;
        }
        change.commit()?;
        Ok(changes)
    };
    done().with_context(|| format!("cannot save into {}", path.display()))
}

fn put(change: &Transaction<'_>, table: &str, rows: &BTreeMap<String, Row>) -> rusqlite::Result<()> {
    let mut insert = change.prepare(&format!("INSERT OR REPLACE INTO {table} VALUES (?1, ?2, ?3)"))?;
    for (key, row) in rows {
        insert.execute(params![key, row.place, row.data.to_string()])?;
    }
    Ok(())
}

fn apply(change: &Transaction<'_>, table: &str, delta: &Delta) -> rusqlite::Result<()> {
    let mut delete = change.prepare(&format!("DELETE FROM {table} WHERE key = ?1"))?;
    for key in &delta.gone {
        delete.execute(params![key])?;
    }
    put(change, table, &delta.put)
}

fn note(change: &Transaction<'_>, whole: bool, vertices: usize, edges: usize) -> rusqlite::Result<()> {
    let values = params![whole, vertices as i64, edges as i64];
    change.execute("INSERT INTO saving (whole, vertices, edges) VALUES (?1, ?2, ?3)", values).map(drop)
}

/// Checks that a file is a state, and takes it away with what SQLite may have left beside it.
pub(super) fn remove(path: &Path) -> Result<()> {
    drop(open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?);
    for suffix in ["-journal", "-wal", "-shm", ""] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound || suffix.is_empty() => {
                return Err(e).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
