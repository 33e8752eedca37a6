//! Results for people: texts as they are, everything else as a line, binary parts into files when asked.

use crate::app::App;
use crate::output::{CliError, count};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_protocol::{Content, ToolResult};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A name for a file is tried with so many numbers behind it before we give up.
const NAMES_MAX: usize = 1_000;

/// Where binary parts go.
#[derive(Clone, Copy)]
pub(super) struct Saving<'a> {
    /// The folder; none means that nothing is written.
    pub(super) folder: Option<&'a Path>,
    /// What the files are named after.
    pub(super) stem: &'a str,
}

/// Prints the content of a tool's result, and its structured content when there is no text.
pub(super) fn print(app: &App, result: &ToolResult<'_>, saving: Saving<'_>) -> Result<(), CliError> {
    result.content.iter().try_for_each(|block| print_block(app, block, saving))?;
    let has_text = result.content.iter().any(|block| matches!(block, Content::Text(_)));
    match result.structured {
        Some(structured) if !has_text => {
            let value: Value = serde_json::from_str(structured.get()).unwrap_or_default();
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            Ok(app.screen.result(&text)?)
        }
        _ => Ok(()),
    }
}

/// Prints one block of content, as messages of prompts have them too.
pub(super) fn print_block(app: &App, block: &Content<'_>, saving: Saving<'_>) -> Result<(), CliError> {
    match block {
        Content::Text(_) => text(app, &block.text().unwrap_or_default()),
        Content::Media { kind, data, mime_type } => blob(app, kind, mime_type, data, saving),
        Content::Other { kind, raw } => {
            let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
            match &**kind {
                "resource" => resource(app, &value["resource"], saving),
                "resource_link" => {
                    let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
                    line(app, &format!("[link {} {}]", word("name"), word("uri")))
                }
                _ => line(app, &format!("[{kind}] {}", raw.get())),
            }
        }
    }
}

/// Prints one of a resource's contents.
pub(super) fn resource(app: &App, contents: &Value, saving: Saving<'_>) -> Result<(), CliError> {
    let word = |key: &str| contents[key].as_str().unwrap_or_default();
    match contents["blob"].as_str() {
        Some(data) => {
            let stem = word("uri").rsplit('/').find(|part| !part.is_empty()).unwrap_or(saving.stem);
            blob(app, "file", word("mimeType"), data, Saving { stem, ..saving })
        }
        None => text(app, word("text")),
    }
}

fn text(app: &App, text: &str) -> Result<(), CliError> {
    // A terminal obeys what it is sent; a file or a program gets the text itself.
    match app.screen.width() {
        Some(_) => Ok(app.screen.result(crate::output::printable(text).trim_end_matches('\n'))?),
        None => Ok(app.screen.result(text.strip_suffix('\n').unwrap_or(text))?),
    }
}

fn line(app: &App, text: &str) -> Result<(), CliError> {
    Ok(app.screen.result(&crate::output::printable(text).replace('\n', " "))?)
}

fn blob(app: &App, kind: &str, mime_type: &str, data: &str, saving: Saving<'_>) -> Result<(), CliError> {
    let mime_type = if mime_type.is_empty() { "of unknown type" } else { mime_type };
    let Ok(bytes) = STANDARD.decode(data) else {
        return line(app, &format!("[{kind} {mime_type}, not valid base64]"));
    };
    let size = count(bytes.len(), "byte");
    match saving.folder {
        None => line(app, &format!("[{kind} {mime_type}, {size}; --save DIR writes it]")),
        Some(folder) => {
            let path = save(folder, saving.stem, extension(mime_type), &bytes).map_err(|error| {
                CliError::usage(format!("cannot write into {}: {error}", folder.display()))
                    .hint("give a folder that can be written with --save")
            })?;
            line(app, &format!("[{kind} {mime_type}, {size}, saved as {}]", path.display()))
        }
    }
}

/// Writes a new file and never over an old one; the name keeps harmless characters only.
fn save(folder: &Path, stem: &str, extension: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let safe: String =
        stem.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    let safe = safe.trim_start_matches('.');
    let safe = if safe.is_empty() { "result" } else { safe };
    let (base, extension) = match safe.rsplit_once('.') {
        Some((base, own)) if !base.is_empty() && own.len() <= 5 => (base, own),
        _ => (safe, extension),
    };
    for n in 1..=NAMES_MAX {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let path = folder.join(format!("{base}{number}.{extension}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("too many files of this name"))
}

fn extension(mime_type: &str) -> &str {
    let subtype = mime_type.split(';').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    match subtype {
        "jpeg" => "jpg",
        "svg+xml" => "svg",
        "plain" => "txt",
        "mpeg" => "mp3",
        "octet-stream" => "bin",
        short if (1..=5).contains(&short.len()) && short.bytes().all(|b| b.is_ascii_alphanumeric()) => short,
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_new_and_inside_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let names: Vec<String> = ["shot", "shot", "../../etc/passwd", "", "a.png"]
            .iter()
            .map(|stem| save(folder.path(), stem, "png", b"x").expect("saves"))
            .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["shot.png", "shot-2.png", "_.._etc_passwd.png", "result.png", "a.png"]);
    }

    #[test]
    fn media_types_have_extensions() {
        for (mime_type, want) in [
            ("image/png", "png"),
            ("image/jpeg", "jpg"),
            ("image/svg+xml", "svg"),
            ("x/very-odd", "bin"),
            ("", "bin"),
        ] {
            assert_eq!(extension(mime_type), want, "{mime_type}");
        }
    }
}
