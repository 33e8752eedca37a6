//! A relay on loopback that can swallow: it takes what comes and passes nothing on, not even the end. So looks a
//! peer that has lost its power, or a path whose middle forgot the connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Bytes that are carried at once.
const CARRIED: usize = 16 * 1024;

/// What is swallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swallowed {
    /// What the client says.
    Requests,
    /// What the server says.
    Answers,
    /// Both.
    Both,
}

impl Swallowed {
    fn requests(self) -> bool {
        matches!(self, Swallowed::Requests | Swallowed::Both)
    }

    fn answers(self) -> bool {
        matches!(self, Swallowed::Answers | Swallowed::Both)
    }
}

/// What connections are told: what is swallowed now, and how often each direction was, so that none misses a
/// short time.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    now: Option<Swallowed>,
    requests: u64,
    answers: u64,
}

impl Told {
    fn times(self, is_meant: fn(Swallowed) -> bool) -> u64 {
        if is_meant(Swallowed::Requests) { self.requests } else { self.answers }
    }
}

/// A relay in front of one server. Dropped, it ends.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    told: watch::Sender<Told>,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Listens on a free port of loopback and passes everything on.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(target: SocketAddr) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (tell, told) = watch::channel(Told::default());
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = accepted.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    biased;
                    Some(_) = connections.join_next() => {}
                    accepted = listener.accept() => match accepted {
                        Ok((client, _)) => {
                            counted.fetch_add(1, Ordering::Relaxed);
                            connections.spawn(carry(client, target, told.clone()));
                        }
                        // Out of descriptors, for example: the next client may have more luck.
                        Err(_) => tokio::task::yield_now().await,
                    },
                }
            }
        });
        Ok(Relay { address, told: tell, accepted, task })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that clients have made so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Swallows from now on, on all connections. Those that are open now never recover.
    pub fn swallow(&self, what: Swallowed) {
        self.told.send_modify(|told| {
            told.now = Some(what);
            told.requests += u64::from(what.requests());
            told.answers += u64::from(what.answers());
        });
    }

    /// Passes new connections on again.
    pub fn pass(&self) {
        self.told.send_modify(|told| told.now = None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries one connection to its end.
async fn carry(mut client: TcpStream, target: SocketAddr, told: watch::Receiver<Told>) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = pass_on(from_client, to_server, told.clone(), Swallowed::requests);
        let answers = async {
            match pass_on(from_server, to_client, told, Swallowed::answers).await {
                // The client is not told.
                End::Swallowed => std::future::pending().await,
                end => end,
            }
        };
        tokio::select! {
            biased;
            _ = requests => End::Closed,
            end = answers => end,
        }
    };
    if end == End::Broken {
        let _ = client.set_zero_linger();
    }
}

/// How one direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Broken,
    /// However it was, nobody is told.
    Swallowed,
}

async fn pass_on(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut told: watch::Receiver<Told>,
    is_meant: fn(Swallowed) -> bool,
) -> End {
    let mut buffer = vec![0; CARRIED];
    let first = *told.borrow_and_update();
    let mut is_swallowed = first.now.is_some_and(is_meant);
    loop {
        let read = tokio::select! {
            biased;
            Ok(()) = told.changed(), if !is_swallowed => {
                is_swallowed = told.borrow_and_update().times(is_meant) > first.times(is_meant);
                continue;
            }
            read = from.read(&mut buffer) => read,
        };
        match read {
            Ok(0) | Err(_) if is_swallowed => return End::Swallowed,
            Ok(0) => return End::Closed,
            Err(_) => return End::Broken,
            Ok(_) if is_swallowed => {}
            Ok(read) => {
                if to.write_all(&buffer[..read]).await.is_err() {
                    return End::Broken;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    /// A server that sends back what it gets.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = socket.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        address
    }

    async fn says(client: &mut TcpStream, text: &str) -> String {
        client.write_all(text.as_bytes()).await.expect("writes");
        let mut heard = vec![0; text.len()];
        match timeout(Duration::from_millis(300), client.read_exact(&mut heard)).await {
            Ok(read) => read.map(|_| String::from_utf8_lossy(&heard).into_owned()).unwrap_or("ended".into()),
            Err(_) => "nothing".into(),
        }
    }

    #[tokio::test]
    async fn an_open_connection_is_swallowed_for_ever_and_a_later_one_is_not() {
        for what in [Swallowed::Requests, Swallowed::Answers, Swallowed::Both] {
            let relay = Relay::start(echo().await).await.expect("starts");
            let mut open = TcpStream::connect(relay.address()).await.expect("connects");
            assert_eq!(says(&mut open, "one").await, "one");
            relay.swallow(what);
            assert_eq!(says(&mut open, "two").await, "nothing", "{what:?}");
            let mut meanwhile = TcpStream::connect(relay.address()).await.expect("is accepted");
            assert_eq!(says(&mut meanwhile, "three").await, "nothing");
            relay.pass();
            let mut later = TcpStream::connect(relay.address()).await.expect("connects");
            assert_eq!(says(&mut later, "four").await, "four");
            assert_eq!(says(&mut open, "five").await, "nothing");
        }
    }
}
