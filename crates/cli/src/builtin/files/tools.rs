//! The work of the tools of the `files` server, on a blocking thread.

use std::fs::{self, Metadata};

use serde_json::json;

use super::super::arguments::Arguments;
use super::super::outbox::Reporter;
use super::super::page::{Page, Start};
use super::super::server::{ToolError, ToolOutput};
use super::root::{Inside, PathError, Root, read_part};
use super::walk::Walk;
use super::{Cancelled, contents, media};

/// Longest path, in bytes, as Linux has it.
const PATH_BYTES_MAX: usize = 4096;

/// Entries of one directory that are listed at all.
const DIRECTORY_ENTRIES_MAX: usize = 20_000;

/// Entries on a page of `list`.
pub(super) const ENTRIES_PAGE_MAX: usize = 500;

/// What `read` reads when it does not say how much, in bytes.
const PART_BYTES: u64 = 64 * 1024;

/// Most that `read` reads at once, in bytes.
pub(super) const PART_BYTES_MAX: u64 = 256 * 1024;

/// Matches of `search` when it does not say how many.
const MATCHES: usize = 50;

/// Most matches of `search`.
pub(super) const MATCHES_MAX: usize = 500;

/// Longest query of `search`, in bytes.
const QUERY_BYTES_MAX: usize = 256;

/// What `search` looks at in one file, in bytes.
const SEARCHED_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What one `search` looks at in all files, in bytes.
const SEARCHED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Characters of a line that a match shows.
const MATCH_CHARS_MAX: usize = 200;

/// Files between two notifications of progress.
const PROGRESS_FILES: u64 = 100;

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Outside { .. } => Self::Input(error.to_string()),
            PathError::NotFound { .. } | PathError::Kind { .. } | PathError::Io { .. } => {
                Self::Failed(error.to_string())
            }
        }
    }
}

/// The argument `path`, which must be given.
pub(super) fn path_argument(arguments: &mut Arguments) -> Result<String, ToolError> {
    arguments.text("path", PATH_BYTES_MAX)
}

/// The argument `path`; left out, it is the served directory.
fn directory_argument(arguments: &mut Arguments) -> Result<String, ToolError> {
    Ok(arguments.text_if_given("path", PATH_BYTES_MAX)?.unwrap_or_default())
}

/// What `list` is asked for.
pub(super) struct List {
    path: String,
    start: Start,
    limit: usize,
}

impl List {
    pub(super) fn of(arguments: &mut Arguments) -> Result<Self, ToolError> {
        Ok(Self {
            path: directory_argument(arguments)?,
            start: arguments.start()?,
            limit: arguments.limit(ENTRIES_PAGE_MAX, ENTRIES_PAGE_MAX)?,
        })
    }
}

/// The entries of a directory, in the order of their names.
pub(super) fn list(root: &Root, asked: &List) -> Result<ToolOutput, ToolError> {
    let directory = directory(root, &asked.path)?;
    let entries = fs::read_dir(&directory.path)
        .map_err(|error| ToolError::Failed(format!("cannot list {}: {}", asked.path, error.kind())))?;
    let mut names: Vec<String> = entries
        .flatten()
        .take(DIRECTORY_ENTRIES_MAX)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    let after = asked.start.after();
    let wanted = names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after));
    let page = Page::take(wanted, asked.limit, String::clone).map(|name| {
        let metadata = fs::symlink_metadata(directory.path.join(&name)).ok();
        let bytes = metadata.as_ref().filter(|metadata| metadata.is_file()).map(Metadata::len);
        json!({ "name": name, "kind": metadata.as_ref().map_or("other", kind), "bytes": bytes })
    });
    Ok(ToolOutput::mirrored(json!({
        "path": directory.shown, "entries": page.items, "next_cursor": page.next_cursor,
    })))
}

/// What `read` is asked for.
pub(super) struct Read {
    path: String,
    offset: u64,
    length: u64,
}

impl Read {
    pub(super) fn of(arguments: &mut Arguments) -> Result<Self, ToolError> {
        Ok(Self {
            path: path_argument(arguments)?,
            offset: arguments.integer_if_given("offset", 0..=i64::MAX as u64)?.unwrap_or(0),
            length: arguments.integer_if_given("length", 1..=PART_BYTES_MAX)?.unwrap_or(PART_BYTES),
        })
    }
}

/// A part of a file. The text content is the text itself; what is no text comes as an embedded resource.
pub(super) fn read(root: &Root, asked: &Read) -> Result<ToolOutput, ToolError> {
    let (inside, mut file) = root.open(&asked.path)?;
    let mut bytes = read_part(&mut file, asked.offset, asked.length)
        .map_err(|error| ToolError::Failed(format!("cannot read {}: {}", asked.path, error.kind())))?;
    let size = inside.metadata.len();
    let end = |bytes: &[u8]| asked.offset + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let text_length = media::text_length(&bytes, end(&bytes) >= size);
    if let Some(length) = text_length {
        bytes.truncate(length);
    }
    let next_offset = Some(end(&bytes)).filter(|end| *end < size && !bytes.is_empty());
    let uri = root.uri_of(&inside.shown);
    let mut structured = json!({
        "path": inside.shown,
        "uri": uri,
        "bytes": size,
        "offset": asked.offset,
        "next_offset": next_offset,
        "encoding": if text_length.is_some() { "utf-8" } else { "base64" },
    });
    let content = contents(&uri, &inside.shown, bytes);
    let content = match content.get("text") {
        Some(text) => {
            structured["text"] = text.clone();
            json!({ "type": "text", "text": text })
        }
        None => json!({ "type": "resource", "resource": content }),
    };
    Ok(ToolOutput::with_content(structured, vec![content]))
}

/// What there is at a path.
pub(super) fn stat(root: &Root, path: &str) -> Result<ToolOutput, ToolError> {
    let inside = root.find(path)?;
    let modified = inside.metadata.modified().ok().and_then(|at| jiff::Timestamp::try_from(at).ok());
    let is_file = inside.metadata.is_file();
    let media_type = Some(media::media_type(&inside.shown)).filter(|known| is_file && !known.is_empty());
    Ok(ToolOutput::mirrored(json!({
        "path": inside.shown,
        "uri": root.uri_of(&inside.shown),
        "kind": kind(&inside.metadata),
        "bytes": is_file.then_some(inside.metadata.len()),
        "modified": modified.map(|at| at.to_string()),
        "media_type": media_type,
    })))
}

/// What `search` is asked for.
pub(super) struct Search {
    query: String,
    path: String,
    limit: usize,
}

impl Search {
    pub(super) fn of(arguments: &mut Arguments) -> Result<Self, ToolError> {
        let query = arguments.text("query", QUERY_BYTES_MAX)?.to_lowercase();
        if query.is_empty() || query.contains('\n') {
            return Err(ToolError::Input("query must be a part of a line".to_owned()));
        }
        let path = directory_argument(arguments)?;
        Ok(Self { query, path, limit: arguments.limit(MATCHES, MATCHES_MAX)? })
    }
}

/// The lines of text files that contain the query, in any case.
pub(super) fn search(
    root: &Root,
    asked: &Search,
    cancelled: &Cancelled,
    reporter: &Reporter,
) -> Result<ToolOutput, ToolError> {
    let directory = directory(root, &asked.path)?;
    let mut walk = Walk::new(root.directory(), &directory.shown, None);
    let (mut matches, mut files, mut bytes, mut is_complete) = (Vec::new(), 0, 0, true);
    for found in walk.by_ref() {
        if cancelled.is_set() || bytes >= SEARCHED_BYTES_MAX || matches.len() >= asked.limit {
            is_complete = false;
            break;
        }
        files += 1;
        if files % PROGRESS_FILES == 0 {
            reporter.progress(files, None, &format!("searched {files} files"));
        }
        let Some(text) = text_of(root, &found.shown) else { continue };
        bytes += text.len();
        is_complete &= found.bytes <= SEARCHED_FILE_BYTES_MAX;
        let room = asked.limit - matches.len();
        let (lines, is_all) = matching_lines(&text, &asked.query, room);
        is_complete &= is_all;
        let lines = lines.into_iter();
        matches.extend(lines.map(|(line, text)| json!({ "path": found.shown, "line": line, "text": text })));
    }
    Ok(ToolOutput::mirrored(json!({
        "matches": matches,
        "files_searched": files,
        "is_complete": is_complete && !walk.is_cut(),
    })))
}

/// Up to `room` matching lines with their numbers, and whether these are all.
fn matching_lines(text: &str, query: &str, room: usize) -> (Vec<(usize, String)>, bool) {
    let mut matching =
        text.lines().enumerate().filter(|(_, line)| line.to_lowercase().contains(query)).peekable();
    let taken = matching
        .by_ref()
        .take(room)
        .map(|(index, line)| (index + 1, line.trim().chars().take(MATCH_CHARS_MAX).collect()))
        .collect();
    (taken, matching.peek().is_none())
}

/// The start of a file, where it is text.
fn text_of(root: &Root, shown: &str) -> Option<String> {
    let (inside, mut file) = root.open(shown).ok()?;
    let mut bytes = read_part(&mut file, 0, SEARCHED_FILE_BYTES_MAX).ok()?;
    let length = media::text_length(&bytes, inside.metadata.len() <= SEARCHED_FILE_BYTES_MAX)?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

fn directory(root: &Root, path: &str) -> Result<Inside, ToolError> {
    let inside = root.find(path)?;
    if inside.metadata.is_dir() {
        return Ok(inside);
    }
    Err(PathError::Kind { path: path.to_owned(), what: "not a directory" }.into())
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match (kind.is_file(), kind.is_dir(), kind.is_symlink()) {
        (true, _, _) => "file",
        (_, true, _) => "directory",
        (_, _, true) => "link",
        (false, false, false) => "other",
    }
}
