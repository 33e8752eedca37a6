//! What a model is shown of a result: whole blocks first, cut on safe boundaries, nothing in silence.
//!
//! Source of the rules: `result.*` of the behaviour profile, §5.8 to §5.10.

use crate::content::{Content, ToolResult};
use crate::text::cut;
use serde::Serialize;

/// Bounds of what is shown of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewLimits {
    /// Characters of text in all blocks together.
    pub text_chars_max: usize,
    /// Decoded bytes of one media block.
    pub media_bytes_max: usize,
}

/// What a model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// The blocks, in the order of the result.
    pub blocks: Vec<ViewBlock>,
    /// One sentence for each thing that was cut or left out; each stands in a text block as well.
    pub notes: Vec<String>,
}

/// One block of a [`View`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum ViewBlock {
    /// Text to read.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Base64.
        data: String,
        /// Media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// Base64.
        data: String,
        /// Media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
}

/// Makes the view of a result. Structured content is shown as JSON text when no block says it already.
pub fn view(result: &ToolResult<'_>, limits: ViewLimits) -> View {
    let mut shown = View::default();
    let budget = text_budget(result, limits.text_chars_max);
    for block in &result.content {
        match block {
            Content::Text(raw) => {
                let text = crate::json::string(raw.get()).unwrap_or_default();
                push_text(&mut shown, &text, budget);
            }
            Content::Media { kind, data, mime_type } => {
                push_media(&mut shown, (kind, data, mime_type), limits)
            }
            Content::Other { kind, raw } => push_other(&mut shown, kind, raw.get(), limits, budget),
        }
    }
    if let Some(structured) = structured_alone(result) {
        push_text(&mut shown, structured, budget);
    }
    shown
}

/// The structured content, when the blocks do not say it already: servers repeat it as text, or repeat
/// their media in it, where base64 would be read as text.
fn structured_alone<'a>(result: &ToolResult<'a>) -> Option<&'a str> {
    let structured = result.structured?.get();
    let is_said = result.content.iter().any(|block| match block {
        Content::Text(_) => true,
        Content::Media { data, .. } => !data.is_empty() && structured.contains(&**data),
        Content::Other { .. } => false,
    });
    (!is_said).then_some(structured)
}

/// The most characters one block may show so that all together stay within `max`: short blocks stay whole
/// and the long ones share what is left evenly.
fn text_budget(result: &ToolResult<'_>, max: usize) -> usize {
    let mut lengths: Vec<usize> = result.content.iter().map(text_chars).filter(|n| *n > 0).collect();
    lengths.sort_unstable();
    let (mut left, mut blocks) = (max, lengths.len());
    for length in lengths {
        if length > left / blocks {
            return left / blocks;
        }
        left -= length;
        blocks -= 1;
    }
    left.max(max)
}

fn text_chars(block: &Content<'_>) -> usize {
    match block {
        Content::Text(raw) => crate::json::string(raw.get()).map_or(0, |text| text.chars().count()),
        Content::Other { kind, raw } => other_text(kind, raw.get()).chars().count(),
        Content::Media { .. } => 0,
    }
}

fn push_text(shown: &mut View, text: &str, budget: usize) {
    let (head, was_cut) = cut(text, budget);
    let mut head = head.to_owned();
    if was_cut {
        let note = format!("[cut: {} of {} characters shown]", head.chars().count(), text.chars().count());
        head.push('\n');
        head.push_str(&note);
        shown.notes.push(note);
    }
    shown.blocks.push(ViewBlock::Text { text: head });
}

fn push_media(shown: &mut View, (kind, data, mime_type): (&str, &str, &str), limits: ViewLimits) {
    let bytes = decoded_len(data);
    if bytes > limits.media_bytes_max {
        return leave_out(shown, &format!("[left out: {kind} {mime_type} of {bytes} bytes]"));
    }
    let (data, mime_type) = (data.to_owned(), mime_type.to_owned());
    shown.blocks.push(match kind {
        "image" => ViewBlock::Image { data, mime_type },
        _ => ViewBlock::Audio { data, mime_type },
    });
}

fn push_other(shown: &mut View, kind: &str, raw: &str, limits: ViewLimits, budget: usize) {
    if let Some((data, mime_type)) = embedded_blob(raw) {
        let bytes = decoded_len(&data);
        if mime_type.starts_with("image/") && bytes <= limits.media_bytes_max {
            shown.blocks.push(ViewBlock::Image { data, mime_type });
        } else {
            leave_out(shown, &format!("[left out: {kind} {mime_type} of {bytes} bytes]"));
        }
        return;
    }
    push_text(shown, &other_text(kind, raw), budget);
}

fn leave_out(shown: &mut View, note: &str) {
    shown.blocks.push(ViewBlock::Text { text: note.to_owned() });
    shown.notes.push(note.to_owned());
}

/// How a block that is neither text nor media reads: an embedded text as it is, a link by its address,
/// anything else as its JSON.
fn other_text(kind: &str, raw: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(raw).unwrap_or_default();
    match kind {
        "resource" => match value.pointer("/resource/text").and_then(|text| text.as_str()) {
            Some(text) => text.to_owned(),
            None if embedded_blob(raw).is_some() => String::new(),
            None => raw.to_owned(),
        },
        "resource_link" => match value.get("uri").and_then(|uri| uri.as_str()) {
            Some(uri) => format!("[resource {uri}]"),
            None => raw.to_owned(),
        },
        _ => raw.to_owned(),
    }
}

fn embedded_blob(raw: &str) -> Option<(String, String)> {
    let value: serde_json::Value = serde_json::from_str(raw).ok()?;
    let blob = value.pointer("/resource/blob")?.as_str()?.to_owned();
    let mime_type = value.pointer("/resource/mimeType").and_then(|m| m.as_str()).unwrap_or_default();
    Some((blob, mime_type.to_owned()))
}

/// Bytes that base64 text stands for.
fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count();
    (base64.len() / 4 * 3 + base64.len() % 4 * 3 / 4).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(raw: &str, text_chars_max: usize, media_bytes_max: usize) -> View {
        view(&ToolResult::read(raw).expect("reads"), ViewLimits { text_chars_max, media_bytes_max })
    }

    #[test]
    fn short_blocks_stay_whole_beside_a_long_one() {
        let raw = format!(
            r#"{{"content":[{{"type":"text","text":"{}"}},{{"type":"text","text":"short"}}]}}"#,
            "x".repeat(500)
        );
        let view = shown(&raw, 100, 0);
        assert_eq!(view.notes.len(), 1);
        assert_eq!(view.blocks[1], ViewBlock::Text { text: "short".into() });
    }

    #[test]
    fn what_fits_is_whole_and_media_is_whole_or_absent() {
        let raw = r#"{"content":[{"type":"text","text":"abc"},{"type":"image","data":"QUJDRA==","mimeType":"image/png"}]}"#;
        assert_eq!(shown(raw, 3, 4).notes, Vec::<String>::new());
        let view = shown(raw, 3, 3);
        assert_eq!(view.notes, ["[left out: image image/png of 4 bytes]"]);
        assert!(view.blocks.iter().all(|block| matches!(block, ViewBlock::Text { .. })));
    }

    #[test]
    fn media_is_not_repeated_from_structured_content() {
        let image = r#"{"type":"image","data":"QUJDRA==","mimeType":"image/png"}"#;
        let repeats = format!(r#"{{"content":[{image}],"structuredContent":{{"result":[{image}]}}}}"#);
        assert_eq!(shown(&repeats, 1_000, 1_000).blocks.len(), 1);
        let adds = format!(r#"{{"content":[{image}],"structuredContent":{{"width":3}}}}"#);
        assert_eq!(shown(&adds, 1_000, 1_000).blocks[1], ViewBlock::Text { text: r#"{"width":3}"#.into() });
    }

    #[test]
    fn structured_content_is_shown_when_there_is_no_text() {
        assert_eq!(
            shown(r#"{"structuredContent":{"a":1}}"#, 100, 0).blocks,
            [ViewBlock::Text { text: r#"{"a":1}"#.into() }]
        );
    }
}
