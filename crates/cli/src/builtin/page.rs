//! Pages of lists. A cursor names the last item before the page, so that it survives changes of the list.

use serde_json::{Value, json};

use super::message::{Fault, Object};

/// What every cursor starts with, so that a foreign one is told apart.
const CURSOR_PREFIX: &str = "after:";

/// Where a page starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    after: Option<String>,
}

impl Start {
    /// The start of the first page.
    pub(super) fn first() -> Self {
        Self { after: None }
    }

    /// Reads the `cursor` of a request. One that was not made here is invalid.
    pub(super) fn of(params: &Object) -> Result<Self, Fault> {
        match params.get("cursor") {
            None | Some(Value::Null) => Ok(Self::first()),
            Some(Value::String(cursor)) => {
                Self::parse(cursor).ok_or_else(|| Fault::invalid_params("invalid cursor"))
            }
            Some(_) => Err(Fault::invalid_params("a cursor is a string")),
        }
    }

    /// The start that a cursor stands for.
    pub(super) fn parse(cursor: &str) -> Option<Self> {
        cursor.strip_prefix(CURSOR_PREFIX).map(|key| Self { after: Some(key.to_owned()) })
    }

    /// The key of the last item before the page; none for the first page.
    pub(super) fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }
}

/// Some items of a list, and the cursor of those that follow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Takes up to `count_max` of the items after the start; `key` tells an item's key.
    pub(super) fn take(items: impl Iterator<Item = T>, count_max: usize, key: impl Fn(&T) -> String) -> Self {
        let mut items = items.peekable();
        let taken: Vec<T> = items.by_ref().take(count_max).collect();
        let next_cursor = items.peek().and(taken.last()).map(|last| format!("{CURSOR_PREFIX}{}", key(last)));
        Self { items: taken, next_cursor }
    }

    pub(super) fn map<U>(self, into: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(into).collect(), next_cursor: self.next_cursor }
    }
}

impl Page<Value> {
    /// The page as the result of a list method, its items under `name`.
    pub(super) fn into_result(self, name: &str) -> Object {
        let mut result = Object::new();
        result.insert(name.to_owned(), Value::Array(self.items));
        if let Some(cursor) = self.next_cursor {
            result.insert("nextCursor".to_owned(), json!(cursor));
        }
        result
    }
}

/// A page of a list with an order of its own. A cursor whose item is gone is invalid.
pub(super) fn page_of_named<T>(
    items: Vec<T>,
    start: &Start,
    count_max: usize,
    name: impl Fn(&T) -> String,
) -> Result<Page<T>, Fault> {
    let skipped = match start.after() {
        None => 0,
        Some(after) => items
            .iter()
            .position(|item| name(item) == after)
            .map(|at| at + 1)
            .ok_or_else(|| Fault::invalid_params("invalid cursor"))?,
    };
    Ok(Page::take(items.into_iter().skip(skipped), count_max, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cursor: Option<&str>) -> Result<(Vec<&'static str>, Option<String>), i32> {
        let mut params = Object::new();
        if let Some(cursor) = cursor {
            params.insert("cursor".to_owned(), json!(cursor));
        }
        let start = Start::of(&params).map_err(|fault| fault.code)?;
        page_of_named(vec!["b", "a", "c"], &start, 2, |name| (*name).to_owned())
            .map(|page| (page.items, page.next_cursor))
            .map_err(|fault| fault.code)
    }

    #[test]
    fn pages_follow_their_cursors() {
        assert_eq!(names(None), Ok((vec!["b", "a"], Some("after:a".to_owned()))));
        assert_eq!(names(Some("after:a")), Ok((vec!["c"], None)));
        for foreign in ["", "2", "after:gone"] {
            assert_eq!(names(Some(foreign)), Err(-32602), "{foreign}");
        }
    }
}
