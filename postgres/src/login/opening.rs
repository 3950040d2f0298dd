//! `Opening`: how a connection begins, encrypted or not, and whether one that failed is worth another attempt.
//!
//! Pure decisions by libpq's rules; what is sent is the log-in's business.

use crate::login::LoginError;
use crate::server_error::SqlState;
use crate::settings::{Ssl, SslMode, SslNegotiation};

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// With the StartupMessage, in clear.
    Plain,
    /// With the question whether the server speaks TLS.
    Ask,
    /// With TLS.
    Direct,
}

impl Opening {
    /// `attempt` counts from 0; `local` is a Unix socket, which does not leave the machine.
    pub(super) fn choose(ssl: &Ssl, attempt: u32, local: bool) -> Opening {
        match (ssl.mode(), attempt) {
            _ if local => Opening::Plain,
            (SslMode::Disable, _) | (SslMode::Allow, 0) => Opening::Plain,
            (SslMode::Prefer, 1..) => Opening::Plain,
            (SslMode::Allow | SslMode::Prefer, _) => Opening::Ask,
            (SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull, _) => match ssl.negotiation {
                SslNegotiation::Postgres => Opening::Ask,
                SslNegotiation::Direct => Opening::Direct,
            },
        }
    }

    /// Whether an attempt that began so and failed is to be followed by one the other way: with `prefer` without TLS,
    /// with `allow` with it. Only where the difference can matter: a server says 28000 of whom its pg_hba.conf does not
    /// let in by this way, and says of a wrong password by any way the same.
    pub(super) fn is_worth_the_other(self, mode: SslMode, attempt: u32, error: &LoginError) -> bool {
        let refused = |error: &LoginError| matches!(error, LoginError::Server(error) if error.code() == SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        match (mode, attempt, self) {
            (SslMode::Prefer, 0, Opening::Ask) => refused(error) || error.is_tls_failed(),
            (SslMode::Allow, 0, Opening::Plain) => refused(error),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_error::ServerError;
    use cenote_pool::TlsFailure;

    fn ssl(mode: SslMode, negotiation: SslNegotiation) -> Ssl {
        Ssl { mode: Some(mode), negotiation, ..Ssl::default() }
    }

    #[test]
    fn how_a_connection_begins() {
        use Opening::{Ask, Direct, Plain};
        let table = [
            (SslMode::Disable, [Plain, Plain]),
            (SslMode::Allow, [Plain, Ask]),
            (SslMode::Prefer, [Ask, Plain]),
            (SslMode::Require, [Ask, Ask]),
            (SslMode::VerifyCa, [Ask, Ask]),
            (SslMode::VerifyFull, [Ask, Ask]),
        ];
        for (mode, openings) in table {
            for (attempt, opening) in (0..).zip(openings) {
                let asked = ssl(mode, SslNegotiation::Postgres);
                assert_eq!(Opening::choose(&asked, attempt, false), opening, "{mode:?} {attempt}");
                assert_eq!(Opening::choose(&asked, attempt, true), Plain, "{mode:?} on a Unix socket");
                if mode >= SslMode::Require {
                    let direct = ssl(mode, SslNegotiation::Direct);
                    assert_eq!(Opening::choose(&direct, attempt, false), Direct, "{mode:?} {attempt}");
                }
            }
        }
    }

    #[test]
    fn another_attempt_is_made_where_it_can_end_otherwise() {
        let server = |code: &str| {
            let body = format!("SFATAL\0C{code}\0Mm\0\0");
            LoginError::Server(ServerError::parse(body.as_bytes()))
        };
        let broken = || LoginError::Tls(TlsFailure::Broken(String::new()));
        let refused = || LoginError::Tls(TlsFailure::Refused(String::new()));
        let injected = || LoginError::Tls(TlsFailure::Injected);
        let file = || LoginError::Tls(TlsFailure::Settings(String::new()));
        use SslMode::{Allow, Disable, Prefer, Require, VerifyFull};
        let table = [
            (Prefer, 0, Opening::Ask, server("28000"), true),
            (Prefer, 0, Opening::Ask, server("28P01"), false),
            (Prefer, 0, Opening::Ask, server("53300"), false),
            (Prefer, 0, Opening::Ask, broken(), true),
            (Prefer, 0, Opening::Ask, refused(), true),
            (Prefer, 0, Opening::Ask, injected(), false),
            (Prefer, 0, Opening::Ask, file(), false),
            (Prefer, 0, Opening::Ask, LoginError::peer("no"), false),
            (Prefer, 0, Opening::Plain, server("28000"), false),
            (Prefer, 1, Opening::Plain, server("28000"), false),
            (Allow, 0, Opening::Plain, server("28000"), true),
            (Allow, 0, Opening::Plain, server("28P01"), false),
            (Allow, 1, Opening::Ask, server("28000"), false),
            (Allow, 1, Opening::Ask, broken(), false),
            (Disable, 0, Opening::Plain, server("28000"), false),
            (Require, 0, Opening::Ask, server("28000"), false),
            (Require, 0, Opening::Ask, broken(), false),
            (VerifyFull, 0, Opening::Direct, broken(), false),
        ];
        for (mode, attempt, opening, error, expected) in table {
            let worth = opening.is_worth_the_other(mode, attempt, &error);
            assert_eq!(worth, expected, "{mode:?} {attempt} {opening:?} {error}");
        }
    }
}
