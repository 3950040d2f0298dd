//! Settings from every source, by table; and that no error gives a password away.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// The system's user in these tests.
fn system(variable: &str) -> Option<OsString> {
    (variable == "USER").then(|| "me".into())
}

fn read(text: &str) -> Result<Settings, SettingsError> {
    Settings::from_text(text, &system)
}

/// Says in one line what there is beside the defaults.
fn summary(settings: &Settings) -> String {
    let defaults = read("mysql://").unwrap();
    let password = match settings.password() {
        Some(password) => format!(":{}", String::from_utf8_lossy(password.as_bytes())),
        None => String::new(),
    };
    let hosts: Vec<String> = settings.hosts().iter().map(Host::to_string).collect();
    let database = settings.database().unwrap_or_default();
    let mut line = format!("{}{password}@{}/{database}", settings.user(), hosts.join(","));
    macro_rules! add_all {
        ($($name:ident),*) => {
            $(if settings.$name() != defaults.$name() {
                line.push_str(&format!(" {}={:?}", stringify!($name), settings.$name()));
            })*
        };
    }
    add_all!(
        program_name,
        connection_attributes,
        found_rows,
        connect_timeout,
        ssl_mode,
        ssl_ca,
        ssl_cert,
        ssl_key,
        allow_cleartext_password,
        allow_public_key_retrieval,
        server_public_key,
        pipeline,
        pool_size,
        max_pipeline,
        acquire_timeout,
        max_lifetime,
        idle_timeout,
        statement_cache_size,
        reply_bytes_max,
        unsent_bytes_max,
        waiters_max
    );
    if settings.auth_plugins != defaults.auth_plugins {
        line.push_str(&format!(" auth_plugins={:?}", settings.auth_plugins));
    }
    line
}

const D: &str = "me@localhost:3306/";

#[test]
fn texts_that_are_taken() {
    let table = [
        // empty parts
        ("mysql://", D),
        ("mariadb://", D),
        ("MySQL://", D),
        (" mysql://\n", D),
        ("mysql:///", D),
        ("mysql://?", D),
        ("mysql://@", D),
        ("mysql://:@:/", D),
        ("mysql:///?&&", D),
        // user, password, host, port, database
        ("mysql://app@", "app@localhost:3306/"),
        ("mysql://app@db/shop", "app@db:3306/shop"),
        ("mysql://app:@db:3307/shop", "app@db:3307/shop"),
        ("mysql://app:secret@db:3307/shop", "app:secret@db:3307/shop"),
        ("mysql://:secret@db", "me:secret@db:3306/"),
        ("mysql://db:/shop", "me@db:3306/shop"),
        ("mysql://a%40b:c%3Ad%2F%25@db/x%20y", "a@b:c:d/%@db:3306/x y"),
        ("mysql://a:b@c@db", "a:b@c@db:3306/"),
        ("mysql://a:b#c@db/d", "a:b#c@db:3306/d"),
        ("mysql://a:b+c@db/d", "a:b+c@db:3306/d"),
        ("mysql://jörg:pa%C3%9F@db/köln", "jörg:paß@db:3306/köln"),
        // IPv6, several hosts, sockets
        ("mysql://[::1]", "me@[::1]:3306/"),
        ("mysql://[fe80::1%25eth0]:1/x", "me@[fe80::1%eth0]:1/x"),
        ("mysql://a,b:2,[::1]:3/x", "me@a:3306,b:2,[::1]:3/x"),
        ("mysql://a,b/x?port=7", "me@a:7,b:7/x"),
        ("mysql://%2Frun%2Fmy.sock/x", "me@/run/my.sock/x"),
        ("mysql:///x?socket=/run/my.sock", "me@/run/my.sock/x"),
        ("mysql://app@localhost/x?socket=/run/my.sock", "app@/run/my.sock/x"),
        ("mysql:///x?host=/run/my.sock,other", "me@/run/my.sock,other:3306/x"),
        // parameters
        ("mysql://db?user=app&password=a%26b&database=x", "app:a&b@db:3306/x"),
        ("mysql://db/x?pool_size=4&pool_size=5", "me@db:3306/x pool_size=5"),
        ("mysql://db/x?pool-size=4", "me@db:3306/x pool_size=4"),
        ("mysql://db/x?charset=utf8mb4&characterEncoding=UTF-8", "me@db:3306/x"),
        ("mysql://db?connect_timeout=2&acquire_timeout=250ms", "me@db:3306/ connect_timeout=2s acquire_timeout=250ms"),
        (
            "mysql://db?pool_size=1000&max_pipeline=1&waiters_max=0",
            "me@db:3306/ pool_size=1000 max_pipeline=1 waiters_max=0",
        ),
        ("mysql://db?max_lifetime=1h&idle-timeout=90", "me@db:3306/ max_lifetime=3600s idle_timeout=90s"),
        ("mysql://db?max_lifetime=0&idle_timeout=0", "me@db:3306/ max_lifetime=0ns idle_timeout=0ns"),
        (
            "mysql://db?reply_bytes_max=1GB&unsent_bytes_max=8kB",
            "me@db:3306/ reply_bytes_max=1073741824 unsent_bytes_max=8192",
        ),
        ("mysql://db?statement_cache_size=0&pipeline=off", "me@db:3306/ pipeline=Off statement_cache_size=0"),
        ("mysql://db?pipeline=on&found_rows=on", "me@db:3306/ found_rows=true pipeline=On"),
        (
            "mysql://db?program_name=shop&connection_attributes=off",
            "me@db:3306/ program_name=Some(\"shop\") connection_attributes=false",
        ),
        (
            "mysql://db?allowPublicKeyRetrieval=true&allow_cleartext_password=1",
            "me@db:3306/ allow_cleartext_password=true allow_public_key_retrieval=true",
        ),
        ("mysql://db?server_public_key=/k.pem", "me@db:3306/ server_public_key=Some(\"/k.pem\")"),
        (
            "mysql://db?auth_plugins=mysql_native_password,%20sha256_password",
            "me@db:3306/ auth_plugins={Sha256Password, NativePassword}",
        ),
        // TLS
        ("mysql://db?ssl-mode=disabled", "me@db:3306/ ssl_mode=Disabled"),
        ("mysql://db?sslmode=REQUIRED", "me@db:3306/ ssl_mode=Required"),
        ("mysql://db?ssl_mode=preferred", "me@db:3306/"),
        ("mysql://db?sslMode=verify-identity", "me@db:3306/ ssl_mode=VerifyIdentity"),
        ("mysql://db?ssl_ca=/ca.pem", "me@db:3306/ ssl_mode=VerifyCa ssl_ca=Some(File(\"/ca.pem\"))"),
        (
            "mysql://db?ssl_ca=/ca.pem&ssl_mode=VERIFY_IDENTITY",
            "me@db:3306/ ssl_mode=VerifyIdentity ssl_ca=Some(File(\"/ca.pem\"))",
        ),
        ("mysql://db?ssl_ca=system", "me@db:3306/ ssl_mode=VerifyIdentity ssl_ca=Some(System)"),
        (
            "mysql://db?ssl-cert=/c.pem&ssl-key=/k.pem&ssl-mode=required",
            "me@db:3306/ ssl_mode=Required ssl_cert=Some(\"/c.pem\") ssl_key=Some(\"/k.pem\")",
        ),
    ];
    for (text, expected) in table {
        match read(text) {
            Ok(settings) => assert_eq!(summary(&settings), expected, "{text:?}"),
            Err(error) => panic!("{text:?}: {error}"),
        }
    }
}

#[test]
fn texts_that_are_refused() {
    let long_path = format!("mysql:///?socket=/{}", "d".repeat(107));
    let many_hosts = format!("mysql://{}", "a,".repeat(64));
    let long_user = format!("mysql://{}@db", "u".repeat(1_025));
    let table = [
        // no URL of ours
        ("localhost", None, "must start with mysql://"),
        ("postgres://db/x", None, "must start with mysql://"),
        ("user=app host=db", None, "must start with mysql://"),
        ("jdbc:mysql://db/x", None, "must start with mysql://"),
        // syntax
        ("mysql://a b@db", None, "white space"),
        ("mysql://a:%zz@db", Some("password"), "hexadecimal"),
        ("mysql://a:b%4@db", Some("password"), "hexadecimal"),
        ("mysql://a%@db", Some("user"), "hexadecimal"),
        ("mysql://a:%ff@db", Some("password"), "not UTF-8"),
        ("mysql://::1/x", Some("host"), "brackets"),
        ("mysql://[::1/x", Some("host"), "brackets"),
        ("mysql://[::1]3306/x", Some("host"), "brackets"),
        ("mysql://a:b/c@db/x", Some("database"), "%2F"),
        ("mysql://a:b/c", Some("port"), "1 to 65535"),
        ("mysql://a:1?c@db/x", None, "%3F"),
        ("mysql://db?user", None, "lacks its `=`"),
        ("mysql://db?%=1", None, "not escaped well"),
        ("mysql://a@tcp(db)/x", Some("host"), "neither a name"),
        // said twice
        ("mysql://db/x?host=evil", Some("host"), "twice"),
        ("mysql://db:1/x?port=2", Some("port"), "twice"),
        ("mysql://app@db/x?user=root", Some("user"), "twice"),
        ("mysql://app:a@db/x?password=b", Some("password"), "twice"),
        ("mysql://app@db/x?database=y", Some("database"), "twice"),
        ("mysql:///?socket=/a&socket=/b", Some("socket"), "twice"),
        ("mysql://db/x?socket=/run/my.sock", Some("socket"), "different places"),
        // hosts and ports
        ("mysql://db:0", Some("port"), "1 to 65535"),
        ("mysql://db:65536", Some("port"), "1 to 65535"),
        ("mysql://db:+1", Some("port"), "1 to 65535"),
        ("mysql://a,b,c?port=1,2", Some("port"), "as many"),
        ("mysql:///?socket=relative", Some("socket"), "absolute"),
        (long_path.as_str(), Some("socket"), "107"),
        (many_hosts.as_str(), Some("host"), "64"),
        // NUL, lengths
        ("mysql://a%00b@db", Some("user"), "NUL"),
        ("mysql://a:b%00c@db", Some("password"), "NUL"),
        ("mysql://db/a%00b", Some("database"), "NUL"),
        ("mysql://db?program_name=a%00b", Some("program_name"), "NUL"),
        ("mysql://a%00b", Some("host"), "NUL"),
        (long_user.as_str(), Some("user"), "1024"),
        // TLS
        ("mysql://db?ssl_mode=require", Some("ssl_mode"), "one of disabled"),
        ("mysql://db?ssl_mode=verify-ca", Some("ssl_mode"), "needs `ssl_ca`"),
        ("mysql://db?ssl_ca=/c&ssl_mode=required", Some("ssl_ca"), "no effect"),
        ("mysql://db?ssl_ca=/c&ssl_mode=preferred", Some("ssl_ca"), "no effect"),
        ("mysql://db?ssl_ca=system&ssl_mode=verify-ca", Some("ssl_ca"), "only safe with"),
        ("mysql://db?ssl_cert=/c", Some("ssl_cert"), "go together"),
        ("mysql://db?ssl_key=/c", Some("ssl_cert"), "go together"),
        ("mysql://db?ssl_cert=/c&ssl_key=/k&ssl_mode=disabled", Some("ssl_cert"), "no effect"),
        ("mysql:///?socket=/s&ssl_mode=verify-identity", Some("ssl_mode"), "Unix socket"),
        // values
        ("mysql://db?charset=latin1", Some("charset"), "utf8mb4"),
        ("mysql://db?charset=utf8", Some("charset"), "utf8mb4"),
        ("mysql://db?characterEncoding=cp1252", Some("charset"), "utf8mb4"),
        ("mysql://db?pipeline=yes", Some("pipeline"), "auto, on, off"),
        ("mysql://db?found_rows=maybe", Some("found_rows"), "on or off"),
        ("mysql://db?auth_plugins=dialog", Some("auth_plugins"), "unknown plugin"),
        ("mysql://db?pool_size=0", Some("pool_size"), "from 1 to 1000"),
        ("mysql://db?pool_size=many", Some("pool_size"), "whole number"),
        ("mysql://db?max_pipeline=4097", Some("max_pipeline"), "from 1 to 4096"),
        ("mysql://db?connect_timeout=0", Some("connect_timeout"), "from 1ms"),
        ("mysql://db?acquire_timeout=25h", Some("acquire_timeout"), "from 1ms to 24h"),
        ("mysql://db?statement_cache_size=65537", Some("statement_cache_size"), "from 0 to"),
        ("mysql://db?reply_bytes_max=2GB", Some("reply_bytes_max"), "from 1kB to 1GB"),
        ("mysql://db?max_lifetime=99ms", Some("max_lifetime"), "must be 0 (never), or from 100ms to 168h"),
        ("mysql://db?idle_timeout=169h", Some("idle_timeout"), "must be 0 (never), or from 100ms to 168h"),
        ("mysql://db?unsent_bytes_max=0", Some("unsent_bytes_max"), "from 8kB to 64MB"),
        ("mysql://db?waiters_max=1000001", Some("waiters_max"), "from 0 to 1000000"),
        // names
        ("mysql://db?pol_size=3", Some("pol_size"), "did you mean `pool_size`?"),
        ("mysql://db?useSSL=true", Some("useSSL"), "did you mean `ssl_mode`?"),
        ("mysql://db?multiStatements=true", Some("multiStatements"), "one statement"),
        ("mysql://db?allowLoadLocalInfile=true", Some("allowLoadLocalInfile"), "never sent"),
        ("mysql://db?frobnicate=1", Some("frobnicate"), "not a known parameter"),
    ];
    for (text, parameter, words) in table {
        match read(text) {
            Ok(settings) => panic!("{text:?} was taken: {}", summary(&settings)),
            Err(error) => {
                assert_eq!(error.parameter(), parameter, "{text:?}: {error}");
                assert!(error.to_string().contains(words), "{text:?}: {error}");
            }
        }
    }
}

#[test]
fn the_environment() {
    type Variables = &'static [(&'static str, &'static str)];
    let table: [(Variables, Result<&str, &str>); 19] = [
        (&[], Ok(D)),
        (&[("USER", ""), ("LOGNAME", "other")], Ok("other@localhost:3306/")),
        (&[("DATABASE_URL", "mysql://app@db/shop")], Ok("app@db:3306/shop")),
        (&[("MYSQL_URL", ""), ("DATABASE_URL", "mariadb://app@db/shop")], Ok("app@db:3306/shop")),
        (&[("MYSQL_URL", "mysql://app@db/shop"), ("DATABASE_URL", "postgres://no")], Ok("app@db:3306/shop")),
        (
            &[
                ("MYSQL_HOST", "db"),
                ("MYSQL_TCP_PORT", "3307"),
                ("MYSQL_USER", "app"),
                ("MYSQL_PWD", "secret"),
                ("MYSQL_DATABASE", "shop"),
            ],
            Ok("app:secret@db:3307/shop"),
        ),
        (&[("MYSQL_PASSWORD", "b")], Ok("me:b@localhost:3306/")),
        (&[("MYSQL_PWD", "a"), ("MYSQL_PASSWORD", "b")], Ok("me:a@localhost:3306/")),
        // the socket is where localhost is
        (&[("MYSQL_UNIX_PORT", "/s")], Ok("me@/s/")),
        (&[("MYSQL_UNIX_PORT", "/s"), ("MYSQL_HOST", "localhost")], Ok("me@/s/")),
        (&[("MYSQL_UNIX_PORT", "/s"), ("MYSQL_HOST", "db")], Ok("me@db:3306/")),
        (&[("MYSQL_UNIX_PORT", "/s"), ("MYSQL_URL", "mysql://app@localhost")], Ok("app@localhost:3306/")),
        (&[("MYSQL_UNIX_PORT", "/s"), ("MYSQL_URL", "mysql:///shop")], Ok("me@/s/shop")),
        // the URL's words stand; the others fill in
        (
            &[("MYSQL_URL", "mysql://db"), ("MYSQL_HOST", "no"), ("MYSQL_TCP_PORT", "7"), ("MYSQL_PWD", "x")],
            Ok("me:x@db:7/"),
        ),
        (&[("MYSQL_URL", "mysql:///?socket=/t"), ("MYSQL_HOST", "no"), ("MYSQL_UNIX_PORT", "/s")], Ok("me@/t/")),
        // refused, with the variable's name
        (&[("DATABASE_URL", "postgres://x")], Err("DATABASE_URL: a URL must start")),
        (&[("MYSQL_URL", "mysql://x?pool_size=0")], Err("`pool_size` must be")),
        (&[("MYSQL_TCP_PORT", "x")], Err("`port` must be")),
        (&[("USER", "")], Err("`user` is not set")),
    ];
    for (variables, expected) in table {
        let lookup = |name: &str| {
            let set = variables.iter().find(|(variable, _)| *variable == name);
            set.map(|(_, value)| value.into()).or_else(|| system(name))
        };
        match (Settings::from_variables(lookup), expected) {
            (Ok(settings), Ok(line)) => assert_eq!(summary(&settings), line, "{variables:?}"),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{variables:?}: {error}"),
            (result, expected) => panic!("{variables:?}: {result:?}, expected {expected:?}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let lookup = |name: &str| match name {
        "MYSQL_PWD" => Some(OsString::from_vec(vec![0xff])),
        name => system(name),
    };
    let error = Settings::from_variables(lookup).unwrap_err();
    assert_eq!(error.to_string(), "invalid settings: MYSQL_PWD: is not UTF-8");
}

#[test]
fn the_builder_meets_the_same_checks() {
    let build = |builder: SettingsBuilder| builder.build_with(&system);
    let base = || Settings::builder().host("db", 3307);
    let settings =
        build(base().unix_socket("/run/s").password("p").auth_plugins([AuthPlugin::NativePassword])).unwrap();
    assert_eq!(summary(&settings), "me:p@db:3307,/run/s/ auth_plugins={NativePassword}");
    assert!(settings.allows_auth(AuthPlugin::NativePassword) && !settings.allows_auth(AuthPlugin::ClearPassword));
    let refused = [
        (base().host("a", 0), "port"),
        (base().host("a@b", 1), "host"),
        (base().unix_socket("relative"), "socket"),
        (base().hosts(vec![Host::new("a", 1); 65]), "host"),
        (base().user("a\0b"), "user"),
        (base().password("a\0b"), "password"),
        (base().password("x".repeat(32_769)), "password"),
        (base().database("x".repeat(1_025)), "database"),
        (base().ssl_mode(SslMode::VerifyCa), "ssl_mode"),
        (base().ssl_ca(SslRoots::System).ssl_mode(SslMode::Required), "ssl_ca"),
        (base().auth_plugins([]), "auth_plugins"),
        (base().connect_timeout(Duration::ZERO), "connect_timeout"),
        (base().acquire_timeout(Duration::MAX), "acquire_timeout"),
        (base().pool_size(0), "pool_size"),
        (base().max_pipeline(0), "max_pipeline"),
        (base().statement_cache_size(usize::MAX), "statement_cache_size"),
        (base().reply_bytes_max(0), "reply_bytes_max"),
        (base().max_lifetime(Duration::MAX), "max_lifetime"),
        (base().idle_timeout(Duration::MAX), "idle_timeout"),
        (base().unsent_bytes_max(usize::MAX), "unsent_bytes_max"),
        (base().waiters_max(usize::MAX), "waiters_max"),
    ];
    for (builder, parameter) in refused {
        let error = build(builder).expect_err(parameter);
        assert_eq!(error.parameter(), Some(parameter), "{error}");
    }
}

#[test]
fn settings_survive_the_way_through_a_builder() {
    let settings = read(
        "mysql://a:b@c:1,d:2/e?pool_size=3&ssl_ca=/ca&ssl_cert=/c&ssl_key=/k&auth_plugins=sha256_password&found_rows=on\
         &program_name=p&connection_attributes=off&server_public_key=/s&allow_public_key_retrieval=on&pipeline=on",
    )
    .unwrap();
    assert_eq!(settings.to_builder().build_with(&system).unwrap(), settings);
    let other = settings.to_builder().hosts([]).host("x", 9).build_with(&system).unwrap();
    assert_eq!(other.hosts(), [Host::new("x", 9)]);
    assert_ne!(other, settings);
}

#[test]
fn equal_settings_are_one_pool() {
    let same = [
        "mysql://app:p@localhost/app",
        "mariadb://app:p@localhost:3306/app?pool_size=8",
        "mysql:///app?user=app&password=p&ssl-mode=preferred&acquire_timeout=5000ms",
    ];
    let different = [
        "mysql://app@localhost/app",
        "mysql://app:q@localhost/app",
        "mysql://app:p@localhost/other",
        "mysql://app:p@localhost/app?pool_size=7",
        "mysql://app:p@localhost/app?ssl_mode=required",
        "mysql://app:p@localhost/app?found_rows=on",
    ];
    let mut seen: HashSet<Settings> = same.iter().map(|text| read(text).unwrap()).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    for (index, text) in different.iter().enumerate() {
        assert!(seen.insert(read(text).unwrap()), "{text}");
        assert_eq!(seen.len(), index + 2);
    }
}

/// A password whose every part can be found again, joined by what must be escaped.
fn password() -> impl Strategy<Value = String> {
    let joint = prop::sample::select(vec![
        ":", "/", "?", "#", "@", "&", "=", " ", "%", "'", "\\", "[", "]", ",", "://", "=a&b=", "\0", "%4", "?user=",
        "12/", ":12/", ":12?", "&host=",
    ]);
    prop::collection::vec(joint, 1..5)
        .prop_map(|joints| joints.into_iter().fold("Zq7".to_owned(), |password, joint| password + joint + "Zq7"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Unescaped, at every place a careless program would put it.
    #[test]
    fn no_error_shows_any_part_of_a_password(password in password()) {
        let texts = [
            format!("mysql://app:{password}@db:3306/shop?pool_size=4"),
            format!("mysql://app:{password}@db/shop?ssl_mode=require"),
            format!("mysql://{password}@db/shop?poolsize=4"),
            format!("mysql:/app:{password}@db/shop?a=b"),
            format!("app:{password}@db/shop"),
            format!("postgres://app:{password}@db/shop"),
            format!("mysql://db/shop?user=app&password={password}&ssl_mode=x"),
        ];
        for text in texts {
            if let Err(error) = read(&text) {
                let shown = format!("{error} {error:?} {:?}", error.parameter());
                prop_assert!(!shown.contains("Zq7"), "{text:?}: {shown}");
            }
        }
    }

    #[test]
    fn settings_never_show_the_password(password in "[a-z/:@%&=? ]{1,20}Zq7") {
        let settings = Settings::builder().user("app").password(password.as_str()).build().unwrap();
        prop_assert_eq!(settings.password().unwrap().as_bytes(), password.as_bytes());
        let shown = format!("{settings:?} {settings:#?} {:?}", settings.to_builder());
        prop_assert!(!shown.contains("Zq7"), "{}", shown);
    }

    #[test]
    fn any_text_is_answered(text in any::<String>(), ours in "[a-z0-9:/@?&=%,' \\[\\]\\\\]{0,40}") {
        for text in [text.clone(), ours.clone(), format!("mysql://{text}"), format!("mysql://{ours}")] {
            let _ = read(&text);
        }
    }
}
