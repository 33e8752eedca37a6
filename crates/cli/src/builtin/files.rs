//! The `files` server: what is in one directory, for reading alone.
//!
//! Everything that touches the disk runs on a blocking thread and looks, between two files, whether its
//! request was cancelled. Hidden files are left out of lists and searches, and can be read by name.

mod definitions;
mod media;
mod root;
mod tools;
mod walk;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::arguments::Arguments;
use super::outbox::Reporter;
use super::page::{Page, Start};
use super::server::{About, Later, Poll, ResourceError, Resources, Tool, ToolError, ToolOutput, ToolServer};
use root::{PathError, Root};
use walk::{Found, Walk};

/// Files on a page of resources.
const RESOURCES_PAGE_MAX: usize = 100;

/// Largest file that is read whole as a resource, in bytes; the tool `read` reads larger ones in parts.
const RESOURCE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Paths that a completion looks at.
const COMPLETIONS_MAX: usize = 1_000;

/// Requests that are at the disk at a time. The others wait without a thread, so that one is always left
/// to stdin and one to stdout.
const DISK_WORK_MAX: usize = 4;

/// The server of one directory.
pub(super) struct FilesServer {
    root: Root,
    disk: Arc<Semaphore>,
}

impl FilesServer {
    /// Fails when the directory cannot be read.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self { root: Root::new(directory)?, disk: Arc::new(Semaphore::new(DISK_WORK_MAX)) })
    }

    fn template(&self) -> String {
        format!("{}{{+path}}", self.root.uri())
    }
}

/// Tells work on a blocking thread that nobody waits for it any more.
#[derive(Clone)]
struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs work on a blocking thread once the disk has room for it; dropping the future tells the work to
/// stop. The room is free again when the work has really ended.
async fn blocking<T: Send + 'static>(
    disk: Arc<Semaphore>,
    work: impl FnOnce(&Cancelled) -> T + Send + 'static,
) -> T {
    struct SetOnDrop(Cancelled);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }

    let Ok(permit) = disk.acquire_owned().await else {
        // Nobody closes the semaphore.
        return std::future::pending().await;
    };
    let cancelled = Cancelled(Arc::new(AtomicBool::new(false)));
    let _guard = SetOnDrop(cancelled.clone());
    let working = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work(&cancelled)
    });
    match working.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away, and with it whoever waits.
            Err(_) => std::future::pending().await,
        },
    }
}

impl ToolServer for FilesServer {
    fn about(&self) -> About {
        About {
            name: "callboard-files",
            title: "Files",
            instructions: "Lists, reads and searches the files of one directory; nothing can be changed. \
                           Paths are relative to that directory, with / between the names.",
        }
    }

    fn tools(&self) -> Vec<Tool> {
        definitions::tools()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        mut arguments: Arguments,
        reporter: &'a Reporter,
    ) -> Later<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let (root, disk) = (self.root.clone(), Arc::clone(&self.disk));
            match tool {
                "list" => {
                    let asked = tools::List::of(&mut arguments)?;
                    arguments.end()?;
                    blocking(disk, move |_| tools::list(&root, &asked)).await
                }
                "read" => {
                    let asked = tools::Read::of(&mut arguments)?;
                    arguments.end()?;
                    blocking(disk, move |_| tools::read(&root, &asked)).await
                }
                "search" => {
                    let asked = tools::Search::of(&mut arguments)?;
                    arguments.end()?;
                    let reporter = reporter.clone();
                    blocking(disk, move |cancelled| tools::search(&root, &asked, cancelled, &reporter)).await
                }
                "stat" => {
                    let path = tools::path_argument(&mut arguments)?;
                    arguments.end()?;
                    blocking(disk, move |_| tools::stat(&root, &path)).await
                }
                _ => Err(ToolError::Failed(format!("there is no tool {tool}"))),
            }
        })
    }

    fn resources(&self) -> Option<&dyn Resources> {
        Some(self)
    }
}

impl Resources for FilesServer {
    fn templates(&self) -> Vec<Value> {
        vec![json!({
            "uriTemplate": self.template(),
            "name": "file",
            "title": "File",
            "description": "A file by its path relative to the served directory",
        })]
    }

    fn list<'a>(&'a self, start: &'a Start) -> Later<'a, Result<Page<Value>, ResourceError>> {
        let (root, start) = (self.root.clone(), start.clone());
        Box::pin(blocking(Arc::clone(&self.disk), move |cancelled| {
            let walk = Walk::new(root.directory(), "", start.after()).take_while(|_| !cancelled.is_set());
            let page = Page::take(walk, RESOURCES_PAGE_MAX, |found| found.shown.clone());
            Ok(page.map(|found| resource(&root, &found)))
        }))
    }

    fn read<'a>(&'a self, uri: &'a str) -> Later<'a, Result<Value, ResourceError>> {
        let (root, uri) = (self.root.clone(), uri.to_owned());
        Box::pin(blocking(Arc::clone(&self.disk), move |_| read_resource(&root, &uri)))
    }

    fn complete<'a>(
        &'a self,
        template: &'a str,
        variable: &'a str,
        prefix: &'a str,
    ) -> Later<'a, Option<Vec<String>>> {
        let is_known = template == self.template() && variable == "path";
        let (root, disk, prefix) = (self.root.clone(), Arc::clone(&self.disk), prefix.to_owned());
        Box::pin(async move {
            if !is_known {
                return None;
            }
            let paths = blocking(disk, move |cancelled| {
                Walk::new(root.directory(), "", None)
                    .take_while(|_| !cancelled.is_set())
                    .map(|found| found.shown)
                    .filter(|shown| shown.starts_with(&prefix))
                    .take(COMPLETIONS_MAX)
                    .collect()
            });
            Some(paths.await)
        })
    }

    fn can_watch(&self, uri: &str) -> bool {
        self.root.shown_of(uri).is_some_and(|shown| !shown.is_empty())
    }

    fn poll(&self) -> Option<Poll> {
        let root = self.root.clone();
        Some(Arc::new(move |uri| root.shown_of(uri).and_then(|shown| root.fingerprint(&shown))))
    }
}

fn resource(root: &Root, found: &Found) -> Value {
    let name = found.shown.rsplit('/').next().unwrap_or_default();
    let mut resource = json!({ "uri": root.uri_of(&found.shown), "name": found.shown, "size": found.bytes });
    let media_type = media::media_type(name);
    if !media_type.is_empty() {
        resource["mimeType"] = json!(media_type);
    }
    resource
}

fn read_resource(root: &Root, uri: &str) -> Result<Value, ResourceError> {
    let shown = root.shown_of(uri).ok_or(ResourceError::NotFound)?;
    let (inside, mut file) = root.open(&shown).map_err(|error| match error {
        PathError::Io { kind, .. } => ResourceError::Io(kind),
        PathError::Outside { .. } | PathError::NotFound { .. } | PathError::Kind { .. } => {
            ResourceError::NotFound
        }
    })?;
    let too_large = |bytes| ResourceError::TooLarge { bytes, bytes_max: RESOURCE_BYTES_MAX };
    if inside.metadata.len() > RESOURCE_BYTES_MAX {
        return Err(too_large(inside.metadata.len()));
    }
    let bytes = root::read_part(&mut file, 0, RESOURCE_BYTES_MAX + 1)
        .map_err(|error| ResourceError::Io(error.kind()))?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length > RESOURCE_BYTES_MAX {
        return Err(too_large(length));
    }
    Ok(contents(uri, &shown, bytes))
}

/// The contents of a file, or of a part of it, as a resource has them: text, or base64 where it is none.
fn contents(uri: &str, shown: &str, bytes: Vec<u8>) -> Value {
    let is_text = media::text_length(&bytes, true).is_some();
    let media_type = media::media_type_of(shown, is_text);
    match String::from_utf8(bytes) {
        Ok(text) if is_text => json!({ "uri": uri, "mimeType": media_type, "text": text }),
        Ok(text) => json!({ "uri": uri, "mimeType": media_type, "blob": STANDARD.encode(text) }),
        Err(error) => {
            json!({ "uri": uri, "mimeType": media_type, "blob": STANDARD.encode(error.as_bytes()) })
        }
    }
}
