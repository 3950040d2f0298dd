//! Every way in that the servers have: TCP and Unix socket, and each method by which a user proves who he is.

use cenote_postgres::{AuthMethod, SqlState};
use cenote_tests::{must_end, open, settings_at, url, url_if_given};

/// The session's user, and how the server knows him.
async fn user_and_method(variable: &str) -> (String, Option<String>) {
    let pool = open(settings_at(&url(variable), "login"));
    let row = must_end(variable, pool.query_one("select session_user::text, system_user", &[])).await;
    let row = row.unwrap_or_else(|error| panic!("{variable}: {error}"));
    let method = row.get::<_, Option<String>>(1).unwrap();
    (row.get(0).unwrap(), method.map(|method| method.split(':').next().unwrap_or_default().to_owned()))
}

#[tokio::test]
async fn users_of_every_kind_get_in() {
    for (variable, user, method) in [
        ("POSTGRES_URL", "cenote", Some("scram-sha-256")),
        ("POSTGRES_ADMIN_URL", "cenote_admin", Some("scram-sha-256")),
        ("POSTGRES_MD5_URL", "cenote_md5", Some("md5")),
        ("POSTGRES_CLEARTEXT_URL", "cenote_cleartext", Some("password")),
        ("POSTGRES_TRUST_URL", "cenote_trust", None),
    ] {
        assert_eq!(user_and_method(variable).await, (user.to_owned(), method.map(str::to_owned)), "{variable}");
    }
}

/// Not every way to run the servers has a socket that we can reach.
#[tokio::test]
async fn a_unix_socket_is_a_way_in() {
    let Some(url) = url_if_given("POSTGRES_UNIX_URL") else {
        assert!(url("POSTGRES_URL").contains("://"), "a server is given, though without a socket");
        return;
    };
    let pool = open(settings_at(&url, "socket"));
    let row = pool.query_one("select inet_client_addr() is null, session_user::text", &[]).await.unwrap();
    assert_eq!((row.get(0).unwrap(), row.get(1).unwrap()), (true, "cenote"));
    // Much in both directions, as over TCP.
    let filler = "x".repeat(1_000_000);
    let row = pool.query_one("select $1::text", &[&filler]).await.unwrap();
    assert!(row.get::<_, &str>(0).unwrap() == filler);
}

#[tokio::test]
async fn a_wrong_password_is_refused_whatever_the_method() {
    for variable in ["POSTGRES_URL", "POSTGRES_MD5_URL", "POSTGRES_CLEARTEXT_URL"] {
        let pool = open(settings_at(&url(variable), "wrong").password("no"));
        let error = must_end(variable, pool.query_one("select 1", &[])).await.expect_err(variable);
        assert_eq!(error.code(), Some(SqlState::INVALID_PASSWORD), "{variable}: {error}");
    }
}

#[tokio::test]
async fn a_missing_password_is_the_callers_error() {
    let settings = settings_at(&url("POSTGRES_URL"), "missing").password("");
    let pool = open(settings);
    let error = must_end("a caller", pool.query_one("select 1", &[])).await.expect_err("no password was given");
    assert!(error.is_caller() && error.to_string().contains("password"), "{error}");
}

/// A server that asks for less than it should may not be the one that is meant.
#[tokio::test]
async fn a_method_that_is_not_allowed_is_refused() {
    for (variable, method) in [
        ("POSTGRES_TRUST_URL", AuthMethod::ScramSha256),
        ("POSTGRES_CLEARTEXT_URL", AuthMethod::ScramSha256),
        ("POSTGRES_MD5_URL", AuthMethod::ScramSha256),
        ("POSTGRES_URL", AuthMethod::Md5),
    ] {
        let pool = open(settings_at(&url(variable), "method").require_auth([method]));
        let error = must_end(variable, pool.query_one("select 1", &[])).await.expect_err(variable);
        assert!(!error.is_timeout() && error.was_sent() == Some(false), "{variable}: {error}");
        assert!(error.to_string().contains("require_auth"), "{variable}: {error}");
    }
    for (variable, method) in [
        ("POSTGRES_TRUST_URL", AuthMethod::None),
        ("POSTGRES_CLEARTEXT_URL", AuthMethod::Password),
        ("POSTGRES_MD5_URL", AuthMethod::Md5),
        ("POSTGRES_URL", AuthMethod::ScramSha256),
    ] {
        let pool = open(settings_at(&url(variable), "method").require_auth([method]));
        must_end(variable, pool.query_one("select 1", &[])).await.unwrap_or_else(|error| panic!("{variable}: {error}"));
    }
}
