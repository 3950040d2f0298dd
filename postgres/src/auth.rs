//! Authentication: what the server can ask for, and the client's half of each method.
//!
//! Cleartext, MD5 and SCRAM-SHA-256, over TLS bound to the server's certificate; the arithmetic is
//! `postgres-protocol`'s. In which order requests may come is the login's business. No socket, no clock; the
//! nonce of SCRAM is the only randomness.
//!
//! Source: protocol chapters "Start-up", "SASL Authentication"; RFC 5802, RFC 7677, RFC 5929.

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{self, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};

use crate::login::LoginError;
use crate::settings::{ChannelBinding, Password};

/// The least a server hashes a password with since SCRAM came to Postgres. Fewer rounds would make
/// what is sent to a false server cheap to guess from.
const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// The server names the rounds and the client does the work, before either has proved anything, so there
/// is an end to what it may ask: a fraction of a second. `postgres-protocol` ends at the same number.
const SCRAM_ITERATIONS_MAX: u32 = 100_000;

/// How much of the server's list of mechanisms an error repeats.
const MECHANISMS_SHOWN_MAX: usize = 200;

/// The body of an Authentication message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AuthRequest<'a> {
    /// Nothing is left to prove.
    Ok,
    Cleartext,
    Md5 {
        salt: [u8; 4],
    },
    /// The mechanisms on offer, each ended by a NUL.
    Sasl(&'a [u8]),
    SaslContinue(&'a [u8]),
    SaslFinal(&'a [u8]),
    /// Known, but not spoken here.
    NotSpoken(&'static str),
}

impl AuthRequest<'_> {
    pub(crate) fn parse(body: &[u8]) -> Result<AuthRequest<'_>, LoginError> {
        let garbled = || LoginError::peer("an authentication request that cannot be read");
        let (kind, data) = body.split_first_chunk::<4>().ok_or_else(garbled)?;
        let request = match u32::from_be_bytes(*kind) {
            0 if data.is_empty() => AuthRequest::Ok,
            2 => AuthRequest::NotSpoken("Kerberos V5"),
            3 if data.is_empty() => AuthRequest::Cleartext,
            5 => AuthRequest::Md5 { salt: data.try_into().map_err(|_| garbled())? },
            6 => AuthRequest::NotSpoken("SCM credentials"),
            7 | 8 => AuthRequest::NotSpoken("GSSAPI"),
            9 => AuthRequest::NotSpoken("SSPI"),
            10 => AuthRequest::Sasl(data),
            11 => AuthRequest::SaslContinue(data),
            12 => AuthRequest::SaslFinal(data),
            _ => return Err(garbled()),
        };
        Ok(request)
    }
}

/// What a PasswordMessage carries in answer to [`AuthRequest::Md5`].
pub(crate) fn md5_answer(user: &str, password: &Password, salt: [u8; 4]) -> String {
    md5_hash(user.as_bytes(), password.as_bytes(), salt)
}

/// What the log-in goes through, so far as a password can be bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Nothing that is encrypted here.
    Plain,
    /// TLS; `tls-server-end-point` of the server's certificate, if that defines one.
    Tls { end_point: Option<Vec<u8>> },
}

/// The mechanism of SCRAM to use, and what its first message says of channel binding.
pub(crate) struct Mechanism {
    pub(crate) name: &'static str,
    binding: sasl::ChannelBinding,
}

/// Picks one of the two mechanisms spoken, SCRAM-SHA-256 and its `-PLUS` form, out of those on offer.
///
/// The first message tells the server which of three is true, and the server checks it (RFC 5802, section 6): `p`, the
/// password is bound to the channel; `y`, we could bind it, but `-PLUS` was not on offer (who took it from the list on
/// the way is found out now); `n`, we cannot or do not want to.
pub(crate) fn choose_mechanism(
    offered: &[u8],
    channel: &Channel,
    wanted: ChannelBinding,
) -> Result<Mechanism, LoginError> {
    let names = || offered.split(|byte| *byte == 0).take_while(|name| !name.is_empty());
    let offers = |mechanism: &str| names().any(|name| name == mechanism.as_bytes());
    let plus = offers(SCRAM_SHA_256_PLUS);
    let binding = match (channel, wanted) {
        (Channel::Plain, ChannelBinding::Require) => {
            return Err(LoginError::Caller(
                "`channel_binding` is `require`, and this connection has no TLS to bind the password to".to_owned(),
            ));
        }
        (Channel::Plain, _) if plus => {
            return Err(LoginError::peer(
                "the server offers SCRAM-SHA-256-PLUS, which goes with TLS, where there is none: something in between may \
                 have taken the encryption off",
            ));
        }
        (Channel::Tls { end_point: Some(end_point) }, ChannelBinding::Prefer | ChannelBinding::Require) if plus => {
            let binding = sasl::ChannelBinding::tls_server_end_point(end_point.clone());
            return Ok(Mechanism { name: SCRAM_SHA_256_PLUS, binding });
        }
        (Channel::Tls { end_point }, ChannelBinding::Require) => {
            let why = match end_point {
                Some(_) => "the server does not offer SCRAM-SHA-256-PLUS",
                None => "to a certificate of this server's kind nothing can be bound (its signature has no hash)",
            };
            return Err(LoginError::Caller(format!("`channel_binding` is `require`, and {why}")));
        }
        (Channel::Tls { end_point: Some(_) }, ChannelBinding::Prefer) => sasl::ChannelBinding::unrequested(),
        (Channel::Plain | Channel::Tls { .. }, _) => sasl::ChannelBinding::unsupported(),
    };
    if offers(SCRAM_SHA_256) {
        return Ok(Mechanism { name: SCRAM_SHA_256, binding });
    }
    let listed = names().map(String::from_utf8_lossy).collect::<Vec<_>>().join(", ");
    let shown: String = listed.chars().filter(|c| !c.is_control()).take(MECHANISMS_SHOWN_MAX).collect();
    Err(LoginError::Caller(format!(
        "the server offers only SASL mechanisms that are not supported ({shown}); supported is {SCRAM_SHA_256}"
    )))
}

/// SCRAM after the client's first message, before the server's.
pub(crate) struct ScramStarted(ScramSha256);

/// SCRAM after the client's proof, before the server's.
pub(crate) struct ScramProved(ScramSha256);

impl ScramStarted {
    /// Starts the exchange; gives the client's first message, too.
    pub(crate) fn new(password: &Password, mechanism: Mechanism) -> (ScramStarted, Vec<u8>) {
        let scram = ScramSha256::new(password.as_bytes(), mechanism.binding);
        let message = scram.message().to_vec();
        (ScramStarted(scram), message)
    }

    /// Hashes the password as the server's first message says (some milliseconds); gives the client's proof.
    pub(crate) fn prove(mut self, server_first: &[u8]) -> Result<(ScramProved, Vec<u8>), LoginError> {
        check_iterations(server_first)?;
        self.0.update(server_first).map_err(|error| scram_error(&error))?;
        let message = self.0.message().to_vec();
        Ok((ScramProved(self.0), message))
    }
}

impl ScramProved {
    /// Checks that the server knows the password, too.
    pub(crate) fn verify(mut self, server_final: &[u8]) -> Result<(), LoginError> {
        self.0.finish(server_final).map_err(|error| scram_error(&error))
    }
}

fn scram_error(error: &std::io::Error) -> LoginError {
    LoginError::peer(format!("SCRAM failed: {error}"))
}

/// Looks at the `i=` of `r=<nonce>,s=<salt>,i=<iterations>` before anything is hashed.
fn check_iterations(server_first: &[u8]) -> Result<(), LoginError> {
    let mut attributes = server_first.split(|byte| *byte == b',').skip(2);
    let digits = match (attributes.next(), attributes.next()) {
        (Some(last), None) => last.strip_prefix(b"i="),
        _ => None,
    };
    let digits = digits.filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit));
    let Some(digits) = digits else {
        return Err(LoginError::peer("a first SCRAM message that cannot be read"));
    };
    let iterations = digits.iter().fold(0_u32, |sum, digit| {
        let value = u32::from(digit.saturating_sub(b'0'));
        sum.saturating_mul(10).saturating_add(value)
    });
    match iterations {
        SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX => Ok(()),
        too_few if too_few < SCRAM_ITERATIONS_MIN => Err(LoginError::peer(format!(
            "{too_few} SCRAM iterations are too few to protect the password; {SCRAM_ITERATIONS_MIN} is the least \
             that is accepted"
        ))),
        _ => Err(LoginError::peer(format!("more SCRAM iterations than the {SCRAM_ITERATIONS_MAX} that are accepted"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests() {
        let table: [(&[u8], Option<AuthRequest<'_>>); 19] = [
            (b"\0\0\0\0", Some(AuthRequest::Ok)),
            (b"\0\0\0\0x", None),
            (b"\0\0\0\x01", None),
            (b"\0\0\0\x02", Some(AuthRequest::NotSpoken("Kerberos V5"))),
            (b"\0\0\0\x03", Some(AuthRequest::Cleartext)),
            (b"\0\0\0\x03x", None),
            (b"\0\0\0\x05abcd", Some(AuthRequest::Md5 { salt: *b"abcd" })),
            (b"\0\0\0\x05abc", None),
            (b"\0\0\0\x05abcde", None),
            (b"\0\0\0\x06", Some(AuthRequest::NotSpoken("SCM credentials"))),
            (b"\0\0\0\x07", Some(AuthRequest::NotSpoken("GSSAPI"))),
            (b"\0\0\0\x08x", Some(AuthRequest::NotSpoken("GSSAPI"))),
            (b"\0\0\0\x09", Some(AuthRequest::NotSpoken("SSPI"))),
            (b"\0\0\0\x0aA\0\0", Some(AuthRequest::Sasl(b"A\0\0"))),
            (b"\0\0\0\x0bx", Some(AuthRequest::SaslContinue(b"x"))),
            (b"\0\0\0\x0c", Some(AuthRequest::SaslFinal(b""))),
            (b"\0\0\0\x0d", None),
            (b"\xff\xff\xff\xff", None),
            (b"\0\0\0", None),
        ];
        for (body, expected) in table {
            assert_eq!(AuthRequest::parse(body).ok(), expected, "{body:?}");
        }
    }

    /// The mechanism and the first byte of its first message, or the error.
    fn chosen(offered: &str, channel: &Channel, wanted: ChannelBinding) -> Result<(&'static str, char), LoginError> {
        let mechanism = choose_mechanism(offered.as_bytes(), channel, wanted)?;
        let name = mechanism.name;
        let (_, message) = ScramStarted::new(&Password::new("p"), mechanism);
        Ok((name, char::from(message[0])))
    }

    #[test]
    fn mechanisms() {
        use ChannelBinding::{Disable, Prefer, Require};
        let (both, plain, plus) =
            ("SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0", "SCRAM-SHA-256\0\0", "SCRAM-SHA-256-PLUS\0\0");
        let tls = Channel::Tls { end_point: Some(vec![7; 32]) };
        let unbindable = Channel::Tls { end_point: None };
        let (scram, scram_plus) = ("SCRAM-SHA-256", "SCRAM-SHA-256-PLUS");
        let table = [
            (plain, &Channel::Plain, Disable, Ok((scram, 'n'))),
            (plain, &Channel::Plain, Prefer, Ok((scram, 'n'))),
            (plain, &Channel::Plain, Require, Err("has no TLS")),
            (both, &Channel::Plain, Disable, Err("taken the encryption off")),
            (both, &Channel::Plain, Prefer, Err("taken the encryption off")),
            (both, &Channel::Plain, Require, Err("has no TLS")),
            (plain, &tls, Disable, Ok((scram, 'n'))),
            (plain, &tls, Prefer, Ok((scram, 'y'))),
            (plain, &tls, Require, Err("does not offer SCRAM-SHA-256-PLUS")),
            (both, &tls, Disable, Ok((scram, 'n'))),
            (both, &tls, Prefer, Ok((scram_plus, 'p'))),
            (both, &tls, Require, Ok((scram_plus, 'p'))),
            (plus, &tls, Disable, Err("not supported (SCRAM-SHA-256-PLUS)")),
            (plus, &tls, Prefer, Ok((scram_plus, 'p'))),
            (both, &unbindable, Prefer, Ok((scram, 'n'))),
            (plain, &unbindable, Prefer, Ok((scram, 'n'))),
            (both, &unbindable, Require, Err("nothing can be bound")),
            ("X\0SCRAM-SHA-256\0", &tls, Prefer, Ok((scram, 'y'))),
            ("SCRAM-SHA-256", &Channel::Plain, Prefer, Ok((scram, 'n'))),
            ("X\0OAUTHBEARER\0\0", &Channel::Plain, Prefer, Err("(X, OAUTHBEARER)")),
            ("\0SCRAM-SHA-256\0", &Channel::Plain, Prefer, Err("()")),
            ("", &Channel::Plain, Prefer, Err("()")),
            ("A\nB\0", &Channel::Plain, Prefer, Err("(AB)")),
        ];
        for (offered, channel, wanted, expected) in table {
            let what = format!("{offered:?} {channel:?} {wanted:?}");
            match (chosen(offered, channel, wanted), expected) {
                (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected, "{what}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{what}: {error}"),
                (chosen, expected) => panic!("{what}: {chosen:?}, not {expected:?}"),
            }
        }
        let error = chosen(&"x".repeat(60_000), &Channel::Plain, Prefer).unwrap_err();
        assert!(error.to_string().len() < 400, "{error}");
    }

    #[test]
    fn iterations_are_limited() {
        let table = [
            ("r=a,s=b,i=4096", ""),
            ("r=a,s=b,i=100000", ""),
            ("r=a,s=b,i=4095", "4095 SCRAM iterations are too few"),
            ("r=a,s=b,i=1", "too few"),
            ("r=a,s=b,i=0", "too few"),
            ("r=a,s=b,i=100001", "more SCRAM iterations"),
            ("r=a,s=b,i=2147483648", "more SCRAM iterations"),
            ("r=a,s=b,i=4294971392", "more SCRAM iterations"),
            ("r=a,s=b,i=99999999999999999999999999", "more SCRAM iterations"),
            ("r=a,s=b,i=", "cannot be read"),
            ("r=a,s=b,i=-4096", "cannot be read"),
            ("r=a,s=b,i=4096,x=y", "cannot be read"),
            ("r=a,s=b", "cannot be read"),
            ("r=a,i=4096,s=b", "cannot be read"),
            ("", "cannot be read"),
        ];
        for (message, expected) in table {
            let words = check_iterations(message.as_bytes()).map_or_else(|error| error.to_string(), |()| String::new());
            assert!(words.contains(expected) && words.is_empty() == expected.is_empty(), "{message}: {words}");
        }
    }

    #[test]
    fn md5_is_what_the_server_computes() {
        let answer = md5_answer("md5_user", &Password::new("password"), [0x2a, 0x3d, 0x8f, 0xe0]);
        assert_eq!(answer, "md562af4dd09bbb41884907a838a3233294");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = AuthRequest::parse(&bytes);
            let _ = choose_mechanism(&bytes, &Channel::Plain, ChannelBinding::Prefer);
            let _ = check_iterations(&bytes);
            let mechanism = choose_mechanism(b"SCRAM-SHA-256\0", &Channel::Plain, ChannelBinding::Prefer).unwrap();
            let (started, _) = ScramStarted::new(&Password::new("p"), mechanism);
            let _ = started.prove(&bytes);
        }
    }
}
