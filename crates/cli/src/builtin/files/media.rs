//! What kind of content a file has.

/// The media type that a name's extension stands for.
pub(super) fn media_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    match extension.as_str() {
        "css" => "text/css",
        "csv" => "text/csv",
        "gif" => "image/gif",
        "gz" => "application/gzip",
        "htm" | "html" => "text/html",
        "jpeg" | "jpg" => "image/jpeg",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "md" => "text/markdown",
        "mp3" => "audio/mpeg",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "rs" => "text/x-rust",
        "py" => "text/x-python",
        "svg" => "image/svg+xml",
        "toml" => "application/toml",
        "txt" | "log" => "text/plain",
        "wasm" => "application/wasm",
        "wav" => "audio/wav",
        "webp" => "image/webp",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "zip" => "application/zip",
        _ => "",
    }
}

/// The media type for a name and its content: by extension, else by whether it is text.
pub(super) fn media_type_of(name: &str, is_text: bool) -> &'static str {
    match (media_type(name), is_text) {
        ("", true) => "text/plain",
        ("", false) => "application/octet-stream",
        (known, _) => known,
    }
}

/// How much of the bytes, cut somewhere out of a file, is whole UTF-8 text; none where they are not text.
/// A character that the cut took apart at the end is left to the next part.
pub(super) fn text_length(bytes: &[u8], is_last: bool) -> Option<usize> {
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.len()),
        Err(error) if !is_last && error.error_len().is_none() && error.valid_up_to() > 0 => {
            Some(error.valid_up_to())
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_bytes() {
        let umlaut = "ab\u{fc}";
        assert_eq!(text_length(umlaut.as_bytes(), true), Some(4));
        assert_eq!(text_length(&umlaut.as_bytes()[..3], false), Some(2));
        assert_eq!(text_length(&umlaut.as_bytes()[..3], true), None);
        assert_eq!(text_length(b"a\xffb", false), None);
        assert_eq!(text_length(b"a\0b", true), None);
        assert_eq!(text_length(b"", true), Some(0));
    }

    #[test]
    fn media_types_come_from_names() {
        assert_eq!(media_type_of("a.PNG", false), "image/png");
        assert_eq!(media_type_of("Makefile", true), "text/plain");
        assert_eq!(media_type_of("core", false), "application/octet-stream");
    }
}
