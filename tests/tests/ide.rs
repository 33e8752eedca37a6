//! An editor on Windows, as a server of a process inside the Linux subsystem: it checks the token, and is told of
//! folders by the names that it knows them by.
#![allow(clippy::result_large_err, reason = "the library's callback returns a whole response")]

use callboard::protocol::Secret;
use callboard::{
    Board, HttpSpec, IdePlatform, IdeSpec, RemoteKind, Root, Scope, ServerSpec, Settings, TransportKinds,
    TransportSpec,
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;

/// No step may take longer.
const BOUND: Duration = Duration::from_secs(20);

/// Lets in whoever has the token, and asks for the folders once it is told `initialized`.
async fn editor(stream: TcpStream, roots: mpsc::UnboundedSender<Value>) {
    let check = |request: &Request, response: Response| match request
        .headers()
        .get("x-claude-code-ide-authorization")
        .is_some_and(|token| token == "token-1")
    {
        true => Ok(response),
        false => {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = StatusCode::FORBIDDEN;
            Err(refusal)
        }
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, check).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        let Ok(text) = message.into_text() else { continue };
        let Ok(frame) = serde_json::from_str::<Value>(&text) else { continue };
        let answer = match (frame["method"].as_str(), frame.get("id")) {
            (Some("initialize"), Some(id)) => json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": {"name": "editor", "version": "1"}}}),
            (Some("notifications/initialized"), None) => {
                json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})
            }
            (Some(_), Some(id)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}})
            }
            (None, Some(_)) => {
                let _ = roots.send(frame["result"]["roots"].clone());
                continue;
            }
            (_, None) => continue,
        };
        if socket.send(Message::Text(answer.to_string().into())).await.is_err() {
            return;
        }
    }
}

async fn start() -> (String, mpsc::UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("ws://{}/", listener.local_addr().expect("bound"));
    let (tell, roots) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            editor(stream, tell.clone()).await;
        }
    });
    (url, roots)
}

fn spec(url: &str, token: &str) -> ServerSpec {
    let platform = IdePlatform::Windows { distro: Some("Debian".into()) };
    let ide = IdeSpec { name: "Demo".into(), platform, auth_token: Some(Secret::new(token)) };
    let http =
        HttpSpec { url: url.into(), kind: RemoteKind::WebSocketIde, ide: Some(ide), ..HttpSpec::default() };
    ServerSpec::new("editor", TransportSpec::Http(http))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_editor_on_windows_gets_its_token_and_folders_by_its_own_names() {
    let (url, mut asked) = start().await;
    let root = |uri: &str| Root { uri: uri.into(), name: None };
    let roots = vec![root("file:///mnt/c/Work/x/my%20work"), root("file:///srv/x")];
    let board = Board::builder().server(spec(&url, "token-1")).roots(roots).build().await.expect("builds");
    board.server("editor").expect("admitted").connect(Some(BOUND)).await.expect("connects");
    let told = timeout(BOUND, asked.recv()).await.expect("in time").expect("asks");
    assert_eq!(
        told,
        json!([{"uri": "file:///C:/Work/x/my%20work"}, {"uri": "file://wsl.localhost/Debian/srv/x"}])
    );
    board.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_editor_turns_away_another_token_and_a_rule_turns_away_editors() {
    let (url, _asked) = start().await;
    let settings = Settings { connect_retries_max: 0, ..Settings::default() };
    let builder = Board::builder().settings(settings.clone()).server(spec(&url, "token-2"));
    let board = builder.build().await.expect("builds");
    let error = board.server("editor").expect("admitted").connect(Some(BOUND)).await.expect_err("refused");
    assert!(format!("{error:?}").contains("403"), "{error:?}");
    board.close().await;

    let transport_allow = TransportKinds::of_words(["stdio", "http"]).expect("kinds");
    let not_allowed = Settings { transport_allow, ..settings.clone() };
    let of_user = ServerSpec { scope: Scope::User, ..spec(&url, "token-1") };
    for (settings, entry, why) in
        [(not_allowed, spec(&url, "token-1"), "transport.allow"), (settings, of_user, "scope user")]
    {
        let board = Board::builder().settings(settings).server(entry).build().await.expect("builds");
        assert!(board.server("editor").is_none());
        assert!(board.admission().refused[0].reason.contains(why), "{:?}", board.admission().refused);
        board.close().await;
    }
}
