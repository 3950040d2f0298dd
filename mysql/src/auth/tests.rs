//! What each plugin answers, and what it refuses, by table.

use super::public_key::tests::{PUBLIC_KEY, decrypt};
use super::*;
use crate::settings::Password;

const NONCE: &[u8; NONCE_BYTES] = b"abcdefghijklmnopqrst";

const PLAIN: Channel = Channel { unix: false, tls: false, tls_verified: false };
const UNIX: Channel = Channel { unix: true, ..PLAIN };
const TLS: Channel = Channel { tls: true, ..PLAIN };
const VERIFIED_TLS: Channel = Channel { tls: true, tls_verified: true, ..PLAIN };

fn settings(parameters: &str) -> Settings {
    Settings::from_url(&format!("mysql://app:secret@db/shop?{parameters}")).unwrap()
}

/// Begins, lets a caching server ask for the password itself, and says what came out.
fn password_asked(plugin: AuthPlugin, parameters: &str, channel: Channel, pinned: bool) -> String {
    let settings = settings(parameters);
    let key = PublicKey::parse(PUBLIC_KEY.as_bytes());
    let credentials = Credentials { settings: &settings, channel, pinned_key: key.as_ref().filter(|_| pinned) };
    let begun = Exchange::begin(plugin, NONCE, credentials);
    let asked = begun.and_then(|(exchange, answer)| match plugin {
        AuthPlugin::CachingSha2Password => exchange.go_on(&[NOT_ENOUGH], credentials),
        _ => Ok((exchange, Some(answer))),
    });
    match asked {
        Ok((_, Some(answer))) if answer == b"secret\0" => "in clear".to_owned(),
        Ok((_, Some(answer))) if answer.len() == 128 => {
            assert_eq!(decrypt(&answer, NONCE), b"secret\0");
            "encrypted".to_owned()
        }
        Ok((exchange, Some(answer))) if exchange.step == Step::KeyWanted => format!("asks with {answer:?}"),
        Ok((_, answer)) => format!("{answer:?}"),
        Err(LoginError::Caller(words)) => format!("refused: {words}"),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn who_gets_to_see_the_password() {
    use AuthPlugin::{CachingSha2Password as Caching, ClearPassword as Clear, Sha256Password as Sha256};
    let retrieval = "allow_public_key_retrieval=on";
    let pinned = "server_public_key=/key.pem";
    let both = "server_public_key=/key.pem&allow_public_key_retrieval=on";
    let leave = "allow_cleartext_password=on";
    let table = [
        (Caching, "", TLS, false, "in clear"),
        (Caching, "", VERIFIED_TLS, false, "in clear"),
        (Caching, "", UNIX, false, "in clear"),
        (Caching, "", PLAIN, false, "refused: `caching_sha2_password` has to show"),
        (Caching, pinned, PLAIN, true, "encrypted"),
        (Caching, retrieval, PLAIN, false, "asks with [2]"),
        (Caching, both, PLAIN, false, "refused: `caching_sha2_password` has to show"),
        (Sha256, "", TLS, false, "in clear"),
        (Sha256, "", UNIX, false, "asks with [1]"),
        (Sha256, "", PLAIN, false, "refused: `sha256_password` has to show"),
        (Sha256, pinned, PLAIN, true, "encrypted"),
        (Sha256, pinned, UNIX, true, "encrypted"),
        (Sha256, retrieval, PLAIN, false, "asks with [1]"),
        (Sha256, both, PLAIN, false, "refused: `sha256_password` has to show"),
        (Sha256, both, UNIX, false, "refused: `sha256_password` has to show"),
        (Clear, "", VERIFIED_TLS, false, "refused: the server wants the password in clear; `allow_cleartext_password`"),
        (Clear, "", UNIX, false, "refused: the server wants the password in clear; `allow_cleartext_password`"),
        (Clear, leave, PLAIN, false, "refused: the server wants the password in clear; it is sent only"),
        (Clear, leave, TLS, false, "refused: the server wants the password in clear; it is sent only"),
        (Clear, leave, VERIFIED_TLS, false, "in clear"),
        (Clear, leave, UNIX, false, "in clear"),
    ];
    for (plugin, parameters, channel, pinned, expected) in table {
        let outcome = password_asked(plugin, parameters, channel, pinned);
        assert!(outcome.starts_with(expected), "{plugin:?}, {parameters:?}, {channel:?}: {outcome}");
    }
}

#[test]
fn the_plugin_to_begin_with() {
    let table = [
        ("", "caching_sha2_password", "caching_sha2_password"),
        ("", "mysql_native_password", "mysql_native_password"),
        ("", "", "mysql_native_password"),
        // The password itself is not shown on a mere proposal.
        ("", "sha256_password", "caching_sha2_password"),
        ("", "mysql_clear_password", "caching_sha2_password"),
        ("", "parsec", "caching_sha2_password"),
        ("auth_plugins=mysql_native_password", "caching_sha2_password", "mysql_native_password"),
        ("auth_plugins=sha256_password", "caching_sha2_password", "sha256_password"),
        ("auth_plugins=mysql_clear_password", "mysql_native_password", "mysql_clear_password"),
    ];
    for (parameters, proposed, expected) in table {
        let plugin = first_plugin(proposed.as_bytes(), &settings(parameters));
        assert_eq!(plugin.name(), expected, "{proposed}, {parameters:?}");
    }
}

#[test]
fn plugins_that_are_not_to_be_had() {
    let table = [
        ("", "mysql_old_password", "is not supported; it could be a newly set password"),
        ("", "client_ed25519", "`client_ed25519`, which is not supported; it could be `mysql_native_password`"),
        ("", "parsec", "`parsec`, which is not supported"),
        ("", "dialog", "pam_use_cleartext_plugin"),
        ("", "\u{1b}[31m", r"`\x1b[31m`"),
        ("auth_plugins=sha256_password", "mysql_native_password", "`auth_plugins` in the settings rules out"),
    ];
    for (parameters, name, words) in table {
        match allowed_plugin(name.as_bytes(), &settings(parameters)) {
            Err(LoginError::Caller(error)) => assert!(error.contains(words), "{name}: {error}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let long = allowed_plugin(&[b'x'; 10_000], &settings("")).unwrap_err();
    assert!(long.to_string().len() < 300, "{long}");
}

#[test]
fn without_a_password() {
    let settings = Settings::from_url("mysql://app@db?allow_cleartext_password=on").unwrap();
    let credentials = Credentials { settings: &settings, channel: UNIX, pinned_key: None };
    for (plugin, expected) in [
        (AuthPlugin::NativePassword, &b""[..]),
        (AuthPlugin::CachingSha2Password, b"\0"),
        (AuthPlugin::Sha256Password, b"\0"),
        (AuthPlugin::ClearPassword, b"\0"),
    ] {
        let (exchange, answer) = Exchange::begin(plugin, NONCE, credentials).unwrap();
        assert_eq!(answer, expected, "{plugin:?}");
        assert!(exchange.check_end().is_ok(), "{plugin:?}");
        assert!(exchange.go_on(&[NOT_ENOUGH], credentials).is_err(), "{plugin:?}");
    }
}

#[test]
fn passwords_of_every_length() {
    let lengths = [1, 19, 20, 21, 64, 86, 255];
    for password in lengths.map(|bytes| "ä".repeat(bytes).into_bytes()[..bytes].to_vec()) {
        let settings = Settings::builder().user("app").password(Password::new(&password)).build().unwrap();
        let begin = |plugin, channel, key: Option<&PublicKey>| {
            let credentials = Credentials { settings: &settings, channel, pinned_key: key };
            Exchange::begin(plugin, NONCE, credentials).map(|(_, answer)| answer)
        };
        assert_eq!(begin(AuthPlugin::NativePassword, PLAIN, None).unwrap().len(), 20);
        assert_eq!(begin(AuthPlugin::CachingSha2Password, PLAIN, None).unwrap().len(), 32);
        let clear = begin(AuthPlugin::Sha256Password, TLS, None).unwrap();
        assert_eq!(clear, [&password[..], b"\0"].concat());
        let key = PublicKey::parse(PUBLIC_KEY.as_bytes());
        match begin(AuthPlugin::Sha256Password, PLAIN, key.as_ref()) {
            Ok(encrypted) => assert_eq!(decrypt(&encrypted, NONCE), clear, "{} bytes", password.len()),
            Err(error) => {
                assert!(password.len() > 85 && error.to_string().contains("too long"), "{}: {error}", password.len());
            }
        }
    }
}

#[test]
fn what_breaks_the_dialogue() {
    let settings = settings("allow_public_key_retrieval=on");
    let credentials = Credentials { settings: &settings, channel: PLAIN, pinned_key: None };
    let is_peer = |result: Result<(Exchange, Option<Vec<u8>>), LoginError>| matches!(result, Err(LoginError::Peer(_)));
    for challenge in [&b""[..], &NONCE[..19], b"abcdefghijklmnopqrstu"] {
        let begun = Exchange::begin(AuthPlugin::NativePassword, challenge, credentials);
        assert!(matches!(begun, Err(LoginError::Peer(_))), "{challenge:?}");
    }
    let caching = || Exchange::begin(AuthPlugin::CachingSha2Password, NONCE, credentials).unwrap().0;
    for data in [&b""[..], b"\0", b"\x05", b"\x03\x03", b"\x04\0"] {
        assert!(is_peer(caching().go_on(data, credentials)), "{data:?}");
    }
    let key_wanted = || caching().go_on(&[NOT_ENOUGH], credentials).unwrap().0;
    assert!(key_wanted().check_end().is_err(), "let in before the password was seen");
    for data in [&b""[..], &[ENOUGH], &[NOT_ENOUGH], b"-----BEGIN PUBLIC KEY-----"] {
        assert!(is_peer(key_wanted().go_on(data, credentials)), "{data:?}");
    }
    let (answered, answer) = key_wanted().go_on(PUBLIC_KEY.as_bytes(), credentials).unwrap();
    assert_eq!(decrypt(&answer.unwrap(), NONCE), b"secret\0");
    assert!(answered.check_end().is_ok());
    assert!(is_peer(answered.go_on(&[NOT_ENOUGH], credentials)), "asked again");
}
