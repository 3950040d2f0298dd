//! Making one connection: every address of every host in turn, until one lets us in. A look-up has its own time limit, and
//! so has each address, to the end of its log-in. When to try again is for others to say (`growth`).

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::net::{TcpStream, UnixStream};

use crate::cancel::Cancellation;
use crate::error::{ConnectCause, ConnectFailure, Tried};
use crate::home;
use crate::inbound::{Event, Inbound};
use crate::language::{Address, Expected, Language, Login, LoginStep};
use crate::limits::LOGIN_INPUT_BYTES_MAX;
use crate::lookup::Lookup;
use crate::reply::Reply;
use crate::socket::Socket;
use crate::tls::{self, TlsFailure};

/// Log-ins at one address within one connect: with and without TLS, and each of them with and without what a server
/// turned out not to bear.
const LOGINS_MAX: u32 = 4;

/// Room for one read: more than any server says at once during log-in, so far as it is heard at all.
const READ_BYTES: usize = 4096;

/// A connection that is logged in.
pub(crate) struct Connected<L: Language> {
    pub(crate) socket: Socket,
    pub(crate) framer: L::Framer,
    /// What the server has said since.
    pub(crate) leftover: BytesMut,
    /// Statements in flight, where that is fewer than in the pool's limits.
    pub(crate) in_flight_max: Option<usize>,
    /// The quickest answer of the log-in: at least the way there and back.
    pub(crate) round_trip_us: u64,
    /// How its statements are stopped.
    pub(crate) cancellation: Option<Cancellation>,
}

/// Where one log-in goes.
enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// Connects and logs in: at all addresses of all hosts in turn, until one lets us in. One socket at a time; there is one
/// place in the budget for it.
pub(crate) async fn connect<L: Language>(
    language: &L,
    lookup: &Lookup,
    timeout: Duration,
) -> Result<Connected<L>, Arc<ConnectFailure>> {
    let mut tried = Vec::new();
    for address in language.addresses() {
        let places = match places(address, lookup, timeout).await {
            Ok(places) => places,
            Err(cause) => {
                tried.push(Tried { address: address.clone(), peer: None, cause });
                continue;
            }
        };
        for place in places {
            let cause = match within(timeout, connect_to(language, address, &place)).await {
                Some(Ok(connected)) => return Ok(connected),
                Some(Err(cause)) => cause,
                None => ConnectCause::TimedOut(timeout),
            };
            let peer = match (address, place) {
                (Address::Tcp { host, .. }, Place::Tcp(peer)) if *host != peer.ip().to_string() => Some(peer),
                _ => None,
            };
            // What is wrong with the log-in is wrong at the other addresses of the same name, and servers count wrong
            // passwords.
            let lasting = cause.is_fatal();
            tried.push(Tried { address: address.clone(), peer, cause });
            if lasting {
                break;
            }
        }
    }
    Err(Arc::new(ConnectFailure { tried }))
}

/// The places that an address stands for. A look-up has a time limit of its own: whoever waits for an answer that never
/// comes should not have used up the time of an address that would have answered.
async fn places(address: &Address, lookup: &Lookup, timeout: Duration) -> Result<Vec<Place>, ConnectCause> {
    match address {
        Address::Unix(path) => Ok(vec![Place::Unix(path.clone())]),
        Address::Tcp { host, port } => match within(timeout, lookup.addresses(host, *port)).await {
            Some(Ok(addresses)) => Ok(addresses.into_iter().map(Place::Tcp).collect()),
            Some(Err(error)) => Err(io_cause(error)),
            None => Err(ConnectCause::LookupTimedOut(timeout)),
        },
    }
}

async fn connect_to<L: Language>(language: &L, address: &Address, place: &Place) -> Result<Connected<L>, ConnectCause> {
    let mut attempt = 0;
    loop {
        // The last one's socket is closed by now: there is never one too many.
        let socket = open(place).await.map_err(io_cause)?;
        match log_in(language, address, attempt, socket).await {
            Err(ConnectCause::Login(failure)) if failure.again && attempt + 1 < LOGINS_MAX => attempt += 1,
            result => return result,
        }
    }
}

async fn open(place: &Place) -> io::Result<Socket> {
    match place {
        Place::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        Place::Tcp(address) => Socket::from_tcp(TcpStream::connect(address).await?),
    }
}

fn io_cause(error: io::Error) -> ConnectCause {
    ConnectCause::Io(Arc::new(error))
}

async fn log_in<L: Language>(
    language: &L,
    address: &Address,
    attempt: u32,
    socket: Socket,
) -> Result<Connected<L>, ConnectCause> {
    let mut output = Vec::new();
    let begun = language.login(address, attempt, &mut output).map_err(ConnectCause::Login)?;
    converse::<L>(address, begun, output, socket).await
}

/// Asks the server to stop what runs on a connection, over another one. It has heard of it when it closes that.
pub(crate) async fn cancel<L: Language>(language: &L, cancellation: &Cancellation) -> Result<(), ConnectCause> {
    let Cancellation { address, peer, key } = cancellation;
    let mut output = Vec::new();
    let Some(begun) = language.cancel(address, key, &mut output) else { return Ok(()) };
    let begun = begun.map_err(ConnectCause::Login)?;
    let place = match (peer, address) {
        // The very server, not another one of the same name.
        (Some(peer), _) => Place::Tcp(*peer),
        (None, Address::Unix(path)) => Place::Unix(path.clone()),
        (None, Address::Tcp { .. }) => return Err(io_cause(io::ErrorKind::NotConnected.into())),
    };
    let socket = open(&place).await.map_err(io_cause)?;
    match converse::<L>(address, begun, output, socket).await {
        Err(ConnectCause::ClosedDuringLogin) => Ok(()),
        Err(cause) => Err(cause),
        Ok(_) => Err(io_cause(io::Error::new(io::ErrorKind::InvalidData, "a log-in where none was asked for"))),
    }
}

async fn converse<L: Language>(
    address: &Address,
    (mut login, mut step): (L::Login, LoginStep<L::Framer>),
    mut output: Vec<u8>,
    mut socket: Socket,
) -> Result<Connected<L>, ConnectCause> {
    let peer = socket.peer();
    let mut input = BytesMut::new();
    let mut round_trip_us = u64::MAX;
    loop {
        let asks = !output.is_empty();
        write_all(&mut socket, &mut output).await?;
        let limit = match step {
            LoginStep::NeedsInput => None,
            LoginStep::NeedsInputWithin(limit) => Some(limit),
            LoginStep::StartTls(request) => {
                let started = match input.is_empty() {
                    true => tls::start(socket, *request, &mut input).await,
                    false => Err(TlsFailure::Injected),
                };
                let (encrypted, peer) = started.map_err(|failure| ConnectCause::Login(login.tls_failed(failure)))?;
                socket = encrypted;
                step = login.tls_started(&peer, &mut output).map_err(ConnectCause::Login)?;
                continue;
            }
            LoginStep::Ready { framer, in_flight_max, cancel_key } => {
                let cancellation = cancel_key.map(|key| Cancellation { address: address.clone(), peer, key });
                return Ok(Connected { socket, framer, leftover: input, in_flight_max, round_trip_us, cancellation });
            }
        };
        let asked_at = Instant::now();
        if let Err(cause) = read_some(&mut socket, &mut input, limit).await {
            return Err(unanswered(&mut login, cause));
        }
        if asks {
            round_trip_us = round_trip_us.min(asked_at.elapsed().as_micros() as u64);
        }
        step = login.advance(&mut input, &mut output).map_err(ConnectCause::Login)?;
    }
}

/// Runs one statement on a connection that is for nothing else, and closes it. The reply, if the server refuses.
pub(crate) async fn run_once<L: Language>(
    connected: Connected<L>,
    message: &[u8],
) -> Result<Option<Reply>, ConnectCause> {
    let Connected { mut socket, framer, leftover, .. } = connected;
    let mut inbound = Inbound::new(framer, leftover, LOGIN_INPUT_BYTES_MAX);
    write_all(&mut socket, &mut message.to_vec()).await?;
    let refusal = loop {
        match inbound.next(Expected::Statement) {
            Ok(Some(Event::Reply { bytes, failed, .. })) => break bytes.filter(|_| failed),
            Ok(Some(Event::Farewell(_))) => return Err(ConnectCause::ClosedDuringLogin),
            Ok(None) => {}
            Err(fault) => return Err(io_cause(io::Error::new(io::ErrorKind::InvalidData, fault))),
        }
        if poll_fn(|cx| socket.poll_read(cx, inbound.buffer())).await.map_err(io_cause)? == 0 {
            return Err(ConnectCause::ClosedDuringLogin);
        }
    };
    socket.try_write(L::farewell());
    Ok(refusal)
}

fn unanswered(login: &mut impl Login, cause: ConnectCause) -> ConnectCause {
    let failure = match &cause {
        ConnectCause::Io(error) => error.get_ref().and_then(|error| error.downcast_ref::<TlsFailure>()),
        _ => None,
    };
    match failure {
        // With TLS 1.3 it is only now that we hear what the server thinks of our certificate.
        Some(failure) => ConnectCause::Login(login.tls_failed(failure.clone())),
        None => login.unanswered().map_or(cause, ConnectCause::Login),
    }
}

async fn write_all(socket: &mut Socket, output: &mut Vec<u8>) -> Result<(), ConnectCause> {
    let mut written = 0;
    while written < output.len() {
        written += poll_fn(|cx| socket.poll_write(cx, &output[written..])).await.map_err(io_cause)?;
    }
    output.clear();
    Ok(())
}

/// Reads once, within `limit` if there is one.
async fn read_some(socket: &mut Socket, input: &mut BytesMut, limit: Option<Duration>) -> Result<(), ConnectCause> {
    input.reserve(READ_BYTES);
    let read = poll_fn(|cx| socket.poll_read(cx, input));
    let read = match limit {
        None => read.await,
        Some(limit) => within(limit, read).await.ok_or(ConnectCause::TimedOut(limit))?,
    };
    if read.map_err(io_cause)? == 0 {
        return Err(ConnectCause::ClosedDuringLogin);
    }
    if input.len() > LOGIN_INPUT_BYTES_MAX {
        let error = io::Error::new(io::ErrorKind::InvalidData, "the server says too much during log-in");
        return Err(io_cause(error));
    }
    Ok(())
}

/// The output of `future`, or `None` when the time is over first.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut sleep = pin!(home::sleep(limit));
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}
