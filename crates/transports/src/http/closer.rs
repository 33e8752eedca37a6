//! The end of a streamable HTTP link.

use super::link::HttpLink;
use callboard_core::port::{BoxFuture, LinkCloser};
use reqwest::Method;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the server has to take leave of its session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends a link: at once when dropped, with good manners when closed.
pub(crate) struct HttpCloser(pub(crate) Arc<HttpLink>);

impl LinkCloser for HttpCloser {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let link = &self.0;
            let mut ending = link.stop();
            while ending.join_next().await.is_some() {}
            if !link.headers.has_live_session() {
                return;
            }
            link.headers.expire_session();
            // Any answer will do: a server may refuse (405), and a session that is not ended ends by itself.
            let delete = link.send(Method::DELETE, None, || link.headers.for_delete());
            let _ = timeout(DELETE_TIMEOUT, delete).await;
        })
    }
}

impl Drop for HttpCloser {
    fn drop(&mut self) {
        drop(self.0.stop());
    }
}
