//! Every way into the servers: each plugin with passwords of every length, over TLS, by a Unix socket and over plain TCP;
//! what is refused before a password is shown; and who is told when nobody gets in.

use cenote_mysql::{AuthPlugin, Error, ErrorCode, Pool, SettingsBuilder, SslMode, SslRoots};
use cenote_tests::mysql::{Admin, OwnUser, Server, open, settings, settings_at};
use cenote_tests::{Direction, OwnFile, Proxy, must_end, on_each_server, url, wait_until};
use futures_util::future::join_all;

on_each_server!(
    every_password_gets_in_by_every_way,
    users_of_every_kind_get_in,
    who_needs_tls_is_told_so,
    a_refusal_is_told_to_everyone_at_once,
    a_plugin_that_is_not_allowed_is_named,
    a_key_that_is_not_needed_is_read_all_the_same,
);

/// How the bytes travel, and by what a password is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tls,
    Socket,
    /// Over plain TCP, with the server's key in a file.
    Pinned,
    /// Over plain TCP, with the key that the server sends.
    Retrieved,
}

const WAYS: [Way; 4] = [Way::Tls, Way::Socket, Way::Pinned, Way::Retrieved];

/// A key of 2,048 bits, as the server makes it for itself, takes passwords of so many bytes.
const RSA_PASSWORD_BYTES_MAX: usize = 213;

/// Settings without any means to show a password.
fn bare(server: Server) -> SettingsBuilder {
    settings(server, "login").pool_size(1).allow_public_key_retrieval(false)
}

impl Way {
    /// `None` where the servers run so that the socket cannot be reached from here.
    fn settings(self, server: Server, key: Option<&OwnFile>) -> Option<SettingsBuilder> {
        let bare = bare(server);
        match (self, key) {
            (Way::Tls, _) => Some(bare.ssl_mode(SslMode::Required)),
            (Way::Socket, _) => server.socket_if_given().map(|path| bare.hosts([]).unix_socket(path)),
            (Way::Pinned, Some(key)) => Some(bare.server_public_key(key.path())),
            (Way::Pinned, None) => None,
            (Way::Retrieved, _) => Some(bare.allow_public_key_retrieval(true)),
        }
    }
}

/// Logs in; who the server takes us for.
async fn log_in(settings: SettingsBuilder) -> Result<String, Error> {
    let pool = open(settings);
    let row = must_end("the log-in", pool.query_one("select current_user()", &[])).await?;
    row.get(0)
}

async fn refusal(name: &str, settings: SettingsBuilder) -> Error {
    let error = log_in(settings).await.expect_err(name);
    assert!(!error.is_timeout() && error.was_sent() != Some(true), "{name}: {error}");
    error
}

fn is_denied(error: &Error) -> bool {
    error.is_server() && error.code() == Some(ErrorCode::ACCESS_DENIED)
}

fn passwords() -> Vec<String> {
    // 20 bytes is the length of a nonce, 64 that of the block of a hash.
    let lengths = [0, 1, 19, 20, 21, 64, 200, 255];
    let mut passwords: Vec<String> = lengths.map(|length| "0123456789".repeat(26)[..length].to_owned()).into();
    passwords.push("pässwörd, 密码 и 🗝".to_owned());
    passwords
}

fn plugins(server: Server) -> &'static [&'static str] {
    match server {
        Server::Mysql => &["caching_sha2_password", "sha256_password"],
        Server::Mariadb => &["mysql_native_password"],
    }
}

fn identified(server: Server, plugin: &str, password: &str) -> String {
    match server {
        Server::Mysql => format!("identified with {plugin} by '{password}'"),
        Server::Mariadb => format!("identified via {plugin} using password('{password}')"),
    }
}

/// The server's key in a file; MariaDB has none.
async fn key_file(server: Server) -> Option<OwnFile> {
    match server {
        Server::Mysql => Some(OwnFile::create(Admin::connect(server).await.public_key().await)),
        Server::Mariadb => None,
    }
}

async fn every_password_gets_in_by_every_way(server: Server) {
    let (admin, key) = (Admin::connect(server).await, key_file(server).await);
    for plugin in plugins(server) {
        for password in passwords() {
            let identified = identified(server, plugin, &password);
            let user = OwnUser::create(server, &identified).await;
            for way in WAYS {
                let Some(settings) = way.settings(server, key.as_ref()) else { continue };
                let settings = settings.user(user.name()).password(password.as_str());
                // A new password, be it the same, is one that the server has not seen yet.
                admin.run(&format!("alter user '{}'@'%' {identified}", user.name())).await;
                let by_rsa = match way {
                    Way::Tls => false,
                    // Not private enough for this plugin, and the key comes from the server.
                    Way::Socket => *plugin == "sha256_password",
                    Way::Pinned | Way::Retrieved => *plugin != "mysql_native_password",
                };
                for seen in ["for the first time", "again"] {
                    let name = format!("{plugin}, {} bytes, {way:?}, {seen}", password.len());
                    let outcome = log_in(settings.clone()).await;
                    if by_rsa && password.len() > RSA_PASSWORD_BYTES_MAX {
                        let error = outcome.expect_err(&name);
                        assert!(error.is_caller() && error.to_string().contains("too long"), "{name}: {error}");
                    } else {
                        let name_of_user = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
                        assert_eq!(name_of_user, format!("{}@%", user.name()), "{name}");
                    }
                }
                let wrong = settings.password(format!("{password}x"));
                let error = log_in(wrong).await.expect_err("a wrong password");
                let too_long = by_rsa && password.len() >= RSA_PASSWORD_BYTES_MAX && error.is_caller();
                assert!(is_denied(&error) || too_long, "{plugin}, {} bytes, {way:?}: {error}", password.len());
            }
        }
    }
}

async fn users_of_every_kind_get_in(server: Server) {
    let of_one: &[&str] = match server {
        Server::Mysql => &["SHA256"],
        Server::Mariadb => &[],
    };
    for kind in ["URL", "ADMIN_URL"]
        .into_iter()
        .map(str::to_owned)
        .chain(["EMPTY", "LONG"].iter().chain(of_one).map(|kind| format!("{kind}_URL")))
    {
        let prefix = if server == Server::Mysql { "MYSQL" } else { "MARIADB" };
        let address = url(&format!("{prefix}_{kind}"));
        let settings = settings_at(&address, "kind").pool_size(1);
        let user = settings.clone().build().unwrap().user().to_owned();
        for mode in [SslMode::Disabled, SslMode::Preferred, SslMode::Required] {
            let seen = log_in(settings.clone().ssl_mode(mode)).await;
            assert_eq!(seen.unwrap_or_else(|error| panic!("{kind}, {mode:?}: {error}")), format!("{user}@%"));
        }
    }
}

/// A hash is enough where the server has seen the password: nothing else is asked for, and nothing else would do here.
#[tokio::test]
async fn a_password_that_was_seen_is_not_shown_again() {
    let server = Server::Mysql;
    let password = "a password to look for";
    let user = OwnUser::create(server, &identified(server, "caching_sha2_password", password)).await;
    let proxy = Proxy::start(&server.url());
    proxy.count(Direction::ToServer, password.as_bytes());
    proxy.count(Direction::ToClient, b"BEGIN PUBLIC KEY");
    let keys = || proxy.counted(Direction::ToClient, b"BEGIN PUBLIC KEY");
    let without = || proxy.through(bare(server)).user(user.name()).password(password);
    let admin = Admin::connect(server).await;
    for round in 0..2 {
        let error = refusal("nothing to show it by", without()).await;
        let text = error.to_string();
        assert!(error.is_caller(), "{error}");
        for means in ["ssl_mode", "Unix socket", "server_public_key", "allow_public_key_retrieval"] {
            assert!(text.contains(means), "{means} would help: {text}");
        }
        assert_eq!(keys(), round, "nothing was asked of the server");
        log_in(without().allow_public_key_retrieval(true)).await.expect("with the key that is sent");
        assert_eq!(keys(), round + 1);
        let before = proxy.bytes(Direction::ToServer);
        log_in(without()).await.expect("by the hash alone");
        let by_hash = proxy.bytes(Direction::ToServer) - before;
        // Whoever may ask for the key does not where it is not needed.
        let before = proxy.bytes(Direction::ToServer);
        log_in(without().allow_public_key_retrieval(true)).await.expect("by the hash alone");
        let by_hash_too = proxy.bytes(Direction::ToServer) - before;
        assert!(by_hash.abs_diff(by_hash_too) < 16, "{by_hash} and {by_hash_too} bytes: names alone differ");
        assert_eq!(keys(), round + 1);
        admin.run("flush privileges").await;
    }
    assert_eq!(proxy.counted(Direction::ToServer, password.as_bytes()), 0, "the password was there to be read");
}

#[tokio::test]
async fn a_password_is_never_there_to_be_read() {
    let server = Server::Mysql;
    let key = key_file(server).await;
    let proxy = Proxy::start(&server.url());
    let password = "another password to look for";
    proxy.count(Direction::ToServer, password.as_bytes());
    for plugin in plugins(server) {
        for way in [Way::Tls, Way::Pinned, Way::Retrieved] {
            let user = OwnUser::create(server, &identified(server, plugin, password)).await;
            let settings = way.settings(server, key.as_ref()).expect("not by the socket");
            let outcome = log_in(proxy.through(settings).user(user.name()).password(password)).await;
            outcome.unwrap_or_else(|error| panic!("{plugin}, {way:?}: {error}"));
        }
        let user = OwnUser::create(server, &identified(server, plugin, password)).await;
        let settings = proxy.through(bare(server)).user(user.name()).password(password);
        assert!(refusal(plugin, settings).await.is_caller());
    }
    assert_eq!(proxy.counted(Direction::ToServer, password.as_bytes()), 0, "the password was there to be read");
    assert_eq!(proxy.accepted(), 8);
}

/// Made for this test; nobody has the other half any more.
const STRANGE_KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDHGUOZ8KHQ0oh4TlbbMgBNUpIJ
fibIuDVtq0y44+1Lv3tmkha1y3ikSWB58g5MsbUkUJ/5ZUYIVWVLN28TC5Dk0kzs
FiWBDhlQi0Bsg1eHTl5yWjeKZNd9NnkhCovpUXYoE8JnY3xuWtxv2lMwaB9Fm3l0
IYpocWwvOnx8k7KsJwIDAQAB
-----END PUBLIC KEY-----
";

#[tokio::test]
async fn a_pinned_key_is_read_for_each_connection() {
    let server = Server::Mysql;
    let user = OwnUser::create(server, &identified(server, "sha256_password", "secret")).await;
    let file = OwnFile::create("no key");
    // Retrieval is allowed, and does not make up for a pinned key that is not right.
    let settings = bare(server)
        .allow_public_key_retrieval(true)
        .server_public_key(file.path())
        .user(user.name())
        .password("secret");
    let pool = open(settings);
    let ask = async || must_end("the log-in", pool.query_one("select 1", &[])).await.map(drop);
    for (content, words) in [
        ("no key".to_owned(), "holds no RSA public key"),
        (STRANGE_KEY[..STRANGE_KEY.len() - 40].to_owned(), "holds no RSA public key"),
        ("x".repeat(65 << 10), "is larger than 64 KiB"),
        (STRANGE_KEY.to_owned(), "Access denied"),
    ] {
        file.replace(&content);
        // What was refused is not tried again for a moment, and whoever comes within it is told the same.
        let told = async || {
            let error = ask().await.expect_err(words);
            assert!(!error.is_timeout(), "{words}: {error}");
            error.is_caller() != is_denied(&error) && error.to_string().contains(words)
        };
        wait_until(words, told).await;
    }
    file.replace(Admin::connect(server).await.public_key().await);
    wait_until("the new key counts", async || ask().await.is_ok()).await;
}

async fn a_key_that_is_not_needed_is_read_all_the_same(server: Server) {
    for path in ["/nowhere/key.pem", "/"] {
        let error = refusal(path, bare(server).ssl_mode(SslMode::Required).server_public_key(path)).await;
        let text = error.to_string();
        assert!(error.is_caller() && text.contains(path), "{text}");
        assert!(text.contains("server_public_key") && text.contains("cannot be read"), "{text}");
    }
}

async fn who_needs_tls_is_told_so(server: Server) {
    let ca = || SslRoots::File(url("CENOTE_TEST_CA").into());
    let with_certificate =
        |settings: SettingsBuilder| settings.ssl_cert(url("CENOTE_TEST_CLIENT_CERT"), url("CENOTE_TEST_CLIENT_KEY"));
    for (kind, needs_certificate) in [("SSL", false), ("X509", true)] {
        let base = || settings_at(&server.url_of(kind), "tls_user").pool_size(1);
        let error = refusal(kind, base().ssl_mode(SslMode::Disabled)).await;
        assert!(is_denied(&error), "{kind} without TLS: {error}");
        for mode in [SslMode::Preferred, SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity] {
            let settings = base().ssl_mode(mode);
            let settings = if mode >= SslMode::VerifyCa { settings.ssl_ca(ca()) } else { settings };
            let outcome = log_in(with_certificate(settings.clone())).await;
            outcome.unwrap_or_else(|error| panic!("{kind}, {mode:?}, with a certificate: {error}"));
            let outcome = log_in(settings).await;
            match needs_certificate {
                false => drop(outcome.unwrap_or_else(|error| panic!("{kind}, {mode:?}: {error}"))),
                true => assert!(is_denied(&outcome.expect_err(kind)), "{kind}, {mode:?}, without a certificate"),
            }
        }
    }
}

async fn a_refusal_is_told_to_everyone_at_once(server: Server) {
    let patient = || settings(server, "refused").acquire_timeout(std::time::Duration::from_secs(3_600));
    let stranger = OwnUser::create(server, "identified by 'secret'").await;
    for (name, settings, code) in [
        ("a wrong password", patient().password("no"), ErrorCode::ACCESS_DENIED),
        ("a wrong password over TLS", patient().password("no").ssl_mode(SslMode::Required), ErrorCode::ACCESS_DENIED),
        ("no password", patient().password(""), ErrorCode::ACCESS_DENIED),
        ("no such user", patient().user("nobody_at_all"), ErrorCode::ACCESS_DENIED),
        ("no such database", admin(server).database("no_such_database"), ErrorCode::UNKNOWN_DATABASE),
        (
            "no right for the database",
            patient().user(stranger.name()).password("secret").database("mysql"),
            ErrorCode::DATABASE_ACCESS_DENIED,
        ),
    ] {
        let pool = open(settings);
        let callers = join_all((0..10).map(|_| pool.query_one("select 1", &[])));
        for outcome in must_end(name, callers).await {
            let error = outcome.expect_err(name);
            assert!(error.is_server() && error.code() == Some(code), "{name}: {error}");
            assert_eq!(error.was_sent(), Some(false), "{name}: {error}");
            assert!(!error.to_string().contains("secret"), "{name}: {error}");
        }
        assert_eq!(pool.stats().connect_failures, 1, "{name}");
    }
}

/// One who may use any database that there is.
fn admin(server: Server) -> SettingsBuilder {
    settings_at(&server.admin_url(), "refused").acquire_timeout(std::time::Duration::from_secs(3_600))
}

async fn a_plugin_that_is_not_allowed_is_named(server: Server) {
    use AuthPlugin::{CachingSha2Password, NativePassword, Sha256Password};
    let ordinary = || settings(server, "plugins").pool_size(1);
    let own = match server {
        Server::Mysql => CachingSha2Password,
        Server::Mariadb => NativePassword,
    };
    for plugin in [CachingSha2Password, NativePassword, Sha256Password, AuthPlugin::ClearPassword] {
        let outcome = log_in(ordinary().auth_plugins([plugin])).await;
        if plugin == own {
            outcome.unwrap_or_else(|error| panic!("{plugin:?}: {error}"));
            continue;
        }
        let error = outcome.expect_err(plugin.name());
        let text = error.to_string();
        assert!(error.is_caller() && !text.contains("timed out"), "{plugin:?}: {error}");
        let clear = plugin == AuthPlugin::ClearPassword && text.contains("allow_cleartext_password");
        assert!(clear || (text.contains(own.name()) && text.contains("auth_plugins")), "{plugin:?}: {error}");
    }
    // The server changes to the user's plugin, where the client began with another.
    let all_but =
        |plugin| [CachingSha2Password, NativePassword, Sha256Password].into_iter().filter(move |p| *p != plugin);
    let (url, plugin) = match server {
        Server::Mysql => (server.url_of("SHA256"), CachingSha2Password),
        Server::Mariadb => (server.url(), CachingSha2Password),
    };
    log_in(settings_at(&url, "plugins").auth_plugins(all_but(plugin))).await.expect("one of those that are left");
}

/// Known by name, and by what to do about it.
#[tokio::test]
async fn a_plugin_that_is_not_spoken_is_named() {
    for mode in [SslMode::Disabled, SslMode::Required] {
        let settings = settings_at(&Server::Mariadb.url_of("ED25519"), "ed25519").ssl_mode(mode);
        let error = refusal("ed25519", settings).await;
        let text = error.to_string();
        assert!(error.is_caller() && text.contains("client_ed25519"), "{text}");
        assert!(text.contains("mysql_native_password"), "what else could be done: {text}");
    }
}

/// Nothing that is worth something is shown by what people print.
#[tokio::test]
async fn a_password_is_not_shown() {
    let pool: Pool = open(settings(Server::Mysql, "shown").password("never to be seen"));
    let error = must_end("a wrong password", pool.query_one("select 1", &[])).await.expect_err("a wrong password");
    for shown in [format!("{error}"), format!("{error:?}"), format!("{pool:?}"), format!("{:?}", pool.settings())] {
        assert!(!shown.contains("never to be seen"), "{shown}");
    }
}
