//! What a server may ask of its host: input of a person, a model's answer, folders.
//!
//! The same traits serve both eras: requests of a legacy server and `input_required` rounds of a modern one
//! end here (protocol.md §1.7).

use crate::port::{BoxFuture, ServerName};
use serde_json::value::RawValue;

/// What a server asks a person for.
#[derive(Debug, Clone)]
pub struct ElicitRequest {
    /// Who asks.
    pub server: ServerName,
    /// The text to show.
    pub message: String,
    /// What is asked for.
    pub what: ElicitWhat,
}

/// The two modes of an elicitation.
#[derive(Debug, Clone)]
pub enum ElicitWhat {
    /// Fields to fill in; the raw `requestedSchema`, a flat object.
    Form {
        /// The raw schema.
        schema: Box<RawValue>,
    },
    /// An address to visit. Nothing may be fetched from it before the person agrees.
    Url {
        /// The address, `http` or `https`.
        url: String,
        /// The id that a later completion notice names (2025-11-25).
        elicitation_id: Option<String>,
    },
}

/// What a person answered.
#[derive(Debug, Clone)]
pub enum ElicitAnswer {
    /// Agreed; for a form the raw content object. Fields that are missing get the schema's defaults.
    Accept(Option<Box<RawValue>>),
    /// Said no.
    Decline,
    /// Said nothing.
    Cancel,
}

/// Asks a person on behalf of a server.
pub trait Elicitation: Send + Sync + 'static {
    /// Asks. The clocks of the connection's calls stand still meanwhile.
    fn elicit(&self, request: ElicitRequest) -> BoxFuture<'static, ElicitAnswer>;

    /// True when addresses can be shown and opened, too.
    fn offers_url(&self) -> bool {
        false
    }
}

/// Asks the host's model on behalf of a server.
pub trait Sampling: Send + Sync + 'static {
    /// Answers `sampling/createMessage`: raw params in, raw result out.
    ///
    /// # Errors
    /// The sentence to give to the server when the person or the host refuses.
    fn create_message(
        &self,
        server: ServerName,
        params: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, String>>;
}

/// One folder that servers may work in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Root {
    /// A `file://` address.
    pub uri: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The host's handlers. What is absent is not offered to servers.
#[derive(Clone, Default)]
pub struct Handlers {
    /// Asks a person.
    pub elicitation: Option<std::sync::Arc<dyn Elicitation>>,
    /// Asks a model.
    pub sampling: Option<std::sync::Arc<dyn Sampling>>,
    /// Folders; none means that the capability is not offered.
    pub roots: Option<Vec<Root>>,
}
