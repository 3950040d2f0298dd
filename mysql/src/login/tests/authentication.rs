//! Dialogues of each plugin, from the greeting to the commands that follow.

use super::*;
use crate::auth::public_key::tests::PUBLIC_KEY;

/// The server asks for another plugin, with another nonce.
fn switch(plugin: &str) -> Vec<u8> {
    message(2, &[b"\xfe", plugin.as_bytes(), b"\0ABCDEFGHIJKLMNOPQRST\0"].concat())
}

fn key(sequence: u8) -> Vec<u8> {
    message(sequence, &[b"\x01", PUBLIC_KEY.as_bytes()].concat())
}

/// What the client sent between its answer to the greeting and the commands.
fn answers(scene: &Scene, flights: &[Vec<u8>]) -> Vec<(u8, String)> {
    let flights = [flights, &[settled()]].concat();
    let ending = scene.play(&flights);
    assert!(ending.words.starts_with("ready"), "{}", ending.words);
    let answers = ending.sent_later();
    let (commands, answers) = (&answers[answers.len() - 2..], &answers[..answers.len() - 2]);
    assert_eq!(commands, [(0, SET), (0, ASK)]);
    answers.iter().map(|(sequence, payload)| (*sequence, payload.escape_ascii().to_string())).collect()
}

#[test]
fn a_password_the_server_has_not_seen_yet() {
    let tls = scene("mysql://app:secret@db/shop?ssl_mode=required");
    assert_eq!(
        answers(&tls, &[greeting(CACHING), message(3, b"\x01\x04"), ok(5)]),
        [(4, r"secret\x00".to_owned())],
        "over TLS in clear"
    );
    let unix = Scene { unix: true, ..scene("mysql://app:secret@db/shop") };
    assert_eq!(
        answers(&unix, &[greeting(CACHING), message(2, b"\x01\x04"), ok(4)]),
        [(3, r"secret\x00".to_owned())],
        "over a Unix socket in clear"
    );
    let pinned = "mysql://app:secret@db/shop?ssl_mode=disabled&server_public_key=/key.pem";
    let pinned = Scene { server_key: Some(PUBLIC_KEY), ..scene(pinned) };
    assert_eq!(
        answers(&pinned, &[greeting(CACHING), message(2, b"\x01\x04"), ok(4)]),
        [(3, "(encrypted)".to_owned())],
        "with the key at hand"
    );
    let retrieval = scene("mysql://app:secret@db/shop?ssl_mode=disabled&allow_public_key_retrieval=on");
    assert_eq!(
        answers(&retrieval, &[greeting(CACHING), message(2, b"\x01\x04"), key(4), ok(6)]),
        [(3, r"\x02".to_owned()), (5, "(encrypted)".to_owned())],
        "with the key that is sent"
    );
    let ending = plain().play(&[greeting(CACHING), message(2, b"\x01\x04")]);
    assert!(ending.words.contains("allow_public_key_retrieval"), "{}", ending.words);
    assert_eq!(ending.sent_later(), [], "something was sent although it is refused");
}

#[test]
fn data_without_its_mark_is_understood() {
    let retrieval = scene("mysql://app:secret@db/shop?ssl_mode=disabled&allow_public_key_retrieval=on");
    let flights = [greeting(CACHING), message(2, b"\x04"), message(4, PUBLIC_KEY.as_bytes()), ok(6)];
    assert_eq!(answers(&retrieval, &flights), [(3, r"\x02".to_owned()), (5, "(encrypted)".to_owned())]);
    assert_eq!(answers(&plain(), &[greeting(CACHING), [message(2, b"\x03"), ok(3)].concat()]), []);
}

#[test]
fn another_plugin_once() {
    let native = [(3, r"(D\x15\x90gB\x85\xe7\xd0<\xaez\xf27PG\x97\xf7\x0e\x91".to_owned())];
    assert_eq!(answers(&plain(), &[greeting(CACHING), switch(NATIVE), ok(4)]), native);
    assert_eq!(answers(&plain(), &[greeting("parsec"), switch(NATIVE), ok(4)]), native);

    let caching = answers(&plain(), &[greeting(NATIVE), switch(CACHING), [message(4, b"\x01\x03"), ok(5)].concat()]);
    assert_eq!(
        caching,
        [(
            3,
            r"\xd7!\xe1\x83\xc1\xf06\xa1\x96\xc18\x92\x01\xb8\xd5?8\x06J\x16\xf1\xd0\x926\x83\xab\x88gc\x15-u"
                .to_owned()
        )]
    );

    let sha256 = scene("mysql://app:secret@db/shop?ssl_mode=disabled&allow_public_key_retrieval=on");
    let flights = [greeting(CACHING), switch("sha256_password"), key(4), ok(6)];
    assert_eq!(answers(&sha256, &flights), [(3, r"\x01".to_owned()), (5, "(encrypted)".to_owned())]);

    let clear = "mysql://app:secret@db/shop?ssl_mode=verify-identity&allow_cleartext_password=on";
    let clear_switch = message(3, b"\xfemysql_clear_password\0");
    assert_eq!(answers(&scene(clear), &[greeting(NATIVE), clear_switch, ok(5)]), [(4, r"secret\x00".to_owned())]);
}

#[test]
fn without_a_password() {
    let empty = scene("mysql://app@db?ssl_mode=disabled");
    assert_eq!(answers(&empty, &[greeting(CACHING), ok(2)]), []);
    assert_eq!(answers(&empty, &[greeting(CACHING), switch(NATIVE), ok(4)]), [(3, String::new())]);
    assert_eq!(answers(&empty, &[greeting(NATIVE), switch(CACHING), ok(4)]), [(3, r"\x00".to_owned())]);
    assert_eq!(answers(&empty, &[greeting(NATIVE), switch("sha256_password"), ok(4)]), [(3, r"\x00".to_owned())]);
}

#[test]
fn what_is_refused() {
    let clear = switch("mysql_clear_password");
    let leave = scene("mysql://app:secret@db?ssl_mode=required&allow_cleartext_password=on");
    let no_native = scene("mysql://app:secret@db?ssl_mode=disabled&auth_plugins=caching_sha2_password");
    let table = [
        (plain(), vec![greeting(NATIVE), clear.clone()], "wants the password in clear"),
        (leave, vec![greeting(NATIVE), message(3, b"\xfemysql_clear_password\0")], "verified TLS"),
        (no_native, vec![greeting(CACHING), switch(NATIVE)], "`auth_plugins`"),
        (plain(), vec![greeting(NATIVE), switch("client_ed25519")], "`client_ed25519`"),
        (plain(), vec![greeting(NATIVE), message(2, b"\xfe")], "`mysql_old_password`"),
        (plain(), vec![greeting(NATIVE), message(2, b"\x02authentication_fido\0")], "second factor"),
    ];
    for (scene, flights, words) in table {
        let ending = scene.play(&flights);
        assert!(ending.words.contains(words) && !ending.words.contains("broken"), "{words}: {}", ending.words);
        assert_eq!(ending.sent_later(), [], "an answer to {words}");
    }
}

#[test]
fn what_breaks_the_protocol() {
    let not_due = "not due";
    let table = [
        (
            vec![greeting(CACHING), switch(NATIVE), message(4, b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0")],
            not_due,
        ),
        (vec![greeting(CACHING), [message(2, b"\x01\x03"), message(3, b"\xfex\0")].concat()], not_due),
        (vec![greeting(CACHING), [message(2, b"\x01\x03"), message(3, b"\x01\x04")].concat()], not_due),
        (vec![greeting(NATIVE), message(2, b"\x01\x04")], not_due),
        (vec![greeting(NATIVE), message(2, b"\x03")], not_due),
        (vec![greeting(NATIVE), message(2, b"\xfename")], "cannot be read"),
        (vec![greeting(NATIVE), message(2, b"\xfemysql_native_password\0short\0")], "20 bytes"),
        (vec![greeting(CACHING), message(2, b"\x01\x04"), message(4, b"\x01no key")], "RSA key that cannot be read"),
        (vec![greeting(CACHING), message(2, b"\x01\x04"), ok(4)], "before the password was seen"),
    ];
    let scene = scene("mysql://app:secret@db?ssl_mode=disabled&allow_public_key_retrieval=on");
    for (flights, words) in table {
        let error = scene.error(&flights);
        assert!(error.starts_with("protocol broken") && error.contains(words), "{words}: {error}");
    }
    let hasty = scene.run(&[greeting(CACHING), [message(2, b"\x01\x04"), key(4)].concat()], Arrival::Whole);
    assert!(hasty.words.contains("before it was answered"), "{}", hasty.words);
}
