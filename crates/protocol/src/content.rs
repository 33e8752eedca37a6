//! Results of `tools/call`, `prompts/get` and `resources/read`, read lazily from their raw JSON.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A `CallToolResult`, with each member still raw. Unknown members stay in the raw result.
#[derive(Debug, Clone, Default)]
pub struct ToolResult<'a> {
    /// The content blocks in order; empty when the server sent none.
    pub content: Vec<Content<'a>>,
    /// The raw `structuredContent`.
    pub structured: Option<&'a RawValue>,
    /// The tool reports a failure; the content says which.
    pub is_error: bool,
}

/// One content block.
#[derive(Debug, Clone)]
pub enum Content<'a> {
    /// `text`: the raw JSON string.
    Text(&'a RawValue),
    /// `image` or `audio`: base64 data and its media type.
    Media {
        /// `image` or `audio`.
        kind: Cow<'a, str>,
        /// The base64 text.
        data: Cow<'a, str>,
        /// The media type, empty when the server gave none.
        mime_type: Cow<'a, str>,
    },
    /// Any other block, as it came: `resource`, `resource_link`, kinds of later revisions.
    Other {
        /// The `type` member, empty when there is none.
        kind: Cow<'a, str>,
        /// The whole block.
        raw: &'a RawValue,
    },
}

impl<'a> Content<'a> {
    /// The text of a text block, decoded.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Content::Text(raw) => crate::json::string(raw.get()),
            Content::Media { .. } | Content::Other { .. } => None,
        }
    }
}

#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "isError")]
    is_error: Option<&'a RawValue>,
}

/// A result whose blocks are all objects.
#[derive(Deserialize)]
struct Plain<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<PlainBlock<'a>>>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "isError")]
    is_error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PlainBlock<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

impl PlainBlock<'_> {
    fn is_text(&self) -> bool {
        self.kind == "text" && self.text.is_some_and(|text| text.get().starts_with('"'))
    }
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "mimeType")]
    mime_type: Option<&'a RawValue>,
}

impl<'a> ToolResult<'a> {
    /// Reads a raw result. Missing content reads as none; a block of an unknown kind or shape is kept raw.
    ///
    /// # Errors
    /// A sentence when the result is not an object, or its content not a list.
    pub fn read(raw: &'a str) -> Result<ToolResult<'a>, String> {
        if !crate::json::is_object(raw) {
            return Err("the result is not an object".into());
        }
        // Results of text alone, the common case, are read in one pass.
        if let Ok(plain) = serde_json::from_str::<Plain<'a>>(raw)
            && plain.content.iter().flatten().all(PlainBlock::is_text)
        {
            let content =
                plain.content.into_iter().flatten().filter_map(|block| block.text.map(Content::Text));
            let (content, is_error) = (content.collect(), flag(plain.is_error));
            return Ok(ToolResult { content, structured: plain.structured, is_error });
        }
        let shape: Shape<'a> =
            serde_json::from_str(raw).map_err(|e| format!("the result does not decode: {e}"))?;
        let content = match shape.content {
            None => Vec::new(),
            Some(list) => serde_json::from_str::<Vec<&'a RawValue>>(list.get())
                .map_err(|_| "the result's content is not a list".to_owned())?
                .into_iter()
                .map(block)
                .collect(),
        };
        Ok(ToolResult { content, structured: shape.structured, is_error: flag(shape.is_error) })
    }

    /// All text blocks, joined by line ends.
    pub fn text(&self) -> Cow<'a, str> {
        let mut texts = self.content.iter().filter_map(Content::text);
        let Some(first) = texts.next() else { return Cow::Borrowed("") };
        let mut joined: Option<String> = None;
        for text in texts {
            let joined = joined.get_or_insert_with(|| first.clone().into_owned());
            joined.push('\n');
            joined.push_str(&text);
        }
        joined.map_or(first, Cow::Owned)
    }
}

fn flag(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

fn word<'a>(raw: Option<&'a RawValue>) -> Cow<'a, str> {
    raw.and_then(|raw| crate::json::string(raw.get())).unwrap_or(Cow::Borrowed(""))
}

fn block(raw: &RawValue) -> Content<'_> {
    let block = if crate::json::is_object(raw.get()) {
        serde_json::from_str::<Block<'_>>(raw.get()).ok()
    } else {
        None
    };
    let Some(block) = block else {
        return Content::Other { kind: Cow::Borrowed(""), raw };
    };
    let kind = word(block.kind);
    match (&*kind, block.text, block.data) {
        ("text", Some(text), _) if text.get().starts_with('"') => Content::Text(text),
        ("image" | "audio", _, Some(data)) if data.get().starts_with('"') => {
            Content::Media { kind, data: word(Some(data)), mime_type: word(block.mime_type) }
        }
        _ => Content::Other { kind, raw },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_results_are_read_as_far_as_they_go() {
        let read = |raw: &'static str| ToolResult::read(raw);
        assert_eq!(read(r#"{"structuredContent":3}"#).expect("reads").text(), "");
        assert_eq!(read(r#"{"content":null}"#).expect("reads").content.len(), 0);
        let odd =
            read(r#"{"content":[{"type":"hologram","x":1},{"type":"text","text":"ok"},7],"isError":true}"#);
        let odd = odd.expect("reads");
        assert!(odd.is_error && odd.content.len() == 3);
        assert_eq!(odd.text(), "ok");
        assert!(read("[]").is_err());
        assert!(read(r#"{"content":7}"#).is_err());
    }

    #[test]
    fn texts_are_joined() {
        let two = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"}]}"#;
        assert_eq!(ToolResult::read(two).expect("reads").text(), "a\nb\n");
    }
}
