//! Keeps the value of every metric.

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Series that are kept; each is a metric with one set of labels.
const SERIES_MAX: usize = 100_000;

/// Upper bounds of a histogram's buckets, in seconds: from a call inside this machine to a call of minutes.
pub(super) const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];

/// All metrics of this process.
#[derive(Default)]
pub(crate) struct Registry {
    pub(super) help: Mutex<BTreeMap<String, String>>,
    /// By name, then by labels.
    pub(super) series: Mutex<BTreeMap<String, BTreeMap<Labels, Series>>>,
    /// Series that were not kept.
    pub(super) refused: AtomicU64,
}

/// Names and values of labels, by name.
pub(super) type Labels = Vec<(String, String)>;

/// One series.
#[derive(Clone)]
pub(super) enum Series {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Buckets>),
}

/// The observations of a histogram.
#[derive(Default)]
pub(super) struct Buckets {
    /// How many were within each bound of [`BUCKETS`] and not within the one before; those beyond all come last.
    pub(super) counts: [AtomicU64; BUCKETS.len() + 1],
    /// The bits of their sum.
    pub(super) sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let bucket = BUCKETS.iter().position(|bound| value <= *bound).unwrap_or(BUCKETS.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |sum: u64| Some((f64::from_bits(sum) + value).to_bits());
        // The closure always gives a value.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Registry {
    /// Makes this the recorder of the process. Must come before what is to be measured is made.
    ///
    /// # Errors
    /// When there is one already.
    pub(crate) fn install() -> Result<Arc<Registry>, String> {
        let registry = Arc::new(Registry::default());
        metrics::set_global_recorder(Handle(registry.clone())).map_err(|error| error.to_string())?;
        callboard::describe_metrics();
        Ok(registry)
    }

    fn series(&self, key: &Key, make: fn() -> Series) -> Option<Series> {
        let mut labels: Labels =
            key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        labels.sort();
        let mut all = self.series.lock();
        let count: usize = all.values().map(BTreeMap::len).sum();
        let of_name = all.entry(key.name().to_owned()).or_default();
        if let Some(known) = of_name.get(&labels) {
            return Some(known.clone());
        }
        if count >= SERIES_MAX {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let series = make();
        of_name.insert(labels, series.clone());
        Some(series)
    }

    fn describe(&self, name: &KeyName, description: &SharedString) {
        self.help.lock().insert(name.as_str().to_owned(), description.to_string());
    }
}

/// The registry as the recorder of the process.
pub(super) struct Handle(pub(super) Arc<Registry>);

impl Recorder for Handle {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, description: SharedString) {
        self.0.describe(&name, &description);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, description: SharedString) {
        self.0.describe(&name, &description);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, description: SharedString) {
        self.0.describe(&name, &description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.0.series(key, || Series::Counter(Arc::default())) {
            Some(Series::Counter(counter)) => Counter::from_arc::<AtomicU64>(counter),
            Some(Series::Gauge(_) | Series::Histogram(_)) | None => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.0.series(key, || Series::Gauge(Arc::default())) {
            Some(Series::Gauge(gauge)) => Gauge::from_arc::<AtomicU64>(gauge),
            Some(Series::Counter(_) | Series::Histogram(_)) | None => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.0.series(key, || Series::Histogram(Arc::default())) {
            Some(Series::Histogram(histogram)) => Histogram::from_arc(histogram),
            Some(Series::Counter(_) | Series::Gauge(_)) | None => Histogram::noop(),
        }
    }
}
