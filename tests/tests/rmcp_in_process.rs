//! A server made with rmcp, inside this process, over a stream in memory: how a host embeds one.

use callboard::{Board, CallError, CallOptions, ServerSpec};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RunningServiceCancellationToken};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::timeout;

/// No step may take longer.
const BOUND: Duration = Duration::from_secs(20);
/// What the stream in memory holds, in bytes: less than an answer of `large`.
const STREAM_BYTES: usize = 4 * 1024;

struct Embedded;

impl ServerHandler for Embedded {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = || Arc::new(serde_json::Map::from_iter([("type".to_owned(), "object".into())]));
        let tools = ["echo", "large", "fails", "refuses", "waits"];
        let tools = tools.map(|name| Tool::new(name, "A tool of the test", schema()));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = |text: String| vec![ContentBlock::text(text)];
        let result = match &*request.name {
            "echo" => {
                let said = request.arguments.as_ref().and_then(|arguments| arguments.get("text"));
                CallToolResult::success(text(said.and_then(|said| said.as_str()).unwrap_or_default().into()))
            }
            "large" => CallToolResult::success(text("x".repeat(1 << 20))),
            "fails" => CallToolResult::error(text("it went wrong".into())),
            "waits" => std::future::pending().await,
            other => return Err(ErrorData::invalid_params(format!("{other} is refused"), None)),
        };
        Ok(result.into())
    }
}

/// Ends each server that was connected to.
type Ends = Arc<Mutex<Vec<RunningServiceCancellationToken>>>;

async fn board() -> (Board, Ends) {
    let ends = Ends::default();
    let started = ends.clone();
    let connect = move || {
        let started = started.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
            tokio::spawn(async move {
                if let Ok(service) = Embedded.serve(theirs).await {
                    started.lock().expect("no panic").push(service.cancellation_token());
                    let _ = service.waiting().await;
                }
            });
            Ok(ours)
        }
    };
    let builder = Board::builder().in_process("embedded", connect);
    let board = builder.server(ServerSpec::in_process("rmcp", "embedded")).build().await.expect("builds");
    (board, ends)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tools_are_listed_and_called_and_both_kinds_of_error_come_through() {
    let (board, _ends) = board().await;
    let server = board.server("rmcp").expect("admitted");
    server.connect(Some(BOUND)).await.expect("connects");
    let tools = timeout(BOUND, server.tools()).await.expect("in time").expect("lists");
    assert_eq!(tools.items.len(), 5);
    let reply =
        board.call("mcp__rmcp__echo", r#"{"text": "ä"}"#, CallOptions::default()).await.expect("answers");
    assert_eq!(reply.text(), "ä");
    let large = server.call_tool("large", "{}", CallOptions::default()).await.expect("answers");
    assert_eq!(large.text().len(), 1 << 20);
    let failed = server.call_tool("fails", "{}", CallOptions::default()).await.expect("answers");
    assert_eq!((failed.is_error(), &*failed.text()), (true, "it went wrong"));
    let refused = server.call_tool("refuses", "{}", CallOptions::default()).await.expect_err("is refused");
    assert!(matches!(&refused, CallError::Remote(error) if error.code == -32602), "{refused:?}");
    board.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_end_of_the_stream_fails_what_waits_and_the_next_call_meets_a_new_server() {
    let (board, ends) = board().await;
    let server = board.server("rmcp").expect("admitted");
    server.connect(Some(BOUND)).await.expect("connects");
    let waits = {
        let server = server.clone();
        tokio::spawn(async move { server.call_tool("waits", "{}", CallOptions::default()).await })
    };
    // The server answers in turn of arrival, so what waits has arrived with this.
    server.call_tool("echo", "{}", CallOptions::default()).await.expect("answers");
    ends.lock().expect("no panic").remove(0).cancel();
    let lost = timeout(BOUND, waits).await.expect("in time").expect("no panic");
    assert!(lost.is_err(), "{lost:?}");
    let options = CallOptions { timeout: Some(BOUND), ..CallOptions::default() };
    let reply = server.call_tool("echo", r#"{"text": "again"}"#, options).await.expect("answers");
    assert_eq!(reply.text(), "again");
    assert_eq!(ends.lock().expect("no panic").len(), 1, "the second server of this test");
    board.close().await;
}
