//! The lines that the service logs, as a test hears them.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Lines with an id, as `ID text`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        #[derive(Default)]
        struct Line(String, String);
        impl Visit for Line {
            fn record_str(&mut self, field: &Field, value: &str) {
                self.record_debug(field, &format_args!("{value}"));
            }

            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                match field.name() {
                    "id" => self.0 = format!("{value:?}"),
                    "message" => self.1 = format!("{value:?}"),
                    _ => {}
                }
            }
        }
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(format!("{} {}", line.0, line.1));
    }
}

/// The lines that are logged meanwhile and have this word, each as `ID text`.
pub fn said(word: &str, what: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    tracing::subscriber::with_default(subscriber, what);
    let lines = lines.0.lock().unwrap();
    lines.iter().filter(|line| line.contains(word)).cloned().collect()
}
