//! A connection's bytes: plain TCP, or TLS over it. An adapter.
//!
//! The same type serves a blocking socket with timeouts (servers: a thread per connection) and a non-blocking one
//! (clients: one loop over all servers). In both, `WouldBlock` means "nothing now".

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use serde::{Deserialize, Serialize};

/// Paths of PEM files. A server needs `cert` and `key` (and with `ca` asks clients for a certificate of theirs); a client
/// needs `ca`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    #[serde(default)]
    pub ca: Option<String>,
    #[serde(default)]
    pub cert: Option<String>,
    #[serde(default)]
    pub key: Option<String>,
    /// Clients: the name that the server's certificate must have, if it is not the endpoint's host.
    #[serde(default)]
    pub name: Option<String>,
}

pub struct Stream {
    socket: Arc<TcpStream>,
    tls: Option<Box<Connection>>,
}

impl Stream {
    pub fn plain(socket: Arc<TcpStream>) -> Stream {
        Stream { socket, tls: None }
    }

    pub fn server(socket: Arc<TcpStream>, tls: Option<&Arc<ServerConfig>>) -> io::Result<Stream> {
        let tls = match tls {
            None => None,
            Some(config) => Some(ServerConnection::new(config.clone()).map_err(io::Error::other)?.into()),
        };
        Ok(Stream { socket, tls: tls.map(Box::new) })
    }

    pub fn client(
        socket: Arc<TcpStream>,
        tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Stream> {
        let tls = match tls {
            None => None,
            Some((config, name)) => {
                Some(ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?.into())
            }
        };
        Ok(Stream { socket, tls: tls.map(Box::new) })
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Whether bytes are left from before that no poll will announce.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// 0 is the end of the stream. With TLS, `WouldBlock` may also mean that what came was not yet a whole record, so
    /// that a caller with a clock gets to look at it.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return (&*self.socket).read(into) };
        match tls.reader().read(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
        take_in(tls, &self.socket)?;
        tls.reader().read(into)
    }

    /// Sends what it can. With TLS, `WouldBlock` means: nothing was taken; come back when the socket is ready.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return (&*self.socket).write_vectored(parts) };
        if tls.is_handshaking() {
            // Nothing of the caller's is taken before the other side is known.
            take_in(tls, &self.socket)?;
            if tls.is_handshaking() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        let mut taken = tls.writer().write_vectored(parts)?;
        match write_out(tls, &self.socket) {
            Ok(()) => {}
            Err(error) if taken > 0 && again(&error) => return Ok(taken),
            Err(error) => return Err(error),
        }
        if taken == 0 && parts.iter().any(|part| !part.is_empty()) {
            taken = tls.writer().write_vectored(parts)?;
            if taken == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        Ok(taken)
    }

    /// Sends what TLS still holds.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => write_out(tls, &self.socket),
        }
    }

    /// Says goodbye, if it can be said at once.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = write_out(tls, &self.socket);
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

fn take_in(tls: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    write_out(tls, socket)?;
    if tls.read_tls(&mut &*socket)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if let Err(error) = tls.process_new_packets() {
        let _ = write_out(tls, socket); // the alert that says why
        return Err(io::Error::new(ErrorKind::InvalidData, error));
    }
    write_out(tls, socket)
}

fn write_out(tls: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        if tls.write_tls(&mut &*socket)? == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// Nothing now, perhaps later.
pub fn again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Skips `taken` bytes of the parts that are being sent.
pub fn advance(parts: &mut &mut [IoSlice<'_>], taken: usize) {
    IoSlice::advance_slices(parts, taken);
}

/// How long nothing has come on a connection. `None` if the system does not say.
pub fn silent_for(socket: &TcpStream) -> Option<Duration> {
    // SAFETY: zeros are a tcp_info, and the kernel writes no more than the length that it is told.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let into = std::ptr::from_mut(&mut info).cast();
        let told = libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut length);
        (told == 0).then(|| Duration::from_millis(u64::from(info.tcpi_last_data_recv)))
    }
}

/// What every connection of ours has: no delay for small frames, and the system looks whether the peer is still there.
pub fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let set = |level: i32, name: i32, value: i32| {
        // SAFETY: the option's value is an int on this stack, and its size is given.
        unsafe {
            libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size_of::<i32>() as u32)
        };
    };
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 30);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 10);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 6);
    Ok(())
}

/// Connects to `host:port`, trying every address of the host within the time. IPv6 addresses stand in brackets.
pub fn dial(endpoint: &str, within: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + within;
    let mut last = io::Error::new(ErrorKind::NotFound, format!("{endpoint} has no address"));
    for address in endpoint.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub fn host_of(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Waits until one of the descriptors is ready, or the time is over. Interrupted counts as nothing ready.
pub fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let ms = timeout.map_or(-1, |t| t.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32);
    // SAFETY: the pointer and the count are those of the slice.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == ErrorKind::Interrupted { Ok(0) } else { Err(error) };
    }
    Ok(ready as usize)
}

pub fn server_tls(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let cert = files.cert.as_deref().ok_or("tls: a server needs cert, the path of its certificate")?;
    let key = files.key.as_deref().ok_or("tls: a server needs key, the path of its private key")?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?;
    let builder = match files.ca.as_deref() {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider())
                .build()
                .map_err(|error| format!("tls: {ca}: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates(cert)?, private_key(key)?)
        .map_err(|error| format!("tls: {cert}, {key}: {error}"))?;
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

pub fn client_tls(files: &TlsFiles, endpoint: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let ca = files.ca.as_deref().ok_or("tls: a client needs ca, the path of the certificates that it trusts")?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?
        .with_root_certificates(roots(ca)?);
    let config = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert)?, private_key(key)?)
            .map_err(|error| format!("tls: {cert}, {key}: {error}"))?,
        (None, None) => builder.with_no_client_auth(),
        _ => return Err("tls: a client that shows a certificate needs both cert and key".into()),
    };
    let name = files.name.as_deref().unwrap_or_else(|| host_of(endpoint));
    let name = ServerName::try_from(name.to_owned()).map_err(|_| format!("tls: {name} is no name of a host"))?;
    Ok((Arc::new(config), name))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("tls: {path} holds no certificate in PEM form")),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn private_key(path: &str) -> Result<PrivateKeyDer<'static>, String> {
    match PrivateKeyDer::from_pem_file(path) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(format!("tls: {path} holds no private key in PEM form")),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn unreadable(path: &str, error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("tls: {path}: {error}"),
        error => format!("tls: {path}: {error}"),
    }
}

fn roots(path: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| format!("tls: {path}: {error}"))?;
    }
    Ok(store)
}
