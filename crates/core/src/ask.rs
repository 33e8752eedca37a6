//! From what a server asks, in either era, to the host's handlers and back.

mod form;

pub(crate) use form::filled_with_defaults;

use crate::call::CallError;
use crate::conn_core::ConnCore;
use crate::handler::{ElicitAnswer, ElicitRequest, ElicitWhat, Root};
use crate::port::{BoxFuture, IdePlatform};
use callboard_policy::ide_path;
use callboard_protocol::message::InputRequired;
use callboard_protocol::{Request, code, json};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The raw result, or a JSON-RPC code and message.
pub(crate) type Answer = Result<String, (i64, String)>;

/// Characters of a server's question that a person is shown.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// The answer to a request of a legacy server; none when nobody here handles its method.
pub(crate) fn legacy(core: &Arc<ConnCore>, request: &Request) -> Option<BoxFuture<'static, Answer>> {
    let params = request.params.as_ref().map_or("{}", json::text);
    answer(core, &request.method, params)
}

fn answer(core: &Arc<ConnCore>, method: &str, params: &str) -> Option<BoxFuture<'static, Answer>> {
    let handlers = &core.env.handlers;
    match method {
        "roots/list" => {
            let roots = roots_for(&core.platform, handlers.roots.as_ref()?);
            let raw = serde_json::json!({ "roots": roots }).to_string();
            Some(Box::pin(std::future::ready(Ok(raw))))
        }
        "sampling/createMessage" => {
            let asked = handlers.sampling.as_ref()?.create_message(core.server.clone(), json::boxed(params));
            let paused = core.pause_clocks();
            Some(Box::pin(async move {
                let answer = asked.await;
                drop(paused);
                answer.map(|raw| raw.get().to_owned()).map_err(|why| (code::USER_REJECTED, why))
            }))
        }
        "elicitation/create" => {
            let elicitation = handlers.elicitation.clone()?;
            let core = core.clone();
            let request = match elicit_request(&core, params, elicitation.offers_url()) {
                Ok(request) => request,
                Err(why) => return Some(Box::pin(std::future::ready(Err((code::INVALID_PARAMS, why))))),
            };
            Some(Box::pin(async move {
                let schema = match &request.what {
                    ElicitWhat::Form { schema } => Some(schema.clone()),
                    ElicitWhat::Url { .. } => None,
                };
                let paused = core.pause_clocks();
                let answer = elicitation.elicit(request).await;
                drop(paused);
                Ok(elicit_result(answer, schema.as_deref()))
            }))
        }
        _ => None,
    }
}

/// The folders as the server's side writes them. A folder without a name there keeps ours.
fn roots_for<'a>(platform: &IdePlatform, roots: &'a [Root]) -> Cow<'a, [Root]> {
    match platform {
        IdePlatform::Here => Cow::Borrowed(roots),
        IdePlatform::Windows { distro } => {
            let translated = |root: &Root| {
                let uri = ide_path::uri_to_windows(&root.uri, distro.as_deref());
                Root { uri: uri.unwrap_or_else(|| root.uri.clone()), name: root.name.clone() }
            };
            Cow::Owned(roots.iter().map(translated).collect())
        }
    }
}

/// Reads the params of an elicitation. A mode that was not offered is refused; a missing mode is a form.
fn elicit_request(core: &ConnCore, params: &str, offers_url: bool) -> Result<ElicitRequest, String> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        mode: Option<String>,
        #[serde(default)]
        message: String,
        #[serde(default, rename = "requestedSchema")]
        schema: Option<Box<RawValue>>,
        #[serde(default)]
        url: Option<String>,
        #[serde(default, rename = "elicitationId")]
        elicitation_id: Option<String>,
    }
    let shape: Shape = serde_json::from_str(params).map_err(|error| format!("bad elicitation: {error}"))?;
    let what = match shape.mode.as_deref() {
        None | Some("form") => {
            let schema = shape.schema.unwrap_or_else(|| json::boxed(r#"{"type":"object","properties":{}}"#));
            ElicitWhat::Form { schema }
        }
        Some("url") if offers_url => {
            let url = shape.url.unwrap_or_default();
            if !url.starts_with("https://") && !url.starts_with("http://") {
                return Err("the url of an elicitation must be http or https".into());
            }
            ElicitWhat::Url { url, elicitation_id: shape.elicitation_id }
        }
        Some(mode) => return Err(format!("the client does not offer elicitation mode {mode:?}")),
    };
    let message = callboard_protocol::text::cut(&shape.message, MESSAGE_CHARS_MAX).0.to_owned();
    Ok(ElicitRequest { server: core.server.clone(), message, what })
}

fn elicit_result(answer: ElicitAnswer, schema: Option<&RawValue>) -> String {
    match (answer, schema) {
        (ElicitAnswer::Accept(content), Some(schema)) => {
            let content = filled_with_defaults(schema.get(), content.as_deref().map_or("{}", RawValue::get));
            serde_json::json!({ "action": "accept", "content": content }).to_string()
        }
        (ElicitAnswer::Accept(_), None) => r#"{"action":"accept"}"#.into(),
        (ElicitAnswer::Decline, _) => r#"{"action":"decline"}"#.into(),
        (ElicitAnswer::Cancel, _) => r#"{"action":"cancel"}"#.into(),
    }
}

/// Answers every input of a modern round: the raw members of `inputResponses`.
///
/// # Errors
/// When one of them cannot be answered: there is no slot for a refusal, so the call ends.
pub(crate) async fn modern(core: &Arc<ConnCore>, input: &InputRequired) -> Result<String, CallError> {
    let mut asked = Vec::with_capacity(input.requests.len());
    for (key, method, params) in &input.requests {
        let params = params.as_deref().map_or("{}", RawValue::get);
        let answer = answer(core, method, params)
            .ok_or_else(|| CallError::InputNeeded(format!("{method} is not offered by this client")))?;
        asked.push(async move { (key, answer.await) });
    }
    let mut members = Vec::with_capacity(asked.len());
    for (key, answer) in join_all(asked).await {
        let raw = answer.map_err(|(_, why)| CallError::InputNeeded(why))?;
        members.push(format!("{}:{raw}", serde_json::Value::from(key.as_str())));
    }
    Ok(members.join(","))
}

/// Does the elicitations that a 2025-11-25 server demands with error -32042 before it performs a call; false
/// when one of them was not agreed to, or nobody here can ask.
pub(crate) async fn required_urls(core: &Arc<ConnCore>, data: &str) -> bool {
    #[derive(Deserialize)]
    struct Data {
        #[serde(default)]
        elicitations: Vec<Box<RawValue>>,
    }
    let Ok(data) = serde_json::from_str::<Data>(data) else { return false };
    for elicitation in &data.elicitations {
        let Some(answer) = answer(core, "elicitation/create", elicitation.get()) else { return false };
        match answer.await {
            Ok(raw) if raw.contains(r#""action":"accept""#) => {}
            Ok(_) | Err(_) => return false,
        }
    }
    !data.elicitations.is_empty()
}
