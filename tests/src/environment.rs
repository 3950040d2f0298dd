//! The addresses of the servers, as `scripts/servers env` prints them.

/// The shared Postgres server, as an ordinary user.
pub fn postgres_url() -> String {
    url("POSTGRES_URL")
}

/// The shared Postgres server, as a superuser.
pub fn admin_url() -> String {
    url("POSTGRES_ADMIN_URL")
}

/// The address in this variable.
///
/// # Panics
///
/// When there is none: the test cannot say anything without its server.
pub fn url(variable: &str) -> String {
    url_if_given(variable).unwrap_or_else(|| {
        panic!("{variable} is not set. Run `make test`, or `scripts/servers up` and `eval \"$(scripts/servers env)\"`")
    })
}

/// The address in this variable; not every way to run the servers has all of them.
pub fn url_if_given(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|url| !url.is_empty())
}
