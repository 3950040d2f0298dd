//! A MySQL server that lies about TLS, or is not the one that is meant: nothing that is worth something is ever said to it
//! in clear, and the caller hears what is wrong. And passwords in clear: only by leave, and only to whom one knows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cenote_mysql::{AuthPlugin, Error, SettingsBuilder, SslMode, SslRoots};
use cenote_tests::mysql::scripted::packet::{self, Greeting};
use cenote_tests::mysql::scripted::{LogIn, Server, Session};
use cenote_tests::mysql::{open, settings_at};
use cenote_tests::{Authority, Certified, OwnFile, must_end};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The bytes by which a client asks for TLS are the first of those by which it logs in.
const TLS_REQUEST_BYTES: usize = 32;

const DEMANDING: [SslMode; 3] = [SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity];

fn with_tls() -> Greeting {
    Greeting { capabilities: packet::CAPABILITIES | packet::SSL, ..Greeting::default() }
}

/// What a server has seen of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// It asked for TLS, and went no further.
    Asked,
    /// It logged in by TLS.
    Encrypted(Box<LogIn>),
    /// It logged in so that anybody could listen.
    InClear(Box<LogIn>),
    /// It said nothing at all.
    Nothing,
}

/// A server that offers TLS, and begins it when asked; then it takes the log-in, and closes the connection.
fn encrypting(certified: Certified) -> (Server, UnboundedReceiver<Seen>) {
    let certified = Arc::new(certified);
    scripted(move |session| {
        session.start_tls(&certified)?;
        Ok(Seen::Encrypted(Box::new(LogIn::parse(&session.payload()?.1))))
    })
}

/// A server that offers TLS; what it does when asked is up to the script, whose error means that nothing more came.
fn scripted(
    asked: impl Fn(&mut Session) -> io::Result<Seen> + Send + Sync + 'static,
) -> (Server, UnboundedReceiver<Seen>) {
    let (tell, told) = unbounded_channel();
    let server = Server::start_raw(move |session| {
        session.send(&packet::packet(0, &with_tls().payload()))?;
        let seen = match session.payload() {
            Err(_) => Seen::Nothing,
            Ok((_, payload)) if payload.len() > TLS_REQUEST_BYTES => Seen::InClear(Box::new(LogIn::parse(&payload))),
            Ok(_) => asked(session).unwrap_or(Seen::Asked),
        };
        // The test may be over.
        let _ = tell.send(seen);
        Ok(())
    });
    (server, told)
}

/// What is told of the first connection.
async fn first<T>(mut told: UnboundedReceiver<T>) -> T {
    must_end("the first connection", told.recv()).await.expect("a connection came")
}

/// In this mode; what may be better next time is tried again until the time is over.
fn settings(server: &Server, mode: SslMode, roots: &OwnFile) -> SettingsBuilder {
    let settings = settings_at(&server.url(""), "rogue").ssl_mode(mode).acquire_timeout(Duration::from_secs(1));
    let settings = settings.hosts([]).host("localhost", server.port());
    if mode >= SslMode::VerifyCa { settings.ssl_ca(SslRoots::File(roots.path().to_owned())) } else { settings }
}

async fn outcome(settings: SettingsBuilder) -> Error {
    let pool = open(settings);
    must_end("a query to a rogue", pool.query_one("select 1", &[])).await.expect_err("nobody answers a query here")
}

#[tokio::test]
async fn no_offer_is_not_put_up_with_where_tls_is_demanded() {
    let roots = OwnFile::create(Authority::create("ours").pem());
    for mode in [SslMode::Preferred, SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity] {
        let (tell, told) = unbounded_channel();
        let server = Server::start_raw(move |session| {
            session.send(&packet::packet(0, &Greeting::default().payload()))?;
            let said = session.payload().is_ok();
            let _ = tell.send(said);
            Ok(())
        });
        let error = outcome(settings(&server, mode, &roots)).await;
        let said = first(told).await;
        assert_eq!(said, mode == SslMode::Preferred, "{mode:?}: who demands TLS says nothing without");
        if mode > SslMode::Preferred {
            assert!(error.is_caller() && error.to_string().contains("does not offer TLS"), "{mode:?}: {error}");
        }
    }
}

#[tokio::test]
async fn bytes_between_the_wish_for_tls_and_its_start_are_not_taken() {
    let roots = OwnFile::create(Authority::create("ours").pem());
    // With the greeting, so that they are there before TLS is asked for.
    for mode in [SslMode::Preferred, SslMode::Required] {
        let (tell, told) = unbounded_channel();
        let server = Server::start_raw(move |session| {
            let greeting = packet::packet(0, &with_tls().payload());
            session.send(&[greeting, packet::packet(2, &packet::ok(0, 0))].concat())?;
            // The test may be over.
            let _ = tell.send(session.rest());
            Ok(())
        });
        let error = outcome(settings(&server, mode, &roots)).await;
        assert!(first(told).await.len() <= 4 + TLS_REQUEST_BYTES, "{mode:?}: a log-in in clear");
        assert!(error.to_string().contains("bytes"), "{mode:?}: {error}");
        assert_ne!(error.was_sent(), Some(true), "{mode:?}: {error}");
    }
}

/// Words in the place of TLS: nobody's words, since anybody in between can say them.
#[tokio::test]
async fn words_in_the_place_of_tls_are_not_believed() {
    let roots = OwnFile::create(Authority::create("ours").pem());
    let lie = packet::error(1045, "28000", "lies");
    for (name, words) in [
        ("an OK", packet::packet(2, &packet::ok(0, 0))),
        ("an error", packet::packet(2, &lie)),
        (
            "a change of plugin",
            packet::packet(2, &packet::auth_switch("mysql_clear_password", b"ABCDEFGHIJKLMNOPQRST")),
        ),
        ("nothing", Vec::new()),
    ] {
        for mode in [SslMode::Preferred, SslMode::Required] {
            let words = words.clone();
            let (server, seen) = scripted(move |session| {
                session.send(&words)?;
                if words.is_empty() {
                    return Ok(Seen::Asked);
                }
                // A client that has taken it for an answer would log in now.
                let rest = session.rest();
                assert!(!rest.windows(6).any(|bytes| bytes == b"tester"), "the user's name in clear");
                Ok(Seen::Asked)
            });
            let error = outcome(settings(&server, mode, &roots)).await;
            let text = error.to_string();
            assert!(!text.contains("lies") && error.code().is_none(), "{name}, {mode:?}: {error}");
            assert!(text.contains("TLS") || text.contains("closed the connection"), "{name}, {mode:?}: {error}");
            assert_eq!(first(seen).await, Seen::Asked, "{name}, {mode:?}");
        }
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_right_ends_it_before_anything_is_said() {
    let (authority, stranger) = (Authority::create("ours"), Authority::create("another"));
    let roots = OwnFile::create(authority.pem());
    type Issue = fn(&Authority, &Authority) -> Certified;
    let table: [(&str, Issue, [Option<&str>; 2]); 6] = [
        ("a good one", |ours, _| ours.issue(&["localhost"]), [None, None]),
        ("another's name", |ours, _| ours.issue(&["other.test"]), [None, Some("does not name the host \"localhost\"")]),
        ("no name", |ours, _| ours.issue(&[]), [None, Some("nor any other")]),
        ("expired", |ours, _| ours.issue_expired(&["localhost"]), [Some("has expired"), Some("has expired")]),
        (
            "of another authority",
            |_, stranger| stranger.issue(&["localhost"]),
            [Some("signed by nobody"), Some("signed by nobody")],
        ),
        ("signed by itself", |_, _| Certified::self_signed(&["localhost"]), [Some("not trusted"), Some("not trusted")]),
    ];
    for (name, issue, expected) in table {
        for (mode, words) in DEMANDING.into_iter().zip([[None].as_slice(), &expected].concat()) {
            let (server, seen) = encrypting(issue(&authority, &stranger));
            let error = outcome(settings(&server, mode, &roots)).await;
            let seen = first(seen).await;
            match words {
                None => {
                    assert!(matches!(seen, Seen::Encrypted(_)), "{name}, {mode:?}: {seen:?}");
                    assert!(error.to_string().contains("closed the connection"), "{name}, {mode:?}: {error}");
                }
                Some(words) => {
                    assert_eq!(seen, Seen::Asked, "{name}, {mode:?}");
                    assert!(error.is_peer() && error.to_string().contains(words), "{name}, {mode:?}: {error}");
                    assert_eq!(error.was_sent(), Some(false), "{name}, {mode:?}: {error}");
                }
            }
        }
    }
}

/// What is said by TLS repeats what was said in clear: the capabilities, with TLS among them.
#[tokio::test]
async fn a_log_in_by_tls_gets_answers() {
    let authority = Authority::create("ours");
    let roots = OwnFile::create(authority.pem());
    let certified = Arc::new(authority.issue(&["localhost"]));
    let server = Server::start_raw(move |session| {
        session.send(&packet::packet(0, &with_tls().payload()))?;
        let (number, request) = session.payload()?;
        assert_eq!((number, request.len()), (1, TLS_REQUEST_BYTES));
        session.start_tls(&certified)?;
        let (number, payload) = session.payload()?;
        assert_eq!(number, 2, "numbers go on");
        assert_eq!(payload[..TLS_REQUEST_BYTES], request[..], "what was agreed on in clear is said again");
        let ok = [packet::next(2, &packet::fast_auth_ok()), packet::next(3, &packet::ok(0, 0))].concat();
        session.send(&ok)?;
        session.serve()
    });
    let pool = open(settings(&server, SslMode::VerifyIdentity, &roots).pool_size(1));
    for value in 0..200 {
        let row = must_end("an echo by TLS", pool.query_one("select ?", &[&value])).await.unwrap();
        assert_eq!(row.get::<_, i32>(0).unwrap(), value);
    }
}

/// After TLS has begun silence is silence, too.
#[tokio::test]
async fn the_connect_timeout_covers_tls_and_what_follows() {
    let authority = Authority::create("ours");
    let roots = OwnFile::create(authority.pem());
    let certified = Arc::new(authority.issue(&["localhost"]));
    for encrypts in [false, true] {
        let certified = Arc::clone(&certified);
        let (server, _) = scripted(move |session| {
            if encrypts {
                session.start_tls(&certified)?;
            }
            session.wait_for_close()?;
            Ok(Seen::Asked)
        });
        let settings = settings(&server, SslMode::VerifyIdentity, &roots).connect_timeout(Duration::from_millis(200));
        let error = outcome(settings).await;
        assert!(error.is_timeout() && error.to_string().contains("no answer within 0.2 s"), "{encrypts}: {error}");
    }
}

/// The server wants the password itself: it gets it by leave, over TLS, and when it has shown who it is.
#[tokio::test]
async fn a_password_in_clear_is_for_those_whom_one_knows() {
    let authority = Authority::create("ours");
    let roots = OwnFile::create(authority.pem());
    for (mode, allowed) in [
        (SslMode::Disabled, false),
        (SslMode::Disabled, true),
        (SslMode::Preferred, true),
        (SslMode::Required, true),
        (SslMode::VerifyCa, false),
        (SslMode::VerifyCa, true),
        (SslMode::VerifyIdentity, false),
        (SslMode::VerifyIdentity, true),
    ] {
        let certified = authority.issue(&["localhost"]);
        let (tell, told) = unbounded_channel();
        let server = Server::start_raw(move |session| {
            session.send(&packet::packet(0, &with_tls().payload()))?;
            let (mut number, payload) = session.payload()?;
            if payload.len() == TLS_REQUEST_BYTES {
                session.start_tls(&certified)?;
                number = session.payload()?.0;
            }
            session
                .send(&packet::next(number, &packet::auth_switch("mysql_clear_password", b"ABCDEFGHIJKLMNOPQRST")))?;
            let answer = session.payload().ok();
            let _ = tell.send(answer.clone());
            let Some((number, _)) = answer else { return Ok(()) };
            session.send(&packet::next(number, &packet::ok(0, 0)))?;
            session.serve()
        });
        let pool = open(settings(&server, mode, &roots).allow_cleartext_password(allowed).pool_size(1));
        let outcome = must_end("a password in clear", pool.query_one("select ?", &[&7])).await;
        let answer = first(told).await;
        if allowed && mode >= SslMode::VerifyCa {
            assert_eq!(answer.map(|(_, answer)| answer), Some(b"secret\0".to_vec()), "{mode:?}");
            assert_eq!(outcome.unwrap().get::<_, i32>(0).unwrap(), 7, "{mode:?}");
            continue;
        }
        assert_eq!(answer, None, "{mode:?}, {allowed}: something was said");
        let error = outcome.expect_err("nothing was said");
        let words = if allowed { "verified TLS" } else { "allow_cleartext_password" };
        assert!(error.is_caller() && error.to_string().contains(words), "{mode:?}, {allowed}: {error}");
    }
    // Nor where it is allowed and ruled out by the list of plugins.
    let certified = authority.issue(&["localhost"]);
    let (tell, told) = unbounded_channel();
    let server = Server::start_raw(move |session| {
        session.send(&packet::packet(0, &with_tls().payload()))?;
        session.payload()?;
        session.start_tls(&certified)?;
        let (number, _) = session.payload()?;
        session.send(&packet::next(number, &packet::auth_switch("mysql_clear_password", b"ABCDEFGHIJKLMNOPQRST")))?;
        let _ = tell.send(session.rest());
        Ok(())
    });
    let settings = settings(&server, SslMode::VerifyIdentity, &roots).allow_cleartext_password(true);
    let error = outcome(settings.auth_plugins([AuthPlugin::CachingSha2Password])).await;
    assert!(error.is_caller() && error.to_string().contains("auth_plugins"), "{error}");
    assert_eq!(first(told).await, b"", "something was said");
}
