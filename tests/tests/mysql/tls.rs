//! TLS with the real servers: each mode gets what it promises, whom it trusts, and that all is as it is without. What the
//! server itself sees of the encryption is asked of its session.

use std::time::Duration;

use cenote_mysql::{Error, Host, Pool, SettingsBuilder, SslMode, SslRoots};
use cenote_tests::mysql::{Admin, Server, open, settings, settings_at};
use cenote_tests::{Authority, Direction, OwnFile, PrivateServer, Proxy, must_end, on_each_server, url, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    each_mode_is_encrypted_as_it_says,
    who_is_verified_has_to_be_right,
    files_are_read_for_each_connection,
    a_client_certificate_that_nobody_knows_is_refused,
    a_unix_socket_is_encrypted_where_that_is_demanded,
    a_turn_is_one_write,
    large_values_go_both_ways,
    a_connection_that_is_ended_is_made_again,
);
on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    every_caller_gets_its_own_answer
);

const MODES: [SslMode; 5] =
    [SslMode::Disabled, SslMode::Preferred, SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity];

const CALLERS: usize = 256;

/// No caller of these tests is to fail because a debug build is slow.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The authority of the shared servers' certificates, which are for localhost, 127.0.0.1 and ::1.
fn authority() -> SslRoots {
    SslRoots::File(url("CENOTE_TEST_CA").into())
}

/// In this mode, with the authority where it counts.
fn in_mode(settings: SettingsBuilder, mode: SslMode) -> SettingsBuilder {
    let settings = settings.ssl_mode(mode);
    if mode >= SslMode::VerifyCa { settings.ssl_ca(authority()) } else { settings }
}

fn encrypted(server: Server, test: &str) -> SettingsBuilder {
    in_mode(settings(server, test).acquire_timeout(PATIENCE), SslMode::VerifyIdentity)
}

/// The cipher that the server sees on the pool's connection; empty without TLS.
async fn cipher(pool: &Pool) -> Result<String, Error> {
    let sql = "show session status where variable_name = 'Ssl_cipher'";
    let row = must_end("the look at the session's status", pool.query_one(sql, &[])).await?;
    row.get(1)
}

async fn refusal(settings: SettingsBuilder) -> Error {
    cipher(&open(settings)).await.expect_err("the connection is refused")
}

async fn each_mode_is_encrypted_as_it_says(server: Server) {
    for mode in MODES {
        let pool = open(in_mode(settings(server, "mode"), mode));
        let cipher = cipher(&pool).await.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_eq!(!cipher.is_empty(), mode >= SslMode::Preferred, "{mode:?}: {cipher}");
    }
    // Preferred is what an address means that says nothing.
    let pool = Pool::open(format!("{}?program_name=tls_default", server.url())).unwrap();
    assert_eq!(pool.settings().ssl_mode(), SslMode::Preferred);
    assert!(cipher(&pool).await.unwrap().starts_with("TLS_"));
}

/// By another name, which the system finds at the same address.
fn named(settings: SettingsBuilder, name: &str) -> SettingsBuilder {
    let built = settings.clone().build().expect("settings");
    let [Host::Tcp { port, .. }] = built.hosts() else { panic!("one TCP address, not {:?}", built.hosts()) };
    settings.hosts([]).host(name, *port)
}

async fn who_is_verified_has_to_be_right(server: Server) {
    let stranger = Authority::create("nobody knows this one");
    let stranger = OwnFile::create(stranger.pem());
    let strange = || SslRoots::File(stranger.path().to_owned());
    let base = || settings(server, "verify");
    let accepted = [
        base().ssl_mode(SslMode::VerifyIdentity).ssl_ca(authority()),
        named(base(), "localhost").ssl_mode(SslMode::VerifyIdentity).ssl_ca(authority()),
        named(base(), "LocalHost").ssl_mode(SslMode::VerifyIdentity).ssl_ca(authority()),
        // An address for which the certificate is not.
        named(base(), "127.0.0.1").ssl_mode(SslMode::VerifyCa).ssl_ca(authority()),
        base().ssl_mode(SslMode::Required),
    ];
    for settings in accepted {
        let shown = format!("{settings:?}");
        let cipher = cipher(&open(settings)).await.unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert!(!cipher.is_empty(), "{shown}");
    }
    let refused = [
        (base().ssl_mode(SslMode::VerifyIdentity).ssl_ca(strange()), "signed by nobody"),
        (base().ssl_mode(SslMode::VerifyCa).ssl_ca(strange()), "signed by nobody"),
        (base().ssl_mode(SslMode::VerifyIdentity).ssl_ca(SslRoots::System), ""),
    ];
    for (settings, words) in refused {
        let shown = format!("{settings:?}");
        let error = refusal(settings).await;
        // The system's own authorities may be none at all, and then the settings cannot be met.
        assert!(error.is_peer() || (words.is_empty() && error.is_caller()), "{shown}: {error}");
        assert!(error.to_string().contains(words) && error.was_sent() == Some(false), "{shown}: {error}");
    }
}

async fn files_are_read_for_each_connection(server: Server) {
    let file = OwnFile::create(Authority::create("nobody knows this one").pem());
    let roots = SslRoots::File(file.path().to_owned());
    let pool = open(settings(server, "rotation").ssl_mode(SslMode::VerifyIdentity).ssl_ca(roots));
    let error = cipher(&pool).await.expect_err("the authority is another");
    assert!(error.is_peer(), "{error}");
    file.replace("not PEM at all");
    // What was refused is not tried again for a moment, and whoever comes within it is told the same.
    let named = async || {
        let error = cipher(&pool).await.expect_err("there is no authority");
        error.is_caller() && error.to_string().contains(file.path().to_str().expect("a path is text"))
    };
    wait_until("the file is named that holds nothing", named).await;
    file.replace(std::fs::read(url("CENOTE_TEST_CA")).unwrap());
    wait_until("the new file counts", async || cipher(&pool).await.is_ok()).await;
}

async fn a_client_certificate_that_nobody_knows_is_refused(server: Server) {
    let stranger = Authority::create("nobody knows this one").issue_client("cenote_cert");
    let (certificate, key) = (OwnFile::create(stranger.certificate_pem()), OwnFile::create(stranger.key_pem()));
    let settings = settings_at(&server.url_of("X509"), "stranger").ssl_mode(SslMode::Required);
    let error = refusal(settings.ssl_cert(certificate.path(), key.path())).await;
    // The servers end TLS with an alert, or go on and refuse the user.
    assert!(error.is_caller() || error.is_server(), "{error}");
    assert_eq!(error.was_sent(), Some(false), "{error}");
}

async fn a_unix_socket_is_encrypted_where_that_is_demanded(server: Server) {
    let Some(path) = server.socket_if_given() else {
        assert!(server.url().contains("://"), "a server is given, though without a socket");
        return;
    };
    for mode in [SslMode::Disabled, SslMode::Preferred, SslMode::Required, SslMode::VerifyCa] {
        let pool = open(in_mode(settings(server, "socket").hosts([]).unix_socket(&path), mode));
        let cipher = cipher(&pool).await.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_eq!(!cipher.is_empty(), mode >= SslMode::Required, "{mode:?}: {cipher}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_for_those_who_put_up_with_it() {
    let server = PrivateServer::mysql(Server::Mysql, "no-tls").await;
    let admin = Admin::connect_to(server.admin_url()).await;
    admin.run("set global tls_version = ''").await;
    admin.run("alter instance reload tls no rollback on error").await;
    let proxy = Proxy::start(server.url());
    let password = b"cenote_password_to_look_for";
    admin.run("create user watched identified by 'cenote_password_to_look_for'").await;
    proxy.count(Direction::ToServer, password);
    proxy.count(Direction::ToServer, b"watched");
    for mode in MODES {
        let settings = proxy.through(settings_at(server.url(), "off")).user("watched").database("");
        let settings = settings.password(String::from_utf8_lossy(password).as_ref());
        let before = proxy.counted(Direction::ToServer, b"watched");
        match cipher(&open(in_mode(settings, mode))).await {
            Ok(cipher) => assert!(cipher.is_empty() && mode < SslMode::Required, "{mode:?}: {cipher}"),
            Err(error) => {
                assert!(mode >= SslMode::Required, "{mode:?}: {error}");
                assert!(error.is_caller() && error.was_sent() == Some(false), "{mode:?}: {error}");
                assert!(error.to_string().contains("does not offer TLS"), "{mode:?}: {error}");
                assert_eq!(
                    proxy.counted(Direction::ToServer, b"watched"),
                    before,
                    "{mode:?}: not even the user's name"
                );
            }
        }
    }
    assert_eq!(proxy.counted(Direction::ToServer, password), 0);
}

/// One caller: one query after another, each with a token of its own and an answer of another length.
async fn call(pool: Pool, caller: usize, queries: usize) {
    for number in 0..queries {
        let token = format!("{caller}-{number}-{:x}", fastrand::u64(..));
        // Now and then some records long, and at times just at the end of one.
        let bytes = match fastrand::u32(..100) {
            0 => fastrand::i32(0..100_000),
            1..5 => 16_384 + fastrand::i32(-64..64),
            _ => fastrand::i32(0..200),
        };
        let row = pool.query_one("select concat(?, repeat('x', ?))", &[&token, &bytes]).await;
        let row = row.unwrap_or_else(|error| panic!("{token}: {error}"));
        let text: &str = row.get(0).unwrap();
        let rest = text.strip_prefix(&token).unwrap_or_else(|| panic!("{token} got {}", &text[..text.len().min(60)]));
        assert!(rest.len() == bytes as usize && rest.bytes().all(|byte| byte == b'x'), "{token}");
    }
}

async fn every_caller_gets_its_own_answer(server: Server) {
    let pool = open(encrypted(server, "own").pool_size(4));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        callers.spawn(call(pool.clone(), caller, 40));
    }
    must_end("256 callers", callers.join_all()).await;
    let stats = pool.stats();
    assert_eq!((stats.connections_lost, stats.in_flight(), stats.waiting), (0, 0, 0), "{stats:?}");
    assert!(!cipher(&pool).await.unwrap().is_empty());
}

async fn a_turn_is_one_write(server: Server) {
    let pool = open(encrypted(server, "turn").pool_size(1).max_pipeline(CALLERS));
    pool.query_one("select ?", &[&0]).await.unwrap();
    let before = pool.stats();
    let answers = join_all((0..CALLERS as i64).map(|number| {
        let pool = &pool;
        async move { pool.query_one("select ?", &[&number]).await.unwrap().get::<_, i64>(0).unwrap() }
    }));
    assert!(must_end("all callers", answers).await.into_iter().eq(0..CALLERS as i64));
    let stats = pool.stats();
    let (writes, turns) = (stats.writes - before.writes, stats.turns - before.turns);
    assert!(
        writes <= turns && writes < CALLERS as u64 / 4,
        "{writes} writes in {turns} turns for {CALLERS} statements"
    );
}

async fn large_values_go_both_ways(server: Server) {
    // MariaDB takes, and makes, no value longer than 16 MiB as it comes.
    let (value_bytes, rows) = match server {
        Server::Mysql => (20 << 20, 2),
        Server::Mariadb => (10 << 20, 4),
    };
    let pool = open(encrypted(server, "large").pool_size(1));
    let filler = "y".repeat(value_bytes);
    let answers = join_all((0..3_i64).map(|number| {
        let (pool, filler) = (&pool, &filler);
        async move {
            let row = pool.query_one("select ?, ?", &[&number, filler]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0).unwrap(), number);
            assert!(row.get::<_, &str>(1).unwrap() == filler, "the value came back whole");
        }
    }));
    must_end("large values", answers).await;
    let sql = "select repeat('z', ?) from world where id <= ?";
    let answer = must_end("large rows", pool.query(sql, &[&(value_bytes as i64), &(rows as i64)])).await.unwrap();
    assert_eq!(answer.len(), rows);
    for row in answer {
        let text: &str = row.get(0).unwrap();
        assert!(text.len() == value_bytes && text.bytes().all(|byte| byte == b'z'), "{} bytes", text.len());
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

async fn a_connection_that_is_ended_is_made_again(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(encrypted(server, "ended").pool_size(2));
    assert!(!cipher(&pool).await.unwrap().is_empty());
    assert!(admin.terminate(&pool).await >= 1);
    let again = async || cipher(&pool).await.is_ok_and(|cipher| !cipher.is_empty());
    wait_until("the next connection is encrypted as well", again).await;
}
