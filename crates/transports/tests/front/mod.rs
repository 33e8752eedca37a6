//! Fronts that lead to a server on loopback: a proxy, a TLS server with an authority of its own, a Unix-domain socket.
#![allow(dead_code, missing_docs, unreachable_pub)]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// `host:port` of a URL.
pub fn authority(url: &str) -> String {
    url.split('/').nth(2).expect("a URL").to_owned()
}

/// Carries bytes to a server until either side ends.
async fn relay(mut stream: impl AsyncRead + AsyncWrite + Unpin, first: &[u8], to: &str) {
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    if server.write_all(first).await.is_ok() {
        let _ = copy_bidirectional(&mut stream, &mut server).await;
    }
}

/// A proxy that leads every request to one server, whatever it names.
pub struct Proxy {
    pub address: String,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub async fn start(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound").to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = heads.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(proxied(stream, server.clone(), seen.clone()));
            }
        });
        Proxy { address, heads, task }
    }

    /// The heads of requests, one for each connection.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn proxied(mut stream: TcpStream, server: String, heads: Arc<Mutex<Vec<String>>>) {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let is_tunnel = head.starts_with("CONNECT ");
    let is_refused = head.to_ascii_lowercase().contains("refuse.test");
    heads.lock().expect("no panic").push(head);
    if is_refused {
        let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    } else if is_tunnel {
        if stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
            relay(stream, &bytes[end..], &server).await;
        }
    } else {
        relay(stream, &bytes, &server).await;
    }
}

/// A TLS server for `localhost` and `server.test` before a plain one, with an authority that no system knows.
pub struct Tls {
    pub address: String,
    /// The authority's certificate.
    pub pem: String,
    task: JoinHandle<()>,
}

impl Tls {
    pub async fn start(server: String) -> Tls {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signs");
        let names = ["localhost", "server.test", "127.0.0.1"].map(str::to_owned);
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let certificate = params.signed_by(&key, &authority).expect("signs");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = format!("localhost:{}", listener.local_addr().expect("bound").port());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        relay(stream, b"", &server).await;
                    }
                });
            }
        });
        Tls { address, pem: authority.pem(), task }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A Unix-domain socket before a server.
#[cfg(unix)]
pub struct Socket {
    task: JoinHandle<()>,
}

#[cfg(unix)]
impl Socket {
    pub fn start(path: &std::path::Path, server: String) -> Socket {
        let listener = tokio::net::UnixListener::bind(path).expect("binds");
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                connections.spawn(async move { relay(stream, b"", &server).await });
            }
        });
        Socket { task }
    }
}

#[cfg(unix)]
impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
    }
}
