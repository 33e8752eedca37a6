//! What lives are counted by.

use super::world::{Field, entry};
use crate::settings::Settings;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keeps every counter and gauge by its name and labels.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, f64>>>);

struct Line(Book, String);

impl Line {
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        let mut lines = self.0.0.lock();
        let value = lines.entry(self.1.clone()).or_default();
        *value = change(*value);
    }
}

impl CounterFn for Line {
    fn increment(&self, by: u64) {
        self.change(|value| value + by as f64);
    }
    fn absolute(&self, to: u64) {
        self.change(|_| to as f64);
    }
}

impl GaugeFn for Line {
    fn increment(&self, by: f64) {
        self.change(|value| value + by);
    }
    fn decrement(&self, by: f64) {
        self.change(|value| value - by);
    }
    fn set(&self, to: f64) {
        self.change(|_| to);
    }
}

impl Book {
    fn line(&self, key: &Key) -> Arc<Line> {
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        Arc::new(Line(self.clone(), format!("{} {}", key.name(), labels.join(" "))))
    }

    fn get(&self, line: &str) -> f64 {
        self.0.lock().get(&format!("callboard_{line}")).copied().unwrap_or_default()
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.line(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.line(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[actix::test]
async fn a_life_leaves_its_traces_and_gauges_come_back_to_nothing() {
    let book = Book::default();
    let _recording = metrics::set_default_local_recorder(&book);
    let field = Field::new(Settings::default(), vec![entry("s", "one"), entry("idle", "two")]).await;
    assert_eq!(book.get("servers pending"), 2.0);
    let handle = field.server("s");
    handle.tools().await.expect("tools");
    assert_eq!((book.get("servers pending"), book.get("servers connected")), (1.0, 1.0));
    assert_eq!((book.get("catalog_tools s"), book.get("dial_permits_in_use local")), (1.0, 0.0));
    field.world.drop_links("one");
    field.enters("s", "backing-off").await;
    field.enters("s", "dialing").await;
    field.settle().await;
    handle.connect(None).await.expect("back");
    assert_eq!((book.get("dials_total s"), book.get("reconnects_total s io")), (2.0, 1.0));
    handle.reconnect();
    handle.connect(None).await.expect("back");
    assert_eq!((book.get("dials_total s"), book.get("reconnects_total s asked-for")), (3.0, 1.0));
    field.apply(vec![entry("s", "three"), entry("idle", "two")]).await;
    handle.connect(None).await.expect("back");
    assert_eq!((book.get("dials_total s"), book.get("reconnects_total s replaced")), (4.0, 1.0));
    field.settle().await;
    assert!(book.get("stale_events_total s") >= 1.0, "the ends of links that we ended come late");
    handle.disable();
    field.enters("s", "disabled").await;
    assert_eq!(book.get("servers disabled"), 1.0);
    field.close().await;
    for state in ["pending", "connected", "needs-auth", "failed", "disabled"] {
        assert_eq!(book.get(&format!("servers {state}")), 0.0, "{state}");
    }
    assert_eq!((book.get("catalog_tools s"), book.get("dial_permits_in_use local")), (0.0, 0.0));
}
