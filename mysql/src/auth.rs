//! How the user is authenticated: which plugins are spoken, what each answers, and what it needs before it shows a
//! password.
//!
//! ```text
//! native       hashed answer ----------------------------------------------------------> verdict
//! caching      hashed answer --> known already ----------------------------------------> verdict
//!                           \--> not known --> in clear, or encrypted by RSA ----------> verdict
//! sha256       in clear over TLS, or encrypted by RSA ---------------------------------> verdict
//! clear        in clear, if that is allowed -------------------------------------------> verdict
//!              RSA: with the key at hand, else --> asks for the key --> encrypted -----> verdict
//! ```
//!
//! No socket, and no packets: the log-in unwraps what the server sends. Nothing here decides whether a connection is
//! encrypted; it is told.

pub(crate) mod public_key;
mod scramble;

use crate::login::LoginError;
use crate::settings::{AuthPlugin, Settings};
use crate::wire::handshake::NONCE_BYTES;

pub(crate) use public_key::PublicKey;

/// By which `caching_sha2_password` says that the hashed answer was enough.
const ENOUGH: u8 = 3;

/// By which `caching_sha2_password` asks for the password itself.
const NOT_ENOUGH: u8 = 4;

/// By which each plugin is asked for the server's key.
const KEY_WANTED_CACHING_SHA2: u8 = 2;
const KEY_WANTED_SHA256: u8 = 1;

/// Plugins that ask for something this driver does not have, and by what else the user could be authenticated.
const NOT_SPOKEN: &[(&str, &str)] = &[
    ("auth_gssapi_client", "an account with a password"),
    ("authentication_ldap_sasl_client", "LDAP by `mysql_clear_password`"),
    ("client_ed25519", "`mysql_native_password`"),
    ("dialog", "PAM by `mysql_clear_password` (pam_use_cleartext_plugin at the server)"),
    ("mysql_old_password", "a newly set password; hashes from before MySQL 4.1 protect nothing"),
    ("parsec", "`mysql_native_password`"),
];

/// How the bytes travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Channel {
    /// By a Unix socket: nobody is in between.
    pub(crate) unix: bool,
    /// Encrypted.
    pub(crate) tls: bool,
    /// And the server has shown who it is.
    pub(crate) tls_verified: bool,
}

impl Channel {
    /// Nobody can listen in.
    fn is_private(self) -> bool {
        self.unix || self.tls
    }

    /// Nor can anybody have put themselves in the server's place.
    fn is_trusted(self) -> bool {
        self.unix || self.tls_verified
    }
}

/// What an exchange goes by.
#[derive(Clone, Copy)]
pub(crate) struct Credentials<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) channel: Channel,
    /// What `server_public_key` in the settings names.
    pub(crate) pinned_key: Option<&'a PublicKey>,
}

impl Credentials<'_> {
    fn password(&self) -> &[u8] {
        self.settings.password().map(|password| password.as_bytes()).unwrap_or_default()
    }
}

/// The dialogue of one plugin, after its first answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    plugin: AuthPlugin,
    nonce: [u8; NONCE_BYTES],
    step: Step,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// `caching_sha2_password` says whether the hashed answer is enough.
    Hashed,
    /// The server sends its key.
    KeyWanted,
    /// Everything was said; the server's verdict is next.
    Answered,
}

/// With which plugin to begin where the server proposes `proposed`. It proposes without knowing the user, so the password
/// itself is not shown on the strength of it, and what cannot be answered is no reason to give up: the server will ask
/// for what this user needs.
pub(crate) fn first_plugin(proposed: &[u8], settings: &Settings) -> AuthPlugin {
    use AuthPlugin::{CachingSha2Password, ClearPassword, NativePassword, Sha256Password};
    let proposed = match proposed {
        // From before plugins had names.
        b"" => Some(NativePassword),
        name => AuthPlugin::of_name(name).filter(|plugin| matches!(plugin, CachingSha2Password | NativePassword)),
    };
    let by_choice = [CachingSha2Password, NativePassword, Sha256Password];
    let allowed = proposed.into_iter().chain(by_choice).find(|plugin| settings.allows_auth(*plugin));
    allowed.unwrap_or(ClearPassword)
}

/// The plugin of this name, if it is spoken and allowed.
pub(crate) fn allowed_plugin(name: &[u8], settings: &Settings) -> Result<AuthPlugin, LoginError> {
    let Some(plugin) = AuthPlugin::of_name(name) else { return Err(not_spoken(name)) };
    match settings.allows_auth(plugin) {
        true => Ok(plugin),
        false => Err(LoginError::Caller(format!(
            "the server wants authentication by `{}`, which `auth_plugins` in the settings rules out",
            plugin.name()
        ))),
    }
}

fn not_spoken(name: &[u8]) -> LoginError {
    let known = NOT_SPOKEN.iter().find(|(known, _)| known.as_bytes() == name);
    let instead = known.map(|(_, instead)| format!("; it could be {instead}")).unwrap_or_default();
    // A name is some twenty letters; a server that sends more is not worth quoting.
    let shown = name.get(..64).unwrap_or(name).escape_ascii();
    LoginError::Caller(format!("the server wants authentication by `{shown}`, which is not supported{instead}"))
}

impl Exchange {
    /// Begins, and gives the first answer to the server's challenge.
    ///
    /// # Errors
    ///
    /// If the challenge is none, or what the plugin needs is not allowed.
    pub(crate) fn begin(
        plugin: AuthPlugin,
        challenge: &[u8],
        credentials: Credentials<'_>,
    ) -> Result<(Exchange, Vec<u8>), LoginError> {
        let nonce = match <[u8; NONCE_BYTES]>::try_from(challenge) {
            Ok(nonce) => nonce,
            // This one has no use for it.
            Err(_) if plugin == AuthPlugin::ClearPassword => [0; NONCE_BYTES],
            Err(_) => return Err(LoginError::peer("an authentication challenge that has not 20 bytes")),
        };
        let exchange = |step| Exchange { plugin, nonce, step };
        let password = credentials.password();
        match plugin {
            AuthPlugin::NativePassword => Ok((exchange(Step::Answered), scramble::native(password, &nonce))),
            // To both of these a NUL says that there is no password.
            AuthPlugin::CachingSha2Password | AuthPlugin::Sha256Password if password.is_empty() => {
                Ok((exchange(Step::Answered), scramble::clear(b"")))
            }
            AuthPlugin::CachingSha2Password => Ok((exchange(Step::Hashed), scramble::caching_sha2(password, &nonce))),
            AuthPlugin::Sha256Password => exchange(Step::Answered).show_password(credentials),
            AuthPlugin::ClearPassword => {
                check_clear(credentials)?;
                Ok((exchange(Step::Answered), scramble::clear(password)))
            }
        }
    }

    /// Goes on with what the plugin at the server says; gives what is to be answered, if anything.
    ///
    /// # Errors
    ///
    /// If it is not due, or asks for what is not allowed.
    pub(crate) fn go_on(
        self,
        data: &[u8],
        credentials: Credentials<'_>,
    ) -> Result<(Exchange, Option<Vec<u8>>), LoginError> {
        match (&self.step, data) {
            (Step::Hashed, [ENOUGH]) => Ok((Exchange { step: Step::Answered, ..self }, None)),
            (Step::Hashed, [NOT_ENOUGH]) => {
                let (exchange, answer) = self.show_password(credentials)?;
                Ok((exchange, Some(answer)))
            }
            (Step::KeyWanted, pem) => {
                let key = PublicKey::parse(pem).ok_or_else(|| LoginError::peer("an RSA key that cannot be read"))?;
                let answer = self.encrypt(&key, credentials)?;
                Ok((Exchange { step: Step::Answered, ..self }, Some(answer)))
            }
            (Step::Hashed | Step::Answered, _) => Err(LoginError::peer("authentication data that is not due")),
        }
    }

    /// Refuses a server that says yes before everything was said.
    pub(crate) fn check_end(&self) -> Result<(), LoginError> {
        match self.step {
            // `Hashed`: a server may leave out the word that it is enough.
            Step::Answered | Step::Hashed => Ok(()),
            Step::KeyWanted => Err(LoginError::peer("a user who is let in before the password was seen")),
        }
    }

    /// The password, in the way that keeps it from everybody else; or the wish for the key that this takes.
    fn show_password(self, credentials: Credentials<'_>) -> Result<(Exchange, Vec<u8>), LoginError> {
        let answered = |exchange: Exchange| Exchange { step: Step::Answered, ..exchange };
        let channel = credentials.channel;
        // `sha256_password` does not count a Unix socket as private.
        if channel.tls || channel.unix && self.plugin == AuthPlugin::CachingSha2Password {
            return Ok((answered(self), scramble::clear(credentials.password())));
        }
        if let Some(key) = credentials.pinned_key {
            let answer = self.encrypt(key, credentials)?;
            return Ok((answered(self), answer));
        }
        // A key that was pinned and is not there must not be replaced by one that is just sent.
        let retrieval = credentials.settings.allow_public_key_retrieval() || channel.unix;
        if credentials.settings.server_public_key().is_some() || !retrieval {
            return Err(LoginError::Caller(format!(
                "`{}` has to show the server the password, and the connection is not encrypted: use TLS (`ssl_mode`) or \
                 a Unix socket, name the server's RSA key by `server_public_key`, or have whatever key is sent trusted \
                 by `allow_public_key_retrieval`",
                self.plugin.name()
            )));
        }
        let wish = match self.plugin {
            AuthPlugin::Sha256Password => KEY_WANTED_SHA256,
            _ => KEY_WANTED_CACHING_SHA2,
        };
        Ok((Exchange { step: Step::KeyWanted, ..self }, vec![wish]))
    }

    fn encrypt(&self, key: &PublicKey, credentials: Credentials<'_>) -> Result<Vec<u8>, LoginError> {
        key.encrypt(credentials.password(), &self.nonce).ok_or_else(|| {
            LoginError::Caller("the password is too long for the server's RSA key; it would fit through TLS".to_owned())
        })
    }
}

/// The password as it is goes to nobody but the server, and only by leave.
fn check_clear(credentials: Credentials<'_>) -> Result<(), LoginError> {
    let refuse = |words: &str| Err(LoginError::Caller(format!("the server wants the password in clear; {words}")));
    if !credentials.settings.allow_cleartext_password() {
        return refuse("`allow_cleartext_password` in the settings would allow it");
    }
    if !credentials.channel.is_private() || !credentials.channel.is_trusted() {
        return refuse("it is sent only over a Unix socket or verified TLS (ssl_mode=verify-ca or verify-identity)");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
