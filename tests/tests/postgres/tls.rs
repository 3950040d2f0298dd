//! TLS with a real server: each mode gets what it promises, whom it trusts, and how a user is known by a certificate.
//! What the server itself sees of the encryption is asked of `pg_stat_ssl`.

use cenote_postgres::{
    ChannelBinding, Error, Host, Pool, SettingsBuilder, SqlState, SslMode, SslNegotiation, SslRootCert, TlsVersion,
};
use cenote_tests::{
    Admin, Authority, OwnFile, PrivateServer, must_end, open, settings, settings_at, unique_name, url, url_if_given,
};

const MODES: [SslMode; 6] =
    [SslMode::Disable, SslMode::Allow, SslMode::Prefer, SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];

/// The authority of the shared server's certificate, which is for localhost, 127.0.0.1 and ::1.
fn authority() -> SslRootCert {
    SslRootCert::File(url("CENOTE_TEST_CA").into())
}

/// The same server by another name: where it is, and what the certificate has to name.
fn named(settings: SettingsBuilder, name: &str) -> SettingsBuilder {
    let built = settings.clone().build().expect("settings");
    let port = match built.hosts() {
        [Host::Tcp { port, .. }] => *port,
        hosts => panic!("one TCP address, not {hosts:?}"),
    };
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    settings.hosts([Host::Tcp { name: name.to_owned(), address: Some(address), port }])
}

/// Whether the server sees TLS on the pool's connection, and which version.
async fn encryption(pool: &Pool) -> Result<Option<String>, Error> {
    let sql = "select version from pg_stat_ssl where pid = pg_backend_pid() and ssl";
    let row = must_end("the look into pg_stat_ssl", pool.query_opt(sql, &[])).await?;
    row.map(|row| row.get::<_, &str>(0).map(str::to_owned)).transpose()
}

async fn refusal(settings: SettingsBuilder) -> Error {
    encryption(&open(settings)).await.expect_err("the connection is refused")
}

#[tokio::test]
async fn each_mode_is_encrypted_as_it_says() {
    for mode in MODES {
        let pool = open(settings("mode").ssl_root_cert(authority()).ssl_mode(mode));
        let seen = encryption(&pool).await.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        let expected = (mode >= SslMode::Prefer).then_some("TLSv1.3");
        assert_eq!(seen.as_deref(), expected, "{mode:?}");
    }
}

#[tokio::test]
async fn prefer_is_what_a_url_means_that_says_nothing() {
    let pool = Pool::open(format!("{}?application_name={}", url("POSTGRES_URL"), unique_name("tls"))).unwrap();
    assert_eq!(pool.settings().ssl_mode(), SslMode::Prefer);
    assert_eq!(encryption(&pool).await.unwrap().as_deref(), Some("TLSv1.3"));
}

#[tokio::test]
async fn the_versions_are_those_that_are_allowed() {
    for (version, name) in [(TlsVersion::V1_2, "TLSv1.2"), (TlsVersion::V1_3, "TLSv1.3")] {
        let pool = open(
            settings("version")
                .ssl_mode(SslMode::Require)
                .ssl_min_protocol_version(version)
                .ssl_max_protocol_version(version),
        );
        assert_eq!(encryption(&pool).await.unwrap().as_deref(), Some(name));
    }
}

#[tokio::test]
async fn a_server_without_tls_is_for_those_who_put_up_with_it() {
    let server = PrivateServer::postgres("no-tls").await;
    let admin = open(settings_at(server.admin_url(), "admin"));
    admin.execute("alter system set ssl = off", &[]).await.unwrap();
    admin.query_one("select pg_reload_conf()", &[]).await.unwrap();
    let off = async || {
        // Each by a new connection: what the server tells a new session is what it does with the next.
        let pool = open(settings_at(server.admin_url(), "admin"));
        pool.query_one("select current_setting('ssl')", &[]).await.unwrap().get::<_, &str>(0).unwrap() == "off"
    };
    cenote_tests::wait_until("the server has heard that TLS is off", off).await;
    for mode in MODES {
        let pool = open(settings_at(server.url(), "off").ssl_root_cert(authority()).ssl_mode(mode));
        match encryption(&pool).await {
            Ok(seen) => assert!(seen.is_none() && mode < SslMode::Require, "{mode:?}: {seen:?}"),
            Err(error) => {
                assert!(mode >= SslMode::Require, "{mode:?}: {error}");
                assert!(error.is_caller() && error.was_sent() == Some(false), "{mode:?}: {error}");
                assert!(error.to_string().contains("does not support TLS"), "{mode:?}: {error}");
            }
        }
    }
}

/// pg_hba.conf lines that let users in by one way only.
const ONE_WAY: &str = "host all cenote_admin all scram-sha-256\n\
                       hostssl all only_tls all trust\n\
                       hostnossl all only_clear all trust\n";

#[tokio::test]
async fn allow_and_prefer_try_the_other_way_when_the_server_refuses_one() {
    let server = PrivateServer::postgres("one-way").await;
    let admin = Admin::connect_to(server.admin_url()).await;
    for user in ["only_tls", "only_clear"] {
        admin.run(&format!("create role {user} login")).await;
    }
    let file = &admin.rows("select current_setting('data_directory') || '/one_way.conf'", &[]).await[0];
    let file: String = file.get(0);
    admin.run("create table rule (line text)").await;
    admin.rows("insert into rule select unnest($1::text[])", &[&ONE_WAY.lines().collect::<Vec<_>>()]).await;
    admin.run(&format!("copy rule to '{file}'")).await;
    admin.run(&format!("alter system set hba_file = '{file}'")).await;
    server.stop().await;
    server.start().await;
    let table = [
        ("only_tls", SslMode::Disable, None),
        ("only_tls", SslMode::Allow, Some(true)),
        ("only_tls", SslMode::Prefer, Some(true)),
        ("only_tls", SslMode::Require, Some(true)),
        ("only_clear", SslMode::Disable, Some(false)),
        ("only_clear", SslMode::Allow, Some(false)),
        ("only_clear", SslMode::Prefer, Some(false)),
        ("only_clear", SslMode::Require, None),
        ("nobody", SslMode::Allow, None),
        ("nobody", SslMode::Prefer, None),
    ];
    for (user, mode, expected) in table {
        let pool = open(settings_at(server.url(), "one_way").user(user).ssl_mode(mode));
        match (encryption(&pool).await, expected) {
            (Ok(seen), Some(encrypted)) => assert_eq!(seen.is_some(), encrypted, "{user} {mode:?}"),
            (Err(error), None) => {
                assert_eq!(
                    error.code(),
                    Some(SqlState::INVALID_AUTHORIZATION_SPECIFICATION),
                    "{user} {mode:?}: {error}"
                );
            }
            (outcome, expected) => panic!("{user} {mode:?}: {outcome:?}, not {expected:?}"),
        }
        assert_eq!(
            pool.stats().connects + pool.stats().connect_failures,
            1,
            "{user} {mode:?}: two ways are one connect"
        );
    }
}

#[tokio::test]
async fn who_is_verified_has_to_be_right() {
    let stranger = Authority::create("nobody knows this one");
    let stranger = OwnFile::create(stranger.pem());
    let strange = || SslRootCert::File(stranger.path().to_owned());
    let base = || settings("verify");
    let accepted = [
        base().ssl_mode(SslMode::VerifyFull).ssl_root_cert(authority()),
        named(base(), "localhost").ssl_mode(SslMode::VerifyFull).ssl_root_cert(authority()),
        named(base(), "LocalHost").ssl_mode(SslMode::VerifyFull).ssl_root_cert(authority()),
        named(base(), "other.example").ssl_mode(SslMode::VerifyCa).ssl_root_cert(authority()),
        named(base(), "other.example").ssl_mode(SslMode::Require),
        named(base(), "no_host!name").ssl_mode(SslMode::Require),
        // An authority that is named is not asked where a mode puts up with plaintext.
        base().ssl_mode(SslMode::Prefer).ssl_root_cert(strange()),
    ];
    for settings in accepted {
        let shown = format!("{settings:?}");
        assert!(
            encryption(&open(settings)).await.unwrap_or_else(|error| panic!("{shown}: {error}")).is_some(),
            "{shown}"
        );
    }
    let refused = [
        (base().ssl_mode(SslMode::VerifyFull).ssl_root_cert(strange()), "signed by nobody"),
        (base().ssl_mode(SslMode::VerifyCa).ssl_root_cert(strange()), "signed by nobody"),
        (base().ssl_mode(SslMode::Require).ssl_root_cert(strange()), "signed by nobody"),
        (base().ssl_mode(SslMode::VerifyFull).ssl_root_cert(SslRootCert::System), ""),
        (named(base(), "other.example").ssl_mode(SslMode::VerifyFull).ssl_root_cert(authority()), "other.example"),
        (named(base(), "127.0.0.2").ssl_mode(SslMode::VerifyFull).ssl_root_cert(authority()), "127.0.0.2"),
    ];
    for (settings, words) in refused {
        let shown = format!("{settings:?}");
        let error = refusal(settings).await;
        // The system's own authorities may be none at all, and then the settings cannot be met.
        assert!(error.is_peer() || (words.is_empty() && error.is_caller()), "{shown}: {error}");
        assert!(error.to_string().contains(words) && error.was_sent() == Some(false), "{shown}: {error}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let text = OwnFile::create("not PEM at all");
    let (key, certificate) = (url("CENOTE_TEST_CLIENT_KEY"), url("CENOTE_TEST_CLIENT_CERT"));
    let cut = std::fs::read_to_string(url("CENOTE_TEST_CA")).unwrap();
    let cut = OwnFile::create(&cut[..cut.len() / 2]);
    let encrypted =
        OwnFile::create("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let other = OwnFile::create(Authority::create("x").issue_client("x").key_pem());
    let roots = |path: &std::path::Path| {
        settings("file").ssl_mode(SslMode::VerifyCa).ssl_root_cert(SslRootCert::File(path.to_owned()))
    };
    let identity =
        |certificate: &str, key: &str| settings("file").ssl_mode(SslMode::Require).ssl_cert(certificate, key);
    let path = |file: &OwnFile| file.path().to_str().expect("a path is text").to_owned();
    let table = [
        (roots("/nowhere/ca.pem".as_ref()), "/nowhere/ca.pem".to_owned(), "cannot be read"),
        (roots("/".as_ref()), "the file / ".to_owned(), "cannot be read"),
        (roots(text.path()), path(&text), "holds no certificate"),
        (roots(cut.path()), path(&cut), "without an end"),
        (roots(key.as_ref()), key.clone(), "holds no certificate"),
        (identity("/nowhere/c.pem", &key), "/nowhere/c.pem".to_owned(), "cannot be read"),
        (identity(&certificate, "/nowhere/k.pem"), "/nowhere/k.pem".to_owned(), "cannot be read"),
        (identity(&certificate, &certificate), certificate.clone(), "no private key"),
        (identity(&certificate, &path(&encrypted)), path(&encrypted), "encrypted key"),
        (identity(&certificate, &path(&other)), path(&other), "is not that of the certificate"),
    ];
    for (settings, file, words) in table {
        let error = refusal(settings).await;
        assert!(error.is_caller() && !error.is_timeout(), "{file}: {error}");
        assert!(error.to_string().contains(&file) && error.to_string().contains(words), "{file}, {words}: {error}");
    }
}

#[tokio::test]
async fn files_are_read_for_each_connection() {
    let wrong = Authority::create("nobody knows this one").pem();
    let file = OwnFile::create(&wrong);
    let pool = open(
        settings("rotation").ssl_mode(SslMode::VerifyFull).ssl_root_cert(SslRootCert::File(file.path().to_owned())),
    );
    let error = encryption(&pool).await.expect_err("the authority is another");
    assert!(error.is_peer(), "{error}");
    file.replace(std::fs::read(url("CENOTE_TEST_CA")).unwrap());
    // What was refused is not tried again for a moment, and whoever comes within it is told the same.
    let trusted = async || encryption(&pool).await.is_ok();
    cenote_tests::wait_until("the new file counts", trusted).await;
}

#[tokio::test]
async fn a_user_is_known_by_a_certificate() {
    let with =
        |settings: SettingsBuilder| settings.ssl_cert(url("CENOTE_TEST_CLIENT_CERT"), url("CENOTE_TEST_CLIENT_KEY"));
    let base = || settings_at(&url("POSTGRES_CERT_URL"), "certificate").ssl_root_cert(authority());
    for mode in [SslMode::Allow, SslMode::Prefer, SslMode::Require, SslMode::VerifyFull] {
        let pool = open(with(base()).ssl_mode(mode));
        let sql = "select session_user::text, client_dn from pg_stat_ssl where pid = pg_backend_pid()";
        let row =
            must_end("the log-in", pool.query_one(sql, &[])).await.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_eq!((row.get(0).unwrap(), row.get(1).unwrap()), ("cenote_cert", "/CN=cenote_cert"), "{mode:?}");
    }
    let without = refusal(base().ssl_mode(SslMode::Require)).await;
    assert!(without.code().is_some_and(|code| code.class() == "28"), "{without}");
    let somebody_else = refusal(with(base()).user("cenote_cert").ssl_mode(SslMode::Disable)).await;
    assert!(somebody_else.code().is_some_and(|code| code.class() == "28"), "{somebody_else}");
    // Signed by nobody the server knows: it says so only when the handshake is over for us.
    let stranger = Authority::create("nobody knows this one").issue_client("cenote_cert");
    let (certificate, key) = (OwnFile::create(stranger.certificate_pem()), OwnFile::create(stranger.key_pem()));
    let error = refusal(base().ssl_cert(certificate.path(), key.path()).ssl_mode(SslMode::Require)).await;
    assert!(error.is_caller() && error.to_string().contains("UnknownCA"), "{error}");
}

#[tokio::test]
async fn tls_may_begin_with_the_first_byte() {
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        let pool =
            open(settings("direct").ssl_root_cert(authority()).ssl_mode(mode).ssl_negotiation(SslNegotiation::Direct));
        assert_eq!(encryption(&pool).await.unwrap().as_deref(), Some("TLSv1.3"), "{mode:?}");
    }
}

#[tokio::test]
async fn the_password_is_bound_to_the_certificate() {
    for (mode, binding, user) in [
        (SslMode::Require, ChannelBinding::Require, "POSTGRES_URL"),
        (SslMode::Require, ChannelBinding::Prefer, "POSTGRES_URL"),
        (SslMode::Require, ChannelBinding::Disable, "POSTGRES_URL"),
        (SslMode::Prefer, ChannelBinding::Require, "POSTGRES_URL"),
        (SslMode::Disable, ChannelBinding::Prefer, "POSTGRES_URL"),
        (SslMode::Require, ChannelBinding::Prefer, "POSTGRES_MD5_URL"),
        (SslMode::Require, ChannelBinding::Prefer, "POSTGRES_TRUST_URL"),
    ] {
        let pool = open(settings_at(&url(user), "binding").ssl_mode(mode).channel_binding(binding));
        encryption(&pool).await.unwrap_or_else(|error| panic!("{mode:?} {binding:?} {user}: {error}"));
    }
    for user in ["POSTGRES_MD5_URL", "POSTGRES_CLEARTEXT_URL", "POSTGRES_TRUST_URL"] {
        let settings = settings_at(&url(user), "binding").ssl_mode(SslMode::Require);
        let error = refusal(settings.channel_binding(ChannelBinding::Require)).await;
        assert!(error.is_caller() && error.to_string().contains("channel_binding"), "{user}: {error}");
    }
    // Allow begins without TLS, and then there is nothing to bind to.
    let error = refusal(settings("binding").ssl_mode(SslMode::Allow).channel_binding(ChannelBinding::Require)).await;
    assert!(error.is_caller() && error.to_string().contains("no TLS"), "{error}");
    let wrong = settings("binding").ssl_mode(SslMode::Require).password("no");
    let error = refusal(wrong.channel_binding(ChannelBinding::Require)).await;
    assert_eq!(error.code(), Some(SqlState::INVALID_PASSWORD), "{error}");
}

/// It does not leave the machine, says libpq, and is never encrypted.
#[tokio::test]
async fn a_unix_socket_is_not_encrypted_whatever_the_mode() {
    let Some(url) = url_if_given("POSTGRES_UNIX_URL") else {
        assert!(url("POSTGRES_URL").contains("://"), "a server is given, though without a socket");
        return;
    };
    for mode in MODES {
        let pool = open(settings_at(&url, "socket").ssl_root_cert(authority()).ssl_mode(mode));
        assert_eq!(encryption(&pool).await.unwrap_or_else(|error| panic!("{mode:?}: {error}")), None, "{mode:?}");
    }
    let settings = settings_at(&url, "socket").ssl_mode(SslMode::Require);
    let error = refusal(settings.channel_binding(ChannelBinding::Require)).await;
    assert!(error.is_caller() && error.to_string().contains("no TLS"), "{error}");
}
