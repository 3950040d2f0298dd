//! Log-ins with servers that refuse, stall, lie or ask for what they must not have: each caller hears what is wrong, in
//! time, and nothing that is worth something is said to a server that has not earned it.

use std::io;
use std::sync::{Mutex, mpsc};

use cenote_mysql::{Error, ErrorCode, Pool};
use cenote_tests::must_end;
use cenote_tests::mysql::scripted::packet::{self, Greeting};
use cenote_tests::mysql::scripted::{LogIn, Request, Server, Session};
use futures_util::future::join_all;

async fn echo(pool: &Pool, value: i32) -> Result<i32, Error> {
    pool.query_one("select ?", &[&value]).await?.get(0)
}

type Script = fn(&mut Session) -> io::Result<()>;

/// The greeting's packet.
fn greeting(greeting: &Greeting) -> Vec<u8> {
    packet::packet(0, &greeting.payload())
}

/// Greets as most servers do. The number of the client's packet.
fn greet(session: &mut Session) -> io::Result<u8> {
    Ok(session.greet(&Greeting::default())?.1)
}

#[tokio::test]
async fn a_log_in_that_never_comes_to_be_is_told_when_the_patience_is_over() {
    let cases: [(&str, Script, &str); 14] = [
        ("closed right after accepting", |_| Ok(()), "closed|reset"),
        ("silent after accepting", |session| session.wait_for_close(), "no answer within 0.1 s"),
        (
            "silent after half a greeting",
            |session| {
                session.send(&greeting(&Greeting::default())[..30])?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        (
            "closed after half a greeting",
            |session| session.send(&greeting(&Greeting::default())[..30]),
            "closed the connection during log-in",
        ),
        (
            "silent after the greeting",
            |session| {
                greet(session)?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        (
            "closed after the greeting",
            |session| {
                greet(session)?;
                Ok(())
            },
            "closed the connection during log-in|reset",
        ),
        (
            "silent in the middle of authentication",
            |session| {
                let number = greet(session)?;
                session.send(&packet::next(number, &packet::fast_auth_ok()))?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        (
            "silent after a change of plugin",
            |session| {
                let number = greet(session)?;
                session.send(&packet::next(
                    number,
                    &packet::auth_switch("mysql_native_password", b"ABCDEFGHIJKLMNOPQRST"),
                ))?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        // Before it is given up it is tried without pipelining.
        (
            "silent after the user was let in",
            |session| {
                session.log_in()?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        (
            "an HTTP server",
            |session| {
                session.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")?;
                session.wait_for_close()
            },
            "is this a MySQL server?",
        ),
        (
            "an SSH server",
            |session| {
                session.send(b"SSH-2.0-OpenSSH_9.6\r\n")?;
                session.wait_for_close()
            },
            "is this a MySQL server?",
        ),
        (
            "a greeting of 16 MiB",
            |session| {
                session.send(&packet::lying(0, 0xFF_FFFF, b"\x0a8.4.0\0"))?;
                session.wait_for_close()
            },
            "is this a MySQL server?",
        ),
        (
            "too many connections",
            |session| session.send(&packet::packet(0, &packet::error_without_state(1040, "Too many connections"))),
            "ERROR 1040 (HY000): Too many connections",
        ),
        (
            "too many connections, with a state, under a number of its own",
            |session| session.send(&packet::packet(2, &packet::error(1040, "08004", "Too many connections"))),
            "ERROR 1040 (08004): Too many connections",
        ),
    ];
    for (name, script, words) in cases {
        let server = Server::start_raw(script);
        let pool = server.pool("pool_size=4&connect_timeout=100ms&acquire_timeout=500ms");
        for outcome in must_end(name, join_all((0..10).map(|value| echo(&pool, value)))).await {
            let error = outcome.expect_err(name);
            assert!(error.is_timeout() && error.was_sent() == Some(false), "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains("last connect error"), "{name}: {text}");
            assert!(words.split('|').any(|words| text.contains(words)), "{name}: {text}");
        }
        // Pauses of at least 25, 50, 100, 200 and 250 ms between them: no storm. One more was to see about pipelining.
        assert!((1..=9).contains(&server.accepted()), "{name}: {} connections in half a second", server.accepted());
        assert_eq!(pool.stats().connects, 0, "{name}");
    }
}

/// Of these everyone hears at once: each attempt more would only confirm the block.
#[tokio::test]
async fn a_host_that_is_blocked_is_told_at_once() {
    for error in [
        packet::error_without_state(1129, "Host '10.0.0.7' is blocked because of many connection errors"),
        packet::error(1129, "HY000", "Host '10.0.0.7' is blocked because of many connection errors"),
        packet::error_without_state(1130, "Host '10.0.0.7' is not allowed to connect to this MySQL server"),
    ] {
        let server = Server::start_raw(move |session| session.send(&packet::packet(0, &error)));
        let pool = server.pool("acquire_timeout=1h");
        for outcome in must_end("a blocked host", join_all((0..10).map(|value| echo(&pool, value)))).await {
            let error = outcome.expect_err("a blocked host");
            assert!(error.is_server() && error.to_string().contains("Host '10.0.0.7' is"), "{error}");
            assert!(matches!(error.code(), Some(ErrorCode::HOST_BLOCKED | ErrorCode::HOST_NOT_PRIVILEGED)), "{error}");
        }
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test]
async fn a_server_that_refuses_at_first_is_tried_again() {
    let server = Server::start_raw(|session| match session.number {
        0 => Ok(()),
        1 => session.send(&packet::packet(0, &packet::error_without_state(1040, "Too many connections"))),
        2 => {
            let number = greet(session)?;
            session.send(&packet::next(number, &packet::error(1053, "08S01", "Server shutdown in progress")))
        }
        _ => {
            session.log_in()?;
            session.serve()
        }
    });
    let pool = server.pool("pool_size=2");
    assert_eq!(must_end("a query at a server that starts", echo(&pool, 3)).await.unwrap(), 3);
    assert_eq!((pool.stats().connect_failures, pool.stats().connects), (3, 1));
}

/// What MariaDB calls itself in its time.
#[tokio::test]
async fn versions_of_every_kind_are_let_in() {
    let mariadb = packet::CAPABILITIES & !1;
    for (version, capabilities, plugin) in [
        ("5.5.5-10.11.6-MariaDB-1:10.11.6+maria~ubu2204", mariadb, "mysql_native_password"),
        ("11.4.2-MariaDB", mariadb, "mysql_native_password"),
        ("12.1.0-MariaDB-log", mariadb, "mysql_native_password"),
        ("5.5.5-10.6.0-MariaDB", packet::CAPABILITIES, "mysql_native_password"),
        ("8.0.36-28.1", packet::CAPABILITIES, "caching_sha2_password"),
        ("9.7.0", packet::CAPABILITIES, "caching_sha2_password"),
        ("", packet::CAPABILITIES, "caching_sha2_password"),
        ("8.0.11-TiDB-v8.5.0", packet::CAPABILITIES, "mysql_native_password"),
    ] {
        let server = Server::start_raw(move |session| {
            let greeting = Greeting {
                version: version.to_owned(),
                capabilities,
                plugin: plugin.to_owned(),
                mariadb_capabilities: if capabilities & 1 == 0 { !(1 << 4) } else { 0 },
                ..Greeting::default()
            };
            check_capabilities(&session.log_in_by(&greeting)?);
            session.serve()
        });
        let pool = server.pool("pool_size=1");
        let echoed = must_end(version, echo(&pool, 7)).await;
        assert_eq!(echoed.unwrap_or_else(|error| panic!("{version}: {error}")), 7);
    }
}

/// What no server is ever offered, whatever it can.
fn check_capabilities(log_in: &LogIn) {
    const LOCAL_FILES: u32 = 1 << 7;
    const MULTI_STATEMENTS: u32 = 1 << 16;
    const PROGRESS: u32 = 1;
    for capability in [LOCAL_FILES, MULTI_STATEMENTS, packet::COMPRESS] {
        assert_eq!(log_in.capabilities & capability, 0, "{:#x}", log_in.capabilities);
    }
    assert_eq!(log_in.mariadb_capabilities & PROGRESS, 0, "{:#x}", log_in.mariadb_capabilities);
}

/// Session state in an OK packet: this variable has this value now.
fn changed_variable(name: &str, value: &str) -> Vec<u8> {
    const SESSION_STATE_CHANGED: u16 = 0x4000;
    let variable = [packet::lenenc_bytes(name.as_bytes()), packet::lenenc_bytes(value.as_bytes())].concat();
    let state = [b"\0", packet::lenenc_bytes(&variable).as_slice()].concat();
    let rest = [packet::lenenc_bytes(b""), packet::lenenc_bytes(&state)].concat();
    packet::ok_with(0x00, 0, 0, packet::AUTOCOMMIT | SESSION_STATE_CHANGED, &rest)
}

#[tokio::test]
async fn a_server_that_speaks_another_encoding_is_refused() {
    for (variable, value, refused) in [
        ("character_set_client", "latin1", true),
        ("character_set_results", "utf8mb3", true),
        ("character_set_connection", "utf8mb4", false),
        ("sql_mode", "ANSI", false),
    ] {
        let server = Server::start(move |session| {
            session.serve_but(|request| match request {
                Request::Query { sql } if sql.starts_with("SET") => {
                    Some(packet::packets(&[changed_variable(variable, value)]))
                }
                _ => None,
            })
        });
        for pipeline in ["auto", "on", "off"] {
            let pool = server.pool(&format!("pool_size=1&acquire_timeout=300ms&pipeline={pipeline}"));
            let outcome = must_end(variable, echo(&pool, 7)).await;
            match refused {
                false => assert_eq!(outcome.unwrap_or_else(|error| panic!("{variable}: {error}")), 7),
                true => {
                    let text = outcome.expect_err(variable).to_string();
                    assert!(text.contains("utf8mb4"), "{variable}, {pipeline}: {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_session_begins_with_autocommit_or_not_at_all() {
    for (obeys, pipeline) in [(true, "auto"), (true, "off"), (false, "auto"), (false, "off")] {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let server = Server::start_raw(move |session| {
            let number = greet(session)?;
            let ok = packet::ok_with(0, 0, 0, 0, b"");
            session.send(
                &[packet::next(number, &packet::fast_auth_ok()), packet::next(number.wrapping_add(1), &ok)].concat(),
            )?;
            session.serve_but(|request| match request {
                Request::Query { sql } if sql.starts_with("SET") => {
                    tell.lock().expect("nobody panics with it").send(sql.clone()).expect("the test goes on");
                    None
                }
                Request::Query { sql } if sql.contains("@@") && !obeys => {
                    // The same result with another status at its end.
                    let columns = [packet::column("a", packet::VAR_STRING), packet::column("b", packet::VAR_STRING)];
                    let row = packet::text_row(&[Some(b"67108864"), Some(b"28800")]);
                    let end = packet::ok_with(0xFE, 0, 0, 0, b"");
                    let [a, b] = columns;
                    Some(packet::packets(&[packet::column_count(2), a, b, row, end]))
                }
                _ => None,
            })
        });
        let pool = server.pool(&format!("pool_size=1&acquire_timeout=300ms&pipeline={pipeline}"));
        let outcome = must_end("autocommit", echo(&pool, 7)).await;
        let sql = told.recv().expect("it was set");
        assert!(sql.contains("autocommit = 1") && sql.contains("utf8mb4"), "{sql}");
        match obeys {
            true => assert_eq!(outcome.unwrap(), 7),
            false => {
                let text = outcome.expect_err("no autocommit").to_string();
                assert!(text.contains("autocommit") || text.contains("does not pipeline"), "{pipeline}: {text}");
            }
        }
    }
}
