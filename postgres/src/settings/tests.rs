//! Settings from every source, by table; and that no error gives a password away.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use cenote_pool::TlsVersion;
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
    let defaults = read("").unwrap();
    let password = match settings.password() {
        Some(password) => format!(":{}", String::from_utf8_lossy(password.as_bytes())),
        None => String::new(),
    };
    let hosts: Vec<String> = settings
        .hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp { address: Some(address), .. } => format!("{host}={address}"),
            host => host.to_string(),
        })
        .collect();
    let mut line = format!("{}{password}@{}/{}", settings.user(), hosts.join(","), settings.dbname());
    let mut add = |name: &str, value: String, default: String| {
        if value != default {
            line.push_str(&format!(" {name}={value}"));
        }
    };
    macro_rules! add_all {
        ($($name:ident),*) => {
            $(add(stringify!($name), format!("{:?}", settings.$name()), format!("{:?}", defaults.$name()));)*
        };
    }
    add_all!(
        application_name,
        options,
        connect_timeout,
        ssl_mode,
        channel_binding,
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
    add("require_auth", format!("{:?}", settings.auth_methods), format!("{:?}", defaults.auth_methods));
    line
}

const D: &str = "me@localhost:5432/me";

#[test]
fn texts_that_are_taken() {
    let table = [
        // URLs: empty parts
        ("postgres://", D),
        ("postgresql://", D),
        ("POSTGRES://", D),
        (" postgres://\n", D),
        ("postgres:///", D),
        ("postgres://?", D),
        ("postgres://@", D),
        ("postgres://:@:/", D),
        ("postgres:///?&&", D),
        // URLs: user, password, host, port, database
        ("postgres://app@", "app@localhost:5432/app"),
        ("postgres://app@db/shop", "app@db:5432/shop"),
        ("postgres://app:@db:5433/shop", "app@db:5433/shop"),
        ("postgres://app:secret@db:5433/shop", "app:secret@db:5433/shop"),
        ("postgres://:secret@db", "me:secret@db:5432/me"),
        ("postgres://db:/shop", "me@db:5432/shop"),
        ("postgres:///shop", "me@localhost:5432/shop"),
        ("postgres://127.0.0.1:1", "me@127.0.0.1:1/me"),
        ("postgres://a%40b:c%3Ad%2F%25@db/x%20y", "a@b:c:d/%@db:5432/x y"),
        ("postgres://a:b@c@db", "a:b@c@db:5432/a"),
        ("postgres://a:b#c@db/d", "a:b#c@db:5432/d"),
        ("postgres://a:b:c@db/d", "a:b:c@db:5432/d"),
        ("postgres://j%C3%B6rg@db", "jörg@db:5432/jörg"),
        ("postgres://jörg:paß@db/köln", "jörg:paß@db:5432/köln"),
        // URLs: IPv6, several hosts, sockets
        ("postgres://[::1]", "me@[::1]:5432/me"),
        ("postgres://[::1]:5433/shop", "me@[::1]:5433/shop"),
        ("postgres://[fe80::1%25eth0]:1/x", "me@[fe80::1%eth0]:1/x"),
        ("postgres://[::ffff:1.2.3.4]/x", "me@[::ffff:1.2.3.4]:5432/x"),
        ("postgres://a,b:2,[::1]:3/x", "me@a:5432,b:2,[::1]:3/x"),
        ("postgres://,b/x", "me@localhost:5432,b:5432/x"),
        ("postgres://a,b/x?port=7", "me@a:7,b:7/x"),
        ("postgres://%2Frun%2Fpg/x", "me@/run/pg/.s.PGSQL.5432/x"),
        ("postgres://%2Frun%2Fpg:5433/x", "me@/run/pg/.s.PGSQL.5433/x"),
        ("postgres:///x?host=/run/pg", "me@/run/pg/.s.PGSQL.5432/x"),
        ("postgres:///x?host=/run/pg&port=5433", "me@/run/pg/.s.PGSQL.5433/x"),
        ("postgres://db/x?host=/run/pg,other", "me@/run/pg/.s.PGSQL.5432,other:5432/x"),
        // URLs: query
        ("postgres://db?user=app&password=a%26b&dbname=x", "app:a&b@db:5432/x"),
        ("postgres://db?user=app@corp", "app@corp@db:5432/app@corp"),
        ("postgres://db/x?pool_size=4&pool_size=5", "me@db:5432/x pool_size=5"),
        ("postgres://db/x?pool%5Fsize=4", "me@db:5432/x pool_size=4"),
        ("postgres://db/x?options=-c%20a%3Db", "me@db:5432/x options=Some(\"-c a=b\")"),
        ("postgres://db/x?options=-c%20a=b+c", "me@db:5432/x options=Some(\"-c a=b+c\")"),
        ("postgres://db/x?ssl=false", "me@db:5432/x ssl_mode=Disable"),
        ("postgres://db/x?ssl=true", "me@db:5432/x ssl_mode=Require"),
        ("postgres://db/x?sslmode=verify-full&ssl=true", "me@db:5432/x ssl_mode=VerifyFull"),
        ("postgres://db/x?sslmode=prefer", "me@db:5432/x"),
        ("postgres://db/x?sslmode=verify-ca&sslrootcert=/ca.pem", "me@db:5432/x ssl_mode=VerifyCa"),
        ("postgres://db/x?sslrootcert=system", "me@db:5432/x ssl_mode=VerifyFull"),
        ("postgres://db/x?sslnegotiation=direct&sslmode=require", "me@db:5432/x ssl_mode=Require"),
        ("postgres://db/x?sslcert=&sslkey=&sslcertmode=allow&sslcompression=0&sslsni=1", "me@db:5432/x"),
        ("postgres://db/x?channel_binding=require", "me@db:5432/x channel_binding=Require"),
        // keyword strings
        ("", D),
        ("  \t\n", D),
        ("host=db user=app dbname=shop", "app@db:5432/shop"),
        ("host = db  user\t=\napp", "app@db:5432/app"),
        ("host=''", D),
        ("user='two words'password='x'", "two words:x@localhost:5432/two words"),
        (r"user=two\ words", "two words@localhost:5432/two words"),
        (r"password='it\'s \\ mine'", r"me:it's \ mine@localhost:5432/me"),
        (r"password=it's", "me:it's@localhost:5432/me"),
        (r"password=end\", "me:end@localhost:5432/me"),
        ("password= user=x", "me:user=x@localhost:5432/me"),
        ("password=a=b", "me:a=b@localhost:5432/me"),
        ("user=a user=b", "b@localhost:5432/b"),
        ("user=a user=''", "a@localhost:5432/a"),
        ("host=a,b,c port=1,,3", "me@a:1,b:5432,c:3/me"),
        ("host=a,b port=9", "me@a:9,b:9/me"),
        ("host=/run/pg port=5433", "me@/run/pg/.s.PGSQL.5433/me"),
        ("hostaddr=::1", "me@[::1]:5432=::1/me"),
        ("host=a,b hostaddr=1.2.3.4,", "me@a:5432=1.2.3.4,b:5432/me"),
        (
            "application_name=shop options='-c a=b'",
            "me@localhost:5432/me application_name=Some(\"shop\") options=Some(\"-c a=b\")",
        ),
        ("connect_timeout=2 acquire_timeout=250ms", "me@localhost:5432/me connect_timeout=2s acquire_timeout=250ms"),
        (
            "pool_size=1000 max_pipeline=1 waiters_max=0",
            "me@localhost:5432/me pool_size=1000 max_pipeline=1 waiters_max=0",
        ),
        ("statement_cache_size=0", "me@localhost:5432/me statement_cache_size=0"),
        ("max_lifetime=1h idle_timeout=90", "me@localhost:5432/me max_lifetime=3600s idle_timeout=90s"),
        ("max_lifetime=0 idle_timeout=0", "me@localhost:5432/me max_lifetime=0ns idle_timeout=0ns"),
        (
            "reply_bytes_max=1GB unsent_bytes_max=8kB",
            "me@localhost:5432/me reply_bytes_max=1073741824 unsent_bytes_max=8192",
        ),
        ("sslmode=allow channel_binding=prefer gssencmode=prefer", "me@localhost:5432/me ssl_mode=Allow"),
        ("sslnegotiation=postgres target_session_attrs=any load_balance_hosts=disable client_encoding=utf-8", D),
        ("require_auth=scram-sha-256,gss", "me@localhost:5432/me require_auth={ScramSha256}"),
        ("require_auth=!password,!none", "me@localhost:5432/me require_auth={Md5, ScramSha256}"),
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
    let long_directory = format!("host=/{}", "d".repeat(100));
    let many_hosts = format!("host={}", "a,".repeat(64));
    let table = [
        // no form at all
        ("localhost", None, "without `=`"),
        ("host=db app", None, "without `=`"),
        ("mysql://db/x", None, "must start with postgres://"),
        ("jdbc:postgresql://db/x", None, "must start with postgres://"),
        ("password='open", None, "closing quote"),
        (r"password='open\'", None, "closing quote"),
        ("=x", None, "not known"),
        // URL syntax
        ("postgres://a b@db", None, "white space"),
        ("postgres://a:%zz@db", Some("password"), "hexadecimal"),
        ("postgres://a:b%4@db", Some("password"), "hexadecimal"),
        ("postgres://a%@db", Some("user"), "hexadecimal"),
        ("postgres://a:%ff@db", Some("password"), "not UTF-8"),
        ("postgres://::1/x", Some("host"), "brackets"),
        ("postgres://[::1/x", Some("host"), "brackets"),
        ("postgres://[]/x", Some("host"), "brackets"),
        ("postgres://[::1]5432/x", Some("host"), "brackets"),
        ("postgres://[db]/x", Some("host"), "brackets"),
        ("postgres://a:b/c@db/x", Some("dbname"), "%2F"),
        ("postgres://a:b/c", Some("port"), "1 to 65535"),
        ("postgres://a:1/c@db/x", Some("dbname"), "%2F"),
        ("postgres://a:1?c@db/x", None, "%3F"),
        ("postgres://db?user", None, "lacks its `=`"),
        ("postgres://db?%=1", None, "not escaped well"),
        ("postgres://db?options=%", Some("options"), "hexadecimal"),
        // hosts and ports
        ("port=x", Some("port"), "1 to 65535"),
        ("port=0", Some("port"), "1 to 65535"),
        ("port=65536", Some("port"), "1 to 65535"),
        ("port=+1", Some("port"), "1 to 65535"),
        ("port=1,2", Some("port"), "as many"),
        ("host=a,b,c port=1,2", Some("port"), "as many"),
        ("host=a,b hostaddr=1.2.3.4", Some("hostaddr"), "as many"),
        ("hostaddr=db", Some("hostaddr"), "IPv4 or IPv6"),
        ("host=/run hostaddr=1.2.3.4", Some("hostaddr"), "socket directory"),
        ("host=@abstract", Some("host"), "abstract"),
        ("host='a b'", Some("host"), "neither a name"),
        ("host=user:x@db", Some("host"), "neither a name"),
        (long_directory.as_str(), Some("host"), "107"),
        (many_hosts.as_str(), Some("host"), "64"),
        // NUL
        ("user=x\0user\0admin", Some("user"), "NUL"),
        ("password=x\0y", Some("password"), "NUL"),
        ("dbname=x\0y", Some("dbname"), "NUL"),
        ("application_name=x\0y", Some("application_name"), "NUL"),
        ("options=x\0y", Some("options"), "NUL"),
        ("host=x\0y", Some("host"), "NUL"),
        ("host=/x\0y", Some("host"), "NUL"),
        ("postgres://a%00b@db", Some("user"), "NUL"),
        // TLS
        ("sslmode=verify-ca", Some("sslmode"), "`sslrootcert` must name its file"),
        ("sslmode=require sslrootcert=system", Some("sslmode"), "verify-full"),
        ("sslmode=verify-ca sslrootcert=system", Some("sslmode"), "verify-full"),
        ("sslmode=requird", Some("sslmode"), "one of disable"),
        ("sslmode=Disable", Some("sslmode"), "one of disable"),
        ("ssl=1", Some("ssl"), "true or false"),
        ("sslcert=a.pem", Some("sslcert"), "`sslkey` beside it"),
        ("sslkey=a.pem", Some("sslkey"), "`sslcert` beside it"),
        ("sslsni=yes", Some("sslsni"), "0 or 1"),
        ("sslcrl=a.pem", Some("sslcrl"), "no revocation list"),
        ("sslpassword=a", Some("sslpassword"), "must not be encrypted"),
        ("sslcertmode=require", Some("sslcertmode"), "not supported"),
        ("sslcompression=1", Some("sslcompression"), "not supported"),
        ("ssl_min_protocol_version=SSLv3", Some("ssl_min_protocol_version"), "TLSv1.2 or"),
        ("ssl_max_protocol_version=TLSv1.1", Some("ssl_max_protocol_version"), "nothing older"),
        (
            "ssl_max_protocol_version=TLSv1.2 ssl_min_protocol_version=TLSv1.3",
            Some("ssl_min_protocol_version"),
            "newer",
        ),
        ("sslnegotiation=direct", Some("sslnegotiation"), "begins with TLS"),
        ("sslnegotiation=direct sslmode=prefer", Some("sslnegotiation"), "begins with TLS"),
        ("sslnegotiation=x", Some("sslnegotiation"), "one of"),
        ("channel_binding=require sslmode=disable", Some("channel_binding"), "rules out"),
        ("channel_binding=x", Some("channel_binding"), "one of"),
        // not there
        ("gssencmode=require", Some("gssencmode"), "GSSAPI"),
        ("target_session_attrs=primary", Some("target_session_attrs"), "not supported yet"),
        ("target_session_attrs=x", Some("target_session_attrs"), "one of"),
        ("load_balance_hosts=random", Some("load_balance_hosts"), "not supported yet"),
        ("client_encoding=LATIN1", Some("client_encoding"), "UTF8"),
        ("read_only=true", Some("read_only"), "later version"),
        ("service=x", Some("service"), "not supported"),
        ("keepalives=1", Some("keepalives"), "not supported yet"),
        ("require_auth=md4", Some("require_auth"), "unknown method"),
        ("require_auth=md5,!password", Some("require_auth"), "either"),
        ("require_auth=gss", Some("require_auth"), "no method"),
        // ranges
        ("pool_size=0", Some("pool_size"), "from 1 to 1000"),
        ("pool_size=1001", Some("pool_size"), "from 1 to 1000"),
        ("pool_size=many", Some("pool_size"), "whole number"),
        ("max_pipeline=0", Some("max_pipeline"), "from 1 to 4096"),
        ("max_pipeline=4097", Some("max_pipeline"), "from 1 to 4096"),
        ("connect_timeout=0", Some("connect_timeout"), "from 1ms"),
        ("connect_timeout=-1", Some("connect_timeout"), "duration"),
        ("acquire_timeout=25h", Some("acquire_timeout"), "from 1ms to 24h"),
        ("statement_cache_size=65537", Some("statement_cache_size"), "from 0 to"),
        ("reply_bytes_max=1", Some("reply_bytes_max"), "from 1kB to 1GB"),
        ("reply_bytes_max=2GB", Some("reply_bytes_max"), "from 1kB to 1GB"),
        ("max_lifetime=99ms", Some("max_lifetime"), "must be 0 (never), or from 100ms to 168h"),
        ("idle_timeout=169h", Some("idle_timeout"), "must be 0 (never), or from 100ms to 168h"),
        ("unsent_bytes_max=0", Some("unsent_bytes_max"), "from 8kB to 64MB"),
        ("waiters_max=1000001", Some("waiters_max"), "from 0 to 1000000"),
        // names
        ("pol_size=3", Some("pol_size"), "did you mean `pool_size`?"),
        ("postgres://db?databse=3", Some("databse"), "did you mean `dbname`?"),
        ("search_path=app", Some("search_path"), "`options`"),
        ("Host=db", Some("Host"), "did you mean `host`?"),
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
    let table: [(Variables, Result<&str, &str>); 21] = [
        (&[], Ok(D)),
        (&[("USER", ""), ("LOGNAME", "other")], Ok("other@localhost:5432/other")),
        (&[("DATABASE_URL", "")], Ok(D)),
        (&[("DATABASE_URL", "postgres://app@db/shop")], Ok("app@db:5432/shop")),
        (&[("DATABASE_URL", "host=db user=app")], Ok("app@db:5432/app")),
        (
            &[
                ("PGHOST", "a,b"),
                ("PGPORT", "1,2"),
                ("PGUSER", "app"),
                ("PGPASSWORD", "secret"),
                ("PGDATABASE", "shop"),
            ],
            Ok("app:secret@a:1,b:2/shop"),
        ),
        (
            &[("PGAPPNAME", "n"), ("PGOPTIONS", "-c a=b"), ("PGCONNECT_TIMEOUT", "3")],
            Ok("me@localhost:5432/me application_name=Some(\"n\") options=Some(\"-c a=b\") connect_timeout=3s"),
        ),
        (&[("PGHOSTADDR", "1.2.3.4"), ("PGHOST", "db")], Ok("me@db:5432=1.2.3.4/me")),
        (&[("PGSSLMODE", "prefer"), ("PGREQUIREAUTH", "md5")], Ok("me@localhost:5432/me require_auth={Md5}")),
        // the URL's words stand; the others fill in
        (
            &[
                ("DATABASE_URL", "postgres://db"),
                ("PGHOST", "no"),
                ("PGHOSTADDR", "1.2.3.4"),
                ("PGPORT", "7"),
                ("PGPASSWORD", "x"),
            ],
            Ok("me:x@db:7/me"),
        ),
        (
            &[("DATABASE_URL", "postgres://db:1/x?sslmode=prefer"), ("PGSSLMODE", "require"), ("PGPORT", "y")],
            Ok("me@db:1/x"),
        ),
        (&[("DATABASE_URL", "postgres://db/x?sslmode=prefer"), ("PGREQUIRESSL", "1")], Ok("me@db:5432/x")),
        (
            &[("DATABASE_URL", "postgres://db/x?ssl=true"), ("PGSSLMODE", "disable")],
            Ok("me@db:5432/x ssl_mode=Require"),
        ),
        (&[("PGREQUIRESSL", "1")], Ok("me@localhost:5432/me ssl_mode=Require")),
        (&[("PGSSLMODE", "require")], Ok("me@localhost:5432/me ssl_mode=Require")),
        // refused, with the variable's name
        (&[("PGSSLMODE", "x")], Err("PGSSLMODE: `sslmode` must be one of")),
        (&[("PGSSLCRL", "x")], Err("PGSSLCRL: `sslcrl` is not supported")),
        (&[("PGSERVICE", "x")], Err("PGSERVICE: `service` is not supported")),
        (&[("PGCONNECT_TIMEOUT", "soon")], Err("PGCONNECT_TIMEOUT: `connect_timeout` must be a duration")),
        (&[("DATABASE_URL", "mysql://x")], Err("DATABASE_URL: a URL must start")),
        (&[("USER", "")], Err("`user` is not set")),
    ];
    for (variables, expected) in table {
        let lookup = |name: &str| {
            let set = variables.iter().find(|(variable, _)| *variable == name);
            set.map(|(_, value)| value.into()).or_else(|| system(name))
        };
        match (Settings::from_variables(lookup), expected) {
            (Ok(settings), Ok(line)) => assert_eq!(summary(&settings), line, "{variables:?}"),
            (Err(error), Err(words)) => {
                assert!(error.to_string().contains(words), "{variables:?}: {error}");
            }
            (result, expected) => panic!("{variables:?}: {result:?}, expected {expected:?}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let lookup = |name: &str| match name {
        "PGPASSWORD" => Some(OsString::from_vec(vec![0xff])),
        name => system(name),
    };
    let error = Settings::from_variables(lookup).unwrap_err();
    assert_eq!(error.to_string(), "invalid settings: PGPASSWORD: is not UTF-8");
}

#[test]
fn the_builder_meets_the_same_checks() {
    let build = |builder: SettingsBuilder| builder.build_with(&system);
    let base = || Settings::builder().host("db", 5433);
    let settings = build(base().unix_socket("/run/pg", 1).password("p").require_auth([AuthMethod::Md5])).unwrap();
    assert_eq!(summary(&settings), "me:p@db:5433,/run/pg/.s.PGSQL.1/me require_auth={Md5}");
    assert!(settings.allows_auth(AuthMethod::Md5) && !settings.allows_auth(AuthMethod::Password));
    let refused = [
        (base().host("a", 0), "port"),
        (base().host("a@b", 1), "host"),
        (base().unix_socket("relative", 1), "host"),
        (base().hosts(vec![Host::new("a", 1); 65]), "host"),
        (base().user("a\0b"), "user"),
        (base().password("a\0b"), "password"),
        (base().password("x".repeat(65_536)), "password"),
        (base().ssl_mode(SslMode::VerifyCa), "sslmode"),
        (base().ssl_negotiation(SslNegotiation::Direct), "sslnegotiation"),
        (base().ssl_mode(SslMode::Disable).channel_binding(ChannelBinding::Require), "channel_binding"),
        (base().ssl_cert("a\0b", "c"), "sslcert"),
        (base().ssl_cert("a", "b\0c"), "sslkey"),
        (base().ssl_cert("a", ""), "sslcert"),
        (base().ssl_root_cert(SslRootCert::File("a\0b".into())), "sslrootcert"),
        (
            base().ssl_max_protocol_version(TlsVersion::V1_2).ssl_min_protocol_version(TlsVersion::V1_3),
            "ssl_min_protocol_version",
        ),
        (base().require_auth([]), "require_auth"),
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
    let settings = read("postgres://a:b@c:1,d:2/e?pool_size=3&sslmode=allow&require_auth=md5&options=f").unwrap();
    assert_eq!(settings.to_builder().build_with(&system).unwrap(), settings);
    let other = settings.to_builder().hosts([]).host("x", 9).build_with(&system).unwrap();
    assert_eq!(other.hosts(), [Host::new("x", 9)]);
    assert_ne!(other, settings);
}

#[test]
fn equal_settings_are_one_pool() {
    let same = [
        "postgres://app:p@localhost/app",
        "postgresql://app:p@localhost:5432/app?pool_size=8",
        "user=app password=p",
        "user='app' password=p host=localhost sslmode=prefer acquire_timeout=5000ms",
    ];
    let different = [
        "user=app",
        "user=app password=q",
        "user=app password=p dbname=other",
        "user=app password=p pool_size=7",
        "user=app password=p application_name=x",
        "user=app password=p require_auth=md5",
        "user=app password=p sslmode=require",
        "user=app password=p sslsni=0",
    ];
    let mut seen: HashSet<Settings> = same.iter().map(|text| read(text).unwrap()).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    for (index, text) in different.iter().enumerate() {
        assert!(seen.insert(read(text).unwrap()), "{text}");
        assert_eq!(seen.len(), index + 2);
    }
}

/// A password whose every part can be found again, joined by what must be escaped or quoted.
fn password() -> impl Strategy<Value = String> {
    let joint = prop::sample::select(vec![
        ":", "/", "?", "#", "@", "&", "=", " ", "%", "'", "\\", "[", "]", ",", "://", "=a&b=", "\0", "%4", " user=",
        "?user=", "12/", ":12/", ":12?",
    ]);
    prop::collection::vec(joint, 1..5).prop_map(|joints| {
        let mut password = "Zq7".to_owned();
        for joint in joints {
            password.push_str(joint);
            password.push_str("Zq7");
        }
        password
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Unescaped and unquoted, at every place a careless program would put it.
    #[test]
    fn no_error_shows_any_part_of_a_password(password in password()) {
        let texts = [
            format!("postgres://app:{password}@db:5432/shop?pool_size=4"),
            format!("postgres://app:{password}@db/shop?sslmode=verify-ca"),
            format!("postgres://{password}@db/shop?poolsize=4"),
            format!("postgres:/app:{password}@db/shop?a=b"),
            format!("app:{password}@db/shop"),
            format!("mysql://app:{password}@db/shop"),
            format!("postgres://db/shop?user=app&password={password}&sslmode=x"),
            format!("user=app password={password} sslmode=verify-ca host=db"),
            format!("user=app password='{password}' sslmode=verify-ca host=db"),
            format!("password = {password} pool_size=x"),
            format!("password '{password}'"),
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
        let settings = Settings::builder().user("app").password(password.as_str()).build();
        let settings = settings.unwrap();
        prop_assert_eq!(settings.password().unwrap().as_bytes(), password.as_bytes());
        let shown = format!("{settings:?} {settings:#?} {:?}", settings.to_builder());
        prop_assert!(!shown.contains("Zq7"), "{}", shown);
    }

    #[test]
    fn any_text_is_answered(text in any::<String>(), ours in "[a-z0-9:/@?&=%,' \\[\\]\\\\]{0,40}") {
        for text in [text.clone(), ours.clone(), format!("postgres://{text}"), format!("postgres://{ours}"), format!("host={ours}")] {
            let _ = read(&text);
        }
    }
}
