//! The methods that ask a server something, each answered in the words of the request's revision. What
//! changes the session itself is in `session`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::message::{Fault, Object};
use super::outbox::Reporter;
use super::page::{Start, page_of_named};
use super::revision::{LogLevel, META_SERVER_INFO, RequestMeta, Revision};
use super::server::{About, Later, Prompts, ResourceError, ToolServer};

/// Tools, prompts or templates on a page.
const PAGE_ITEMS_MAX: usize = 50;

/// Completions in one answer, as the texts of all revisions limit them.
const COMPLETIONS_MAX: usize = 100;

/// How long a client may keep what cannot change while this process lives, in milliseconds.
const FIXED_TTL_MS: u64 = 3_600_000;

/// What a method answers, now or after some work.
pub(super) enum Reply {
    Now(Result<Value, Fault>),
    Later(Later<'static, Result<Value, Fault>>),
    /// The request stays open; this message acknowledges it.
    Open(Value),
}

/// A request whose era is known.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) params: Object,
    pub(super) meta: RequestMeta,
}

/// Answers a request that concerns the server alone.
pub(super) fn answer(server: &Arc<dyn ToolServer>, request: Request, reporter: Reporter) -> Reply {
    let Request { method, params, meta } = request;
    let asked = Asked { server: Arc::clone(server), params, revision: meta.revision };
    let is_modern = meta.revision.is_modern();
    let has_resources = server.resources().is_some();
    let has_prompts = server.prompts().is_some();
    match method.as_str() {
        "server/discover" if is_modern => Reply::Now(Ok(asked.discover())),
        "ping" if !is_modern => Reply::Now(Ok(json!({}))),
        "tools/list" => Reply::Now(asked.list_tools()),
        "tools/call" => asked.call_tool(reporter),
        "resources/list" if has_resources => asked.list_resources(),
        "resources/templates/list" if has_resources => Reply::Now(asked.list_templates()),
        "resources/read" if has_resources => asked.read_resource(),
        "prompts/list" if has_prompts => Reply::Now(asked.list_prompts()),
        "prompts/get" if has_prompts => Reply::Now(asked.get_prompt()),
        "completion/complete" if has_resources || has_prompts => asked.complete(),
        _ => Reply::Now(Err(Fault::method_not_found(&method))),
    }
}

/// The result of `initialize`.
pub(super) fn initialized(server: &dyn ToolServer, revision: Revision) -> Value {
    let about = server.about();
    json!({
        "protocolVersion": revision.name(),
        "capabilities": capabilities(server, revision),
        "serverInfo": about.implementation(revision),
        "instructions": about.instructions,
    })
}

/// Puts on a result what its revision wants on every result.
pub(super) fn seal(mut result: Object, about: &About, revision: Revision) -> Value {
    if revision.is_modern() {
        result.insert("resultType".to_owned(), json!("complete"));
        let meta = result.entry("_meta").or_insert_with(|| json!({}));
        meta[META_SERVER_INFO] = about.implementation(revision);
    }
    Value::Object(result)
}

fn capabilities(server: &dyn ToolServer, revision: Revision) -> Value {
    let list_changed = server.changes().is_some();
    let mut capabilities = json!({ "logging": {}, "tools": { "listChanged": list_changed } });
    if server.resources().is_some() {
        capabilities["resources"] = json!({ "subscribe": true, "listChanged": list_changed });
    }
    if server.prompts().is_some() {
        capabilities["prompts"] = json!({ "listChanged": false });
    }
    let has_completions = server.resources().is_some() || server.prompts().is_some();
    if has_completions && revision >= Revision::V2025_03_26 {
        capabilities["completions"] = json!({});
    }
    capabilities
}

/// A request on its way through one of the methods.
struct Asked {
    server: Arc<dyn ToolServer>,
    params: Object,
    revision: Revision,
}

impl Asked {
    fn seal(&self, result: Object) -> Value {
        seal(result, &self.server.about(), self.revision)
    }

    /// Seals a result that modern clients may keep for `ttl_ms`.
    fn seal_cacheable(&self, mut result: Object, ttl_ms: u64) -> Value {
        if self.revision.is_modern() {
            result.insert("ttlMs".to_owned(), json!(ttl_ms));
            result.insert("cacheScope".to_owned(), json!("private"));
        }
        self.seal(result)
    }

    /// A text that the params must have.
    fn text(&self, name: &str) -> Result<&str, Fault> {
        let text = self.params.get(name).and_then(Value::as_str);
        text.ok_or_else(|| Fault::invalid_params(format!("{name} must be a string")))
    }

    /// The `arguments` of the params; left out, they are empty.
    fn arguments(&self) -> Result<Object, Fault> {
        match self.params.get("arguments") {
            None | Some(Value::Null) => Ok(Object::new()),
            Some(Value::Object(arguments)) => Ok(arguments.clone()),
            Some(_) => Err(Fault::invalid_params("arguments must be an object")),
        }
    }

    fn discover(&self) -> Value {
        let mut result = Object::new();
        result.insert("supportedVersions".to_owned(), json!(Revision::supported()));
        result.insert("capabilities".to_owned(), capabilities(&*self.server, self.revision));
        result.insert("instructions".to_owned(), json!(self.server.about().instructions));
        self.seal_cacheable(result, FIXED_TTL_MS)
    }

    fn list_tools(&self) -> Result<Value, Fault> {
        let start = Start::of(&self.params)?;
        let page = page_of_named(self.server.tools(), &start, PAGE_ITEMS_MAX, |tool| tool.name.to_owned())?;
        let result = page.map(|tool| tool.to_json(self.revision)).into_result("tools");
        let ttl_ms = if self.server.changes().is_some() { 0 } else { FIXED_TTL_MS };
        Ok(self.seal_cacheable(result, ttl_ms))
    }

    fn call_tool(self, reporter: Reporter) -> Reply {
        let prepared = self.text("name").map(str::to_owned).and_then(|name| {
            let is_known = self.server.tools().iter().any(|tool| tool.name == name);
            if !is_known {
                return Err(Fault::invalid_params(format!("unknown tool {name}")));
            }
            Ok((name, self.arguments()?))
        });
        let (name, arguments) = match prepared {
            Ok(prepared) => prepared,
            Err(fault) => return Reply::Now(Err(fault)),
        };
        Reply::Later(Box::pin(async move {
            reporter.log(LogLevel::Debug, json!({ "event": "call", "tool": name }));
            let called = self.server.call(&name, Arguments::new(arguments), &reporter).await;
            let result = match called {
                Ok(output) => output.into_result(self.revision),
                Err(error) => {
                    let data = json!({ "event": "failed", "tool": name, "error": error.to_string() });
                    reporter.log(LogLevel::Warning, data);
                    error.into_result()
                }
            };
            Ok(self.seal(result))
        }))
    }

    fn list_resources(self) -> Reply {
        let start = match Start::of(&self.params) {
            Ok(start) => start,
            Err(fault) => return Reply::Now(Err(fault)),
        };
        Reply::Later(Box::pin(async move {
            let Some(resources) = self.server.resources() else {
                return Err(Fault::method_not_found("resources/list"));
            };
            let page = resources.list(&start).await;
            let page = page.map_err(|error| Fault::internal(error.to_string()))?;
            Ok(self.seal_cacheable(page.into_result("resources"), 0))
        }))
    }

    fn list_templates(&self) -> Result<Value, Fault> {
        let templates = self.server.resources().map(|resources| resources.templates());
        let start = Start::of(&self.params)?;
        let page = page_of_named(templates.unwrap_or_default(), &start, PAGE_ITEMS_MAX, |template| {
            template["uriTemplate"].as_str().unwrap_or_default().to_owned()
        })?;
        Ok(self.seal_cacheable(page.into_result("resourceTemplates"), FIXED_TTL_MS))
    }

    fn read_resource(self) -> Reply {
        let uri = match self.text("uri") {
            Ok(uri) => uri.to_owned(),
            Err(fault) => return Reply::Now(Err(fault)),
        };
        Reply::Later(Box::pin(async move {
            let Some(resources) = self.server.resources() else {
                return Err(Fault::method_not_found("resources/read"));
            };
            let read = resources.read(&uri).await;
            let content = read.map_err(|error| resource_fault(&error, &uri, self.revision))?;
            let mut result = Object::new();
            result.insert("contents".to_owned(), json!([content]));
            Ok(self.seal_cacheable(result, 0))
        }))
    }

    fn list_prompts(&self) -> Result<Value, Fault> {
        let prompts = self.server.prompts().map(Prompts::list).unwrap_or_default();
        let start = Start::of(&self.params)?;
        let page = page_of_named(prompts, &start, PAGE_ITEMS_MAX, |prompt| prompt.name.to_owned())?;
        let result = page.map(|prompt| prompt.to_json(self.revision)).into_result("prompts");
        Ok(self.seal_cacheable(result, FIXED_TTL_MS))
    }

    fn get_prompt(&self) -> Result<Value, Fault> {
        let name = self.text("name")?;
        let prompts = self.server.prompts().ok_or_else(|| Fault::method_not_found("prompts/get"))?;
        let prompt = prompts.list().into_iter().find(|prompt| prompt.name == name);
        let prompt = prompt.ok_or_else(|| Fault::invalid_params(format!("unknown prompt {name}")))?;
        let arguments = self.arguments()?;
        for argument in prompt.arguments.iter().filter(|argument| argument.is_required) {
            if !arguments.contains_key(argument.name) {
                return Err(Fault::invalid_params(format!("{} is required", argument.name)));
            }
        }
        if let Some((name, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
            return Err(Fault::invalid_params(format!("{name} must be a string")));
        }
        let text = prompts.get(name, &arguments).map_err(Fault::invalid_params)?;
        let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
        let mut result = Object::new();
        result.insert("description".to_owned(), json!(prompt.description));
        result.insert("messages".to_owned(), json!([message]));
        Ok(self.seal(result))
    }

    fn complete(self) -> Reply {
        let target = match CompletionTarget::of(&self.params) {
            Ok(target) => target,
            Err(fault) => return Reply::Now(Err(fault)),
        };
        Reply::Later(Box::pin(async move {
            let found = match &target.reference {
                Reference::Prompt(name) => self.server.prompts().and_then(|prompts| {
                    let is_known = prompts.list().iter().any(|prompt| prompt.name == name);
                    is_known.then(|| prompts.complete(name, &target.argument, &target.prefix))
                }),
                Reference::Resource(template) => match self.server.resources() {
                    Some(resources) => resources.complete(template, &target.argument, &target.prefix).await,
                    None => None,
                },
            };
            let mut values = found.ok_or_else(|| Fault::invalid_params("nothing to complete there"))?;
            let total = values.len();
            values.truncate(COMPLETIONS_MAX);
            let has_more = total > values.len();
            let completion = json!({ "values": values, "total": total, "hasMore": has_more });
            let mut result = Object::new();
            result.insert("completion".to_owned(), completion);
            Ok(self.seal(result))
        }))
    }
}

enum Reference {
    Prompt(String),
    Resource(String),
}

/// What `completion/complete` asks for.
struct CompletionTarget {
    reference: Reference,
    argument: String,
    prefix: String,
}

impl CompletionTarget {
    fn of(params: &Object) -> Result<Self, Fault> {
        let text = |object: &str, name: &str| {
            let value = params.get(object).and_then(|object| object.get(name)).and_then(Value::as_str);
            value
                .map(str::to_owned)
                .ok_or_else(|| Fault::invalid_params(format!("{object}.{name} must be a string")))
        };
        let reference = match text("ref", "type")?.as_str() {
            "ref/prompt" => Reference::Prompt(text("ref", "name")?),
            "ref/resource" => Reference::Resource(text("ref", "uri")?),
            _ => return Err(Fault::invalid_params("ref.type must be ref/prompt or ref/resource")),
        };
        Ok(Self { reference, argument: text("argument", "name")?, prefix: text("argument", "value")? })
    }
}

/// The error of a resource that cannot be read, in the code of that revision.
pub(super) fn resource_fault(error: &ResourceError, uri: &str, revision: Revision) -> Fault {
    match error {
        ResourceError::NotFound if revision.is_modern() => Fault::resource_not_found_modern(uri),
        ResourceError::NotFound => Fault::resource_not_found_legacy(uri),
        ResourceError::TooLarge { .. } | ResourceError::Io(_) => Fault::internal(error.to_string()),
    }
}
