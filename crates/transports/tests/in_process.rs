//! Servers inside this process.

mod common;

use callboard_core::port::{CloseReason, InFrame, InProcessSpec, Link, ServerSpec, TransportSpec};
use callboard_core::settings::Settings;
use callboard_transports::{InProcessServers, dial_in_process};
use common::{PATIENCE, close, end, next, next_method, request, send};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

/// Servers whose ends of the streams come out of the receiver.
fn servers() -> (InProcessServers, Arc<Mutex<mpsc::Receiver<DuplexStream>>>) {
    let (sender, receiver) = mpsc::channel(4);
    let servers = InProcessServers::new();
    servers.register("here", move || {
        let sender = sender.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(1024);
            sender.send(theirs).await.map_err(io::Error::other)?;
            Ok(ours)
        }
    });
    (servers, Arc::new(Mutex::new(receiver)))
}

async fn dial(servers: &InProcessServers, key: &str, settings: Settings) -> Result<Link, CloseReason> {
    let request = request(ServerSpec::in_process("s", key), settings);
    let TransportSpec::InProcess(spec) = &request.server.spec().transport else { panic!("not in process") };
    dial_in_process(&request, spec, servers).await
}

async fn pair(settings: Settings) -> (Link, DuplexStream) {
    let (servers, ends) = servers();
    let link = dial(&servers, "here", settings).await.expect("opens");
    let server = ends.lock().await.recv().await.expect("opened");
    (link, server)
}

#[tokio::test]
async fn frames_go_out_and_come_back() {
    let (mut link, server) = pair(Settings::default()).await;
    let echo = tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(server);
        tokio::io::copy(&mut reader, &mut writer).await
    });
    // More than the stream takes at once, so that some of it waits.
    let long = format!("{{\"method\":\"{}\"}}", "x".repeat(40_000));
    for _ in 0..3 {
        send(&link, &long).expect("sent or waiting");
        send(&link, r#"{"method":"a"}"#).expect("sent or waiting");
    }
    for _ in 0..3 {
        assert_eq!(next_method(&mut link).await.len(), 40_000);
        assert_eq!(next_method(&mut link).await, "a");
    }
    close(link).await;
    timeout(PATIENCE, echo).await.expect("ends").expect("joins").expect("copies");
}

#[tokio::test]
async fn closing_and_dropping_a_link_drop_the_stream() {
    for is_closed in [true, false] {
        let (link, mut server) = pair(Settings::default()).await;
        let Link { send, receive, closer, .. } = link;
        if is_closed {
            closer.close().await;
        } else {
            drop(closer);
        }
        let mut rest = Vec::new();
        timeout(PATIENCE, server.read_to_end(&mut rest)).await.expect("ends").expect("reads");
        assert!(server.write_all(b"{}\n").await.is_err(), "nobody holds the other end");
        drop((send, receive));
    }
}

#[tokio::test]
async fn a_server_that_goes_ends_the_link_after_its_last_words() {
    let (mut link, mut server) = pair(Settings::default()).await;
    server.write_all(b"{\"method\":\"a\"}\n{\"method\":\"b\"}").await.expect("written");
    drop(server);
    assert_eq!(next_method(&mut link).await, "a");
    assert_eq!(next_method(&mut link).await, "b");
    assert!(matches!(end(&mut link).await, CloseReason::Ended { exit: None, .. } | CloseReason::Io { .. }));
    assert!(send(&link, "{}").is_err());
}

#[tokio::test]
async fn limits_are_those_of_the_wire() {
    let settings = common::settings(|settings| settings.wire_frame_bytes_max = 64);
    let (mut link, mut server) = pair(settings).await;
    let long = format!("{{\"id\":3,\"result\":\"{}\"}}\n", "x".repeat(500));
    server.write_all(long.as_bytes()).await.expect("written");
    assert!(matches!(next(&mut link).await, Ok(InFrame::TooLarge { id: Some(3), limit: 64 })));
}

#[tokio::test]
async fn what_cannot_be_opened_says_why() {
    let (servers, _ends) = servers();
    servers.register("broken", || async { Err::<DuplexStream, _>(io::Error::other("not today")) });
    assert!(servers.unregister("here") && !servers.unregister("here"));
    for (key, expected) in
        [("here", "registered no such"), ("broken", "not today"), ("", "registered no such")]
    {
        match dial(&servers, key, Settings::default()).await.map(drop) {
            Err(CloseReason::Spawn { command, message, not_found: false }) => {
                assert_eq!(command, InProcessSpec { key: key.into() }.key);
                assert!(message.contains(expected), "{message}");
            }
            other => panic!("{key}: {other:?}"),
        }
    }
}
