//! The headers of every request of a link, prepared once and cloned for each.

use callboard_core::port::{Authenticator, CloseReason, HttpSpec, Negotiated};
use callboard_protocol::{Era, ProtocolVersion, Secret};
use parking_lot::RwLock;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;

/// Header of the negotiated revision (2025-06-18 and later).
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Header of the session (2025-03-26 to 2025-11-25).
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Header of the event to resume after (2025-03-26 to 2025-11-25).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Header of an editor's token, by the name that the editors' extensions look for.
const IDE_AUTHORIZATION: &str = "x-claude-code-ide-authorization";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_STREAM: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// What goes with each request of one link.
pub(crate) struct Headers {
    state: RwLock<State>,
    authenticator: Option<Arc<dyn Authenticator>>,
}

struct State {
    /// For a POST: the entry's headers, ours, the version and the session.
    post: HeaderMap,
    negotiated: Option<Negotiated>,
    is_session_expired: bool,
}

impl Headers {
    /// The headers of an entry, with `base` below them.
    ///
    /// # Errors
    /// When HTTP does not allow a name or a value; the message does not hold the value.
    pub(crate) fn new(
        mut base: HeaderMap,
        entry: &HttpSpec,
        authenticator: Option<Arc<dyn Authenticator>>,
    ) -> Result<Headers, CloseReason> {
        put_secrets(&mut base, &entry.headers)?;
        if let Some(token) = entry.ide.as_ref().and_then(|ide| ide.auth_token.clone()) {
            put_secrets(&mut base, &[(IDE_AUTHORIZATION.to_owned(), token)])?;
        }
        base.remove(SESSION);
        base.insert(CONTENT_TYPE, JSON);
        base.insert(ACCEPT, JSON_OR_STREAM);
        let state = State { post: base, negotiated: None, is_session_expired: false };
        Ok(Headers { state: RwLock::new(state), authenticator })
    }

    /// For a POST with these headers beside the usual ones.
    ///
    /// # Errors
    /// When HTTP does not allow one of them.
    pub(crate) fn for_post(&self, extra: &[(String, String)]) -> Result<HeaderMap, CloseReason> {
        let mut headers = self.state.read().post.clone();
        self.authenticate(&mut headers)?;
        for (name, value) in extra {
            headers.insert(header_name(name)?, header_value(name, value)?);
        }
        Ok(headers)
    }

    /// For a GET that opens a stream, or resumes one after an event.
    ///
    /// # Errors
    /// When HTTP does not allow a header of the authenticator.
    pub(crate) fn for_get(&self, last_event_id: Option<&str>) -> Result<HeaderMap, CloseReason> {
        let mut headers = self.for_delete()?;
        headers.insert(ACCEPT, STREAM);
        if let Some(id) = last_event_id {
            headers.insert(LAST_EVENT_ID, header_value(LAST_EVENT_ID.as_str(), id)?);
        }
        Ok(headers)
    }

    /// For a DELETE.
    ///
    /// # Errors
    /// When HTTP does not allow a header of the authenticator.
    pub(crate) fn for_delete(&self) -> Result<HeaderMap, CloseReason> {
        let mut headers = self.for_post(&[])?;
        headers.remove(CONTENT_TYPE);
        Ok(headers)
    }

    /// For the GET that asks for another protocol. What the entry says of `Accept` is about HTTP answers.
    ///
    /// # Errors
    /// When HTTP does not allow a header of the authenticator.
    pub(crate) fn for_upgrade(&self) -> Result<HeaderMap, CloseReason> {
        let mut headers = self.for_delete()?;
        headers.remove(ACCEPT);
        Ok(headers)
    }

    fn authenticate(&self, headers: &mut HeaderMap) -> Result<(), CloseReason> {
        match &self.authenticator {
            Some(authenticator) => put_secrets(headers, &authenticator.headers()),
            None => Ok(()),
        }
    }

    /// Takes what the handshake agreed on into all later requests.
    pub(crate) fn negotiated(&self, negotiated: &Negotiated) {
        let mut state = self.state.write();
        state.negotiated = Some(*negotiated);
        if negotiated.era == Era::Modern {
            state.post.remove(SESSION);
        }
        if negotiated.version >= ProtocolVersion::V2025_06_18 {
            state.post.insert(VERSION, HeaderValue::from_static(negotiated.version.as_str()));
        }
    }

    /// What the handshake agreed on, once it has.
    pub(crate) fn agreement(&self) -> Option<Negotiated> {
        self.state.read().negotiated
    }

    /// Takes the session from the answer to `initialize`, if it names one that may be echoed.
    pub(crate) fn capture_session(&self, answer: &HeaderMap) {
        let Some(session) = answer.get(SESSION) else { return };
        if session.is_empty() || !session.as_bytes().iter().all(u8::is_ascii_graphic) {
            tracing::warn!("a session id that is not visible ASCII is ignored");
            return;
        }
        let mut session = session.clone();
        session.set_sensitive(true);
        self.state.write().post.insert(SESSION, session);
    }

    /// Forgets the session: `initialize` goes without one.
    pub(crate) fn forget_session(&self) {
        self.state.write().post.remove(SESSION);
    }

    /// Do requests carry a session?
    pub(crate) fn has_session(&self) -> bool {
        self.state.read().post.contains_key(SESSION)
    }

    /// Notes that the server does not know the session any more.
    pub(crate) fn expire_session(&self) {
        self.state.write().is_session_expired = true;
    }

    /// Is there a session that the server still keeps for us?
    pub(crate) fn has_live_session(&self) -> bool {
        let state = self.state.read();
        state.post.contains_key(SESSION) && !state.is_session_expired
    }
}

fn put_secrets(headers: &mut HeaderMap, secrets: &[(String, Secret)]) -> Result<(), CloseReason> {
    for (name, value) in secrets {
        let mut value_checked = header_value(name, value.expose())?;
        value_checked.set_sensitive(true);
        headers.insert(header_name(name)?, value_checked);
    }
    Ok(())
}

fn header_name(name: &str) -> Result<HeaderName, CloseReason> {
    let refused = || CloseReason::Protocol(format!("{name:?} cannot be the name of a header"));
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, CloseReason> {
    let refused = || CloseReason::Protocol(format!("header {name} has a value that HTTP does not allow"));
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Headers {
        let headers = vec![("X-Key".to_owned(), Secret::new("k")), ("Accept".to_owned(), Secret::new("x/y"))];
        let entry = HttpSpec { headers, ..HttpSpec::default() };
        Headers::new(HeaderMap::new(), &entry, None).expect("valid")
    }

    fn session(value: &'static [u8]) -> HeaderMap {
        HeaderMap::from_iter([(SESSION, HeaderValue::from_bytes(value).expect("a value"))])
    }

    fn negotiated(version: ProtocolVersion) -> Negotiated {
        Negotiated { version, era: version.era() }
    }

    #[test]
    fn the_session_goes_with_every_legacy_request_and_no_modern_one() {
        let headers = headers();
        headers.capture_session(&session(b"S 1"));
        assert!(!headers.has_session(), "a blank is not visible");
        headers.capture_session(&session(b"S-1"));
        headers.negotiated(&negotiated(ProtocolVersion::V2025_11_25));
        let get = headers.for_get(Some("e1")).expect("valid");
        for (name, value) in [(SESSION, "S-1"), (VERSION, "2025-11-25"), (LAST_EVENT_ID, "e1")] {
            assert_eq!(get[&name], value, "{name}");
        }
        assert!(get.get(CONTENT_TYPE).is_none() && get[ACCEPT] == STREAM && get["x-key"] == "k");
        headers.negotiated(&negotiated(ProtocolVersion::V2026_07_28));
        assert!(!headers.for_post(&[]).expect("valid").contains_key(SESSION));
    }

    #[test]
    fn old_revisions_have_no_version_header() {
        let headers = headers();
        headers.negotiated(&negotiated(ProtocolVersion::V2025_03_26));
        assert!(!headers.for_post(&[]).expect("valid").contains_key(VERSION));
    }

    #[test]
    fn a_bad_header_is_named_and_its_value_is_not() {
        let headers = vec![("X-Key".to_owned(), Secret::new("a\nb"))];
        let entry = HttpSpec { headers, ..HttpSpec::default() };
        let error = Headers::new(HeaderMap::new(), &entry, None).err().expect("refused").to_string();
        assert!(error.contains("X-Key") && !error.contains("a\\nb"), "{error}");
    }
}
