//! Pages of `tools/list`, `resources/list`, `resources/templates/list` and `prompts/list`, item by item.

use crate::json::slice_of;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The four lists a server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    ResourceTemplates,
    /// `prompts/list`.
    Prompts,
}

impl ListKind {
    /// Every list.
    pub const ALL: [ListKind; 4] =
        [ListKind::Tools, ListKind::Resources, ListKind::ResourceTemplates, ListKind::Prompts];

    /// The method that asks for it.
    pub fn method(self) -> &'static str {
        match self {
            ListKind::Tools => "tools/list",
            ListKind::Resources => "resources/list",
            ListKind::ResourceTemplates => "resources/templates/list",
            ListKind::Prompts => "prompts/list",
        }
    }

    /// The member of the result that holds the items.
    pub fn key(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Resources => "resources",
            ListKind::ResourceTemplates => "resourceTemplates",
            ListKind::Prompts => "prompts",
        }
    }

    /// The member of an item that identifies it.
    pub fn item_key(self) -> &'static str {
        match self {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources => "uri",
            ListKind::ResourceTemplates => "uriTemplate",
        }
    }
}

/// One item of a list: its identity, and everything else raw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What identifies it: the name of a tool or prompt, the URI of a resource, the template.
    pub key: Box<str>,
    /// The whole item as the server sent it; shares the memory of the answer.
    pub raw: Bytes,
}

/// An item that was left out, or another oddity of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListProblem {
    /// What identifies the item, or its position.
    pub item: String,
    /// What is wrong with it.
    pub message: String,
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Items in the server's order.
    pub items: Vec<Item>,
    /// Items that were left out.
    pub problems: Vec<ListProblem>,
    /// The raw cursor of the next page; an empty string is a cursor, too.
    pub next_cursor: Option<Bytes>,
    /// How long the page may be reused, in milliseconds (2026-07-28; absent and negative read as 0).
    pub ttl_ms: u64,
    /// The page may be shown to callers with other credentials (2026-07-28).
    pub public: bool,
    /// The `resultType`, when there is one.
    pub result_type: Option<String>,
}

/// The first-level members of a page, raw; `null` reads as absent.
#[derive(Default)]
struct PageShape<'a> {
    list: Option<&'a str>,
    next_cursor: Option<&'a str>,
    ttl_ms: Option<&'a str>,
    cache_scope: Option<&'a str>,
    result_type: Option<&'a str>,
}

impl<'a> PageShape<'a> {
    fn read(text: &'a str, kind: ListKind) -> Result<PageShape<'a>, crate::scan::ScanError> {
        let mut shape = PageShape::default();
        for member in crate::scan::members(text) {
            let (key, value) = member?;
            let key = key.trim_matches('"');
            let place = match key {
                "nextCursor" => &mut shape.next_cursor,
                "ttlMs" => &mut shape.ttl_ms,
                "cacheScope" => &mut shape.cache_scope,
                "resultType" => &mut shape.result_type,
                key if key == kind.key() => &mut shape.list,
                _ => continue,
            };
            *place = (value != "null").then_some(value);
        }
        Ok(shape)
    }
}

impl Page {
    /// Reads a raw list result. Items decode one by one: a bad one is reported, its neighbours stay.
    ///
    /// # Errors
    /// A sentence when the result is not an object or the list itself is no list.
    pub fn read(kind: ListKind, raw: &Bytes) -> Result<Page, String> {
        let text = crate::json::text(raw);
        if !crate::json::is_object(text) {
            return Err("the result is not an object".into());
        }
        let shape = PageShape::read(text, kind).map_err(|e| format!("the result does not decode: {e}"))?;
        let cursor = shape.next_cursor.filter(|cursor| serde_json::from_str::<&RawValue>(cursor).is_ok());
        let mut page = Page {
            next_cursor: cursor.map(|cursor| slice_of(raw, cursor)),
            ttl_ms: shape.ttl_ms.and_then(|ttl| ttl.parse::<f64>().ok()).map_or(0, |ttl| ttl.max(0.0) as u64),
            public: shape.cache_scope == Some("\"public\""),
            result_type: shape.result_type.and_then(crate::json::string).map(|t| t.into_owned()),
            ..Page::default()
        };
        let list = shape.list;
        let Some(list) = list else {
            let message = format!("the result has no list {:?}", kind.key());
            page.problems.push(ListProblem { item: kind.key().into(), message });
            return Ok(page);
        };
        if crate::json::first_byte(list.as_bytes()) != Some(b'[') {
            return Err(format!("{:?} is not a list", kind.key()));
        }
        for (position, item) in crate::scan::elements(list).enumerate() {
            let item = item.map_err(|error| format!("the result does not decode: {error}"))?;
            match read_item(kind, item, position) {
                Ok(key) => page.items.push(Item { key, raw: slice_of(raw, item) }),
                Err(problem) => page.problems.push(problem),
            }
        }
        Ok(page)
    }
}

fn read_item(kind: ListKind, item: &str, position: usize) -> Result<Box<str>, ListProblem> {
    let at = |message: &str| ListProblem { item: format!("item {position}"), message: message.to_owned() };
    if !crate::json::is_object(item) {
        return Err(at("not an object"));
    }
    let (mut key, mut input_schema, mut bad) = (None, None, None);
    for member in crate::scan::members(item) {
        let (name, value) = member.map_err(|error| at(&error.to_string()))?;
        if !crate::json::is_value(value) {
            bad = Some(name);
        }
        match name.trim_matches('"') {
            name if name == kind.item_key() => key = crate::json::string(value),
            "inputSchema" => input_schema = Some(value),
            _ => {}
        }
    }
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        return Err(at(&format!("{:?} is missing or not a text", kind.item_key())));
    };
    let of_key = |message: String| ListProblem { item: key.to_string(), message };
    if let Some(name) = bad {
        return Err(of_key(format!("{name} is not JSON")));
    }
    if kind == ListKind::Tools && !input_schema.is_some_and(crate::json::is_object) {
        return Err(of_key("\"inputSchema\" is missing or not an object".to_owned()));
    }
    Ok(key.into_owned().into_boxed_str())
}

/// A tool's raw members, read when somebody looks at it.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolView<'a> {
    /// The raw `title`.
    #[serde(borrow, default)]
    pub title: Option<&'a RawValue>,
    /// The raw `description`.
    #[serde(borrow, default)]
    pub description: Option<&'a RawValue>,
    /// The raw `inputSchema`.
    #[serde(borrow, default, rename = "inputSchema")]
    pub input_schema: Option<&'a RawValue>,
    /// The raw `outputSchema`.
    #[serde(borrow, default, rename = "outputSchema")]
    pub output_schema: Option<&'a RawValue>,
    /// The raw `annotations`.
    #[serde(borrow, default)]
    pub annotations: Option<&'a RawValue>,
    /// The raw `_meta`.
    #[serde(borrow, default, rename = "_meta")]
    pub meta: Option<&'a RawValue>,
}

impl<'a> ToolView<'a> {
    /// Reads a tool's raw JSON; `None` when it is not an object.
    pub fn read(raw: &'a Bytes) -> Option<ToolView<'a>> {
        serde_json::from_str(crate::json::text(raw)).ok()
    }

    /// The description as text, empty when there is none.
    pub fn description_text(&self) -> std::borrow::Cow<'a, str> {
        self.description.and_then(|d| crate::json::string(d.get())).unwrap_or_default()
    }

    /// The title: `title`, else `annotations.title`.
    pub fn title_text(&self) -> Option<String> {
        let own = self.title.and_then(|t| crate::json::string(t.get()));
        if let Some(own) = own {
            return Some(own.into_owned());
        }
        let annotations: serde_json::Value = serde_json::from_str(self.annotations?.get()).ok()?;
        annotations.get("title")?.as_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_tool_does_not_hide_its_neighbours() {
        let raw = Bytes::from_static(
            br#"{"tools":[{"name":"good","inputSchema":{}},{"name":"bare"},{"inputSchema":{}},7,
                {"name":"nul","inputSchema":null},{"name":"also","inputSchema":{"type":"object"},"x":1}],"nextCursor":""}"#,
        );
        let page = Page::read(ListKind::Tools, &raw).expect("reads");
        let names: Vec<&str> = page.items.iter().map(|item| &*item.key).collect();
        assert_eq!(names, ["good", "also"]);
        assert_eq!(page.problems.len(), 4);
        assert_eq!(page.next_cursor.as_deref(), Some(&b"\"\""[..]));
    }

    #[test]
    fn an_item_that_is_no_json_inside_harms_itself_alone() {
        for bad in [r#""x":NaN"#, r#""x":"\q""#, r#""x":{"y":[1,]}"#, "\"x\":\"a\nb\"", r#""x":tru"#] {
            let raw = format!(
                r#"{{"tools":[{{"name":"bad","inputSchema":{{}},{bad}}},{{"name":"good","inputSchema":{{}},"d":"\n"}}]}}"#
            );
            let page = Page::read(ListKind::Tools, &Bytes::from(raw)).expect("reads");
            let names: Vec<&str> = page.items.iter().map(|item| &*item.key).collect();
            assert_eq!((names.as_slice(), page.problems.len()), (&["good"][..], 1), "{bad}");
        }
    }

    #[test]
    fn odd_pages() {
        let read = |raw: &'static str| Page::read(ListKind::Tools, &Bytes::from_static(raw.as_bytes()));
        assert_eq!(read(r#"{"tools":null}"#).expect("reads").problems.len(), 1);
        assert_eq!(
            read(r#"{"tools":[],"nextCursor":7}"#).expect("reads").next_cursor.as_deref(),
            Some(&b"7"[..])
        );
        assert_eq!(read(r#"{"tools":[],"nextCursor":null}"#).expect("reads").next_cursor, None);
        assert_eq!(read(r#"{"tools":[],"ttlMs":-5}"#).expect("reads").ttl_ms, 0);
        assert!(read("[]").is_err() && read(r#"{"tools":7}"#).is_err());
    }
}
