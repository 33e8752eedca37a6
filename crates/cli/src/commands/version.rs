//! `version`.

use crate::app::App;
use crate::output::CliError;
use callboard_protocol::ProtocolVersion;
use serde_json::json;

/// Prints the version and the protocol revisions.
pub(super) fn version(app: &App) -> Result<(), CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let revisions = ProtocolVersion::ALL.map(ProtocolVersion::as_str);
    if app.screen.is_json() {
        let document = json!({ "name": "callboard", "version": version, "protocol_versions": revisions });
        return Ok(app.screen.document(&document)?);
    }
    Ok(app.screen.result(&format!("callboard {version} (protocol {})", revisions.join(", ")))?)
}
