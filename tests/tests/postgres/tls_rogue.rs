//! A server that lies about TLS, or is not the one that is meant: nothing that is worth something is ever said to it in
//! clear, and the caller hears what is wrong.

use cenote_postgres::{ChannelBinding, Error, Host, SettingsBuilder, SslMode, SslNegotiation, SslRootCert};
use cenote_tests::{Authority, Certified, Conduct, OwnFile, Seen, TlsServer, must_end, open, settings, wait_until};

const DEMANDING: [SslMode; 3] = [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];

/// Settings for a server at this port, by this name.
fn at(port: u16, name: &str) -> SettingsBuilder {
    let address = Some(std::net::Ipv4Addr::LOCALHOST.into());
    settings("rogue").hosts([Host::Tcp { name: name.to_owned(), address, port }]).acquire_timeout(
        // What may be better next time is tried again until the time is over; then the last error is told.
        std::time::Duration::from_secs(2),
    )
}

async fn outcome(settings: SettingsBuilder) -> Error {
    let pool = open(settings);
    must_end("a query to a rogue", pool.query_one("select 1", &[])).await.expect_err("nobody answers a query here")
}

fn is_log_in(seen: &Seen) -> bool {
    matches!(seen, Seen::StartupInClear | Seen::StartupEncrypted)
}

/// The log-in went through: it is the query at which this server closes the connection.
fn got_in(error: &Error) -> bool {
    error.is_network() && error.was_sent() == Some(true)
}

#[tokio::test]
async fn no_is_no_answer_where_tls_is_demanded() {
    let authority = Authority::create("ours");
    let roots = OwnFile::create(authority.pem());
    for mode in DEMANDING {
        let server = TlsServer::start(Conduct::Say(b"N"), &authority.issue(&["db.test"]), None);
        let roots = SslRootCert::File(roots.path().to_owned());
        let error = outcome(at(server.port(), "db.test").ssl_mode(mode).ssl_root_cert(roots)).await;
        assert!(error.is_caller() && error.to_string().contains("does not support TLS"), "{mode:?}: {error}");
        wait_until("the connection is closed", async || server.seen().len() >= 2).await;
        assert_eq!(server.seen(), [Seen::Asked, Seen::Closed], "{mode:?}: nothing was sent");
    }
}

#[tokio::test]
async fn bytes_behind_a_yes_are_taken_for_what_they_are() {
    let certified = Certified::self_signed(&["db.test"]);
    for mode in [SslMode::Prefer, SslMode::Require] {
        let server = TlsServer::start(Conduct::Inject, &certified, None);
        let error = outcome(at(server.port(), "db.test").ssl_mode(mode)).await;
        assert!(error.is_peer() && error.to_string().contains("unencrypted bytes"), "{mode:?}: {error}");
        wait_until("the connection is closed", async || server.seen().len() >= 2).await;
        assert_eq!(server.seen(), [Seen::Asked, Seen::Closed], "{mode:?}: nothing was sent");
    }
}

#[tokio::test]
async fn bytes_behind_a_no_are_refused() {
    let server = TlsServer::start(Conduct::Say(b"NR\0\0\0\x08\0\0\0\0"), &Certified::self_signed(&["db.test"]), None);
    let error = outcome(at(server.port(), "db.test").ssl_mode(SslMode::Prefer)).await;
    assert!(error.to_string().contains("bytes behind the answer"), "{error}");
    assert!(!server.seen().iter().any(is_log_in), "{:?}", server.seen());
}

/// Before TLS anybody in between can say anything: his words are not passed on as the server's.
#[tokio::test]
async fn an_error_before_tls_is_not_believed() {
    let words = b"E\0\0\0\x1aSFATAL\0C28000\0Mlies\0\0\0";
    for conduct in [Conduct::Say(words), Conduct::SayAndClose(words)] {
        for mode in [SslMode::Prefer, SslMode::Require] {
            let server = TlsServer::start(conduct.clone(), &Certified::self_signed(&["db.test"]), None);
            let error = outcome(at(server.port(), "db.test").ssl_mode(mode)).await;
            let shown = error.to_string();
            assert!(shown.contains("answered the question for TLS with an error"), "{mode:?}: {error}");
            assert!(!shown.contains("lies") && error.code().is_none(), "{mode:?}: {error}");
            assert!(!server.seen().iter().any(is_log_in), "{mode:?}: {:?}", server.seen());
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_refused() {
    let server = TlsServer::start(Conduct::Say(b"HTTP/1.1 400\r\n\r\n"), &Certified::self_signed(&["db.test"]), None);
    let error = outcome(at(server.port(), "db.test").ssl_mode(SslMode::Prefer)).await;
    assert!(error.to_string().contains("is this a Postgres server?"), "{error}");
    assert!(!server.seen().iter().any(is_log_in), "{:?}", server.seen());
}

#[tokio::test]
async fn a_yes_without_tls_behind_it_is_no_tls() {
    let plain_error: &[u8] = b"SE\0\0\0\x1aSFATAL\0C53300\0Mmany\0\0\0";
    let certified = Certified::self_signed(&["db.test"]);
    let server = TlsServer::start(Conduct::SayAndClose(b"S"), &certified, None);
    let error = outcome(at(server.port(), "db.test").ssl_mode(SslMode::Require)).await;
    assert!(error.to_string().contains("TLS failed"), "{error}");
    assert!(!server.seen().iter().any(is_log_in), "{:?}", server.seen());
    // In one piece it is an injection; behind the client's first words it is not TLS.
    let server = TlsServer::start(Conduct::SayAndClose(plain_error), &certified, None);
    let error = outcome(at(server.port(), "db.test").ssl_mode(SslMode::Require)).await;
    assert!(error.is_peer() && error.to_string().contains("unencrypted bytes"), "{error}");
    let server = TlsServer::start(Conduct::SayLate(b"E\0\0\0\x1aSFATAL\0C53300\0Mmany\0\0\0"), &certified, None);
    let error = outcome(at(server.port(), "db.test").ssl_mode(SslMode::Require)).await;
    assert!(error.to_string().contains("is not TLS") && error.code().is_none(), "{error}");
    assert!(!server.seen().iter().any(is_log_in), "{:?}", server.seen());
}

/// That is what `prefer` says: who wants to rely on TLS has to demand it.
#[tokio::test]
async fn prefer_goes_without_where_tls_does_not_come_about() {
    let server = TlsServer::start(Conduct::SayAndClose(b"S"), &Certified::self_signed(&["db.test"]), None);
    outcome(at(server.port(), "db.test").ssl_mode(SslMode::Prefer)).await;
    assert_eq!(server.seen()[..2], [Seen::Asked, Seen::StartupInClear]);
}

#[tokio::test]
async fn a_certificate_that_is_not_right_ends_it_before_anything_is_said() {
    let (authority, stranger) = (Authority::create("ours"), Authority::create("another"));
    let roots = OwnFile::create(authority.pem());
    let table = [
        (authority.issue(&["db.cenote.test"]), [None, None]),
        (
            authority.issue(&["other.test", "third.test"]),
            [None, Some("does not name the host \"db.cenote.test\", but other.test, third.test")],
        ),
        (authority.issue(&[]), [None, Some("nor any other")]),
        (authority.issue(&["*.cenote.test"]), [None, None]),
        (authority.issue_expired(&["db.cenote.test"]), [Some("has expired"), Some("has expired")]),
        (stranger.issue(&["db.cenote.test"]), [Some("signed by nobody"), Some("signed by nobody")]),
        (Certified::self_signed(&["db.cenote.test"]), [Some("not trusted"), Some("not trusted")]),
    ];
    for (number, (certified, expected)) in table.iter().enumerate() {
        for (mode, words) in [SslMode::VerifyCa, SslMode::VerifyFull].into_iter().zip(expected) {
            let server = TlsServer::start(Conduct::Encrypt, certified, None);
            let roots = SslRootCert::File(roots.path().to_owned());
            let error = outcome(at(server.port(), "db.cenote.test").ssl_mode(mode).ssl_root_cert(roots)).await;
            let seen = server.seen();
            let Some(words) = words else {
                assert!(got_in(&error), "{number} {mode:?}: {error}");
                assert!(seen.starts_with(&[Seen::Asked, Seen::StartupEncrypted]), "{number} {mode:?}: {seen:?}");
                continue;
            };
            assert!(error.is_peer() && error.to_string().contains(words), "{number} {mode:?}: {error}");
            assert!(!seen.iter().any(is_log_in), "{number} {mode:?}: {seen:?}");
            // It was told why: an alert, not a closed connection.
            let told = async || {
                server.seen().iter().any(|seen| matches!(seen, Seen::HandshakeFailed(why) if why.contains("alert")))
            };
            wait_until("the server is told by an alert", told).await;
        }
    }
}

/// A self-signed certificate is its own authority; its file is what such a server's users have.
#[tokio::test]
async fn a_self_signed_certificate_is_trusted_where_it_is_named() {
    let certified = Certified::self_signed(&["db.test"]);
    let roots = OwnFile::create(certified.certificate_pem());
    for (name, mode, words) in [
        ("db.test", SslMode::VerifyFull, None),
        ("other.test", SslMode::VerifyCa, None),
        ("other.test", SslMode::VerifyFull, Some("does not name the host")),
    ] {
        let server = TlsServer::start(Conduct::Encrypt, &certified, None);
        let roots = SslRootCert::File(roots.path().to_owned());
        let error = outcome(at(server.port(), name).ssl_mode(mode).ssl_root_cert(roots)).await;
        match words {
            None => assert!(got_in(&error), "{name} {mode:?}: {error}"),
            Some(words) => assert!(error.to_string().contains(words), "{name} {mode:?}: {error}"),
        }
    }
}

#[tokio::test]
async fn tls_from_the_first_byte_needs_a_server_that_says_it_is_postgres() {
    let certified = Certified::self_signed(&["db.test"]);
    for (protocol, gets_in) in [(Some("postgresql"), true), (None, false)] {
        let server = TlsServer::start(Conduct::EncryptAtOnce, &certified, protocol);
        let direct = at(server.port(), "db.test").ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        let error = outcome(direct).await;
        if gets_in {
            assert!(got_in(&error), "{error}");
        } else {
            assert!(error.to_string().contains("does not say that it is a Postgres server"), "{error}");
            assert!(!server.seen().iter().any(is_log_in), "{:?}", server.seen());
        }
    }
    // One for something else does not come to terms at all.
    let server = TlsServer::start(Conduct::EncryptAtOnce, &certified, Some("http/1.1"));
    let direct = at(server.port(), "db.test").ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    let error = outcome(direct).await;
    assert!(error.to_string().contains("TLS failed"), "{error}");
    assert!(!server.seen().iter().any(is_log_in), "{:?}", server.seen());
}

/// A server that lets us in without a password proves nothing, however good its certificate.
#[tokio::test]
async fn what_must_be_bound_is_not_left_unbound() {
    let server = TlsServer::start(Conduct::Encrypt, &Certified::self_signed(&["db.test"]), None);
    let settings = at(server.port(), "db.test").ssl_mode(SslMode::Require).channel_binding(ChannelBinding::Require);
    let error = outcome(settings).await;
    assert!(error.is_caller() && error.to_string().contains("channel_binding"), "{error}");
}
