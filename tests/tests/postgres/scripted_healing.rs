//! What is known of a statement may not hold any more, in ways that are hard to provoke on a real server. The statement is
//! run again once, unseen by its caller; where that does not help, the error comes out, and there is no endless loop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cenote_postgres::types::Type;
use cenote_postgres::{Error, Pool};
use cenote_tests::must_end;
use cenote_tests::scripted::{Request, Server, answer, message, refuse};

/// A refusal that heals, and at which message a server says it.
#[derive(Clone)]
struct Refusal {
    name: &'static str,
    error: Vec<u8>,
    at: fn(&Request) -> bool,
}

fn at_bind(request: &Request) -> bool {
    matches!(request, Request::Bind { .. })
}

fn at_execute(request: &Request) -> bool {
    *request == Request::Execute
}

fn at_parse(request: &Request) -> bool {
    matches!(request, Request::Parse { .. })
}

fn changed_result(routine: &str) -> Vec<u8> {
    // In another language, so that nobody reads the text.
    message::report(
        b'E',
        &[
            (b'S', "FEHLER"),
            (b'V', "ERROR"),
            (b'C', "0A000"),
            (b'M', "gecachter Plan darf den Ergebnistyp nicht ändern"),
            (b'F', "plancache.c"),
            (b'R', routine),
        ],
    )
}

fn refusals() -> Vec<Refusal> {
    let error = |code, text| message::error("ERROR", code, text);
    vec![
        Refusal { name: "0A000 at Bind", error: changed_result("RevalidateCachedQuery"), at: at_bind },
        Refusal { name: "26000", error: error("26000", "prepared statement \"s1\" does not exist"), at: at_bind },
        Refusal { name: "42P05", error: error("42P05", "prepared statement \"s1\" already exists"), at: at_bind },
        Refusal { name: "XX000", error: error("XX000", "cache lookup failed for type 16384"), at: at_bind },
    ]
}

/// A server that refuses to run statements so many times, from the second run on: the first may prepare what it runs, and
/// what was prepared just now is not stale.
struct Refusing {
    server: Server,
    /// Units of work that were to run a statement.
    runs: Arc<AtomicUsize>,
    /// Texts that were prepared, in order.
    parsed: Arc<Mutex<Vec<String>>>,
}

fn refusing(refusal: &Refusal, times: usize) -> Refusing {
    let (runs, parsed) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<String>>>::default());
    let (refusal, counted, heard) = (refusal.clone(), Arc::clone(&runs), Arc::clone(&parsed));
    let server = Server::start(move |session| {
        loop {
            let requests = session.requests()?;
            let texts = requests.iter().filter_map(|request| match request {
                Request::Parse { sql, .. } => Some(sql.clone()),
                _ => None,
            });
            heard.lock().unwrap().extend(texts);
            let run = requests.contains(&Request::Execute);
            let refused = run && (1..=times).contains(&counted.fetch_add(1, Ordering::SeqCst));
            match refused {
                true => session.send(&refuse(&requests, &refusal.error, refusal.at))?,
                false => session.send(&answer(&requests))?,
            }
        }
    });
    Refusing { server, runs, parsed }
}

impl Refusing {
    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn parsed(&self) -> usize {
        self.parsed.lock().unwrap().len()
    }
}

/// The ways to run one statement that returns its parameter.
async fn run(pool: &Pool, verb: &str, value: i32) -> Result<i32, Error> {
    let sql = "select $1";
    match verb {
        "query_one" => pool.query_one(sql, &[&value]).await?.get(0),
        "query_typed" => {
            let rows = pool.query_typed(sql, &[(&value, Type::INT4)]).await?;
            rows.first().expect("one row").get(0)
        }
        "batch" => {
            let parameters: [&(dyn cenote_postgres::types::ToSql + Sync); 1] = [&value];
            let results = pool.batch().add(sql, &parameters).add(sql, &parameters).run().await?;
            assert_eq!(results.len(), 2);
            results[1].rows().first().expect("one row").get(0)
        }
        verb => unreachable!("no verb {verb}"),
    }
}

const VERBS: [&str; 3] = ["query_one", "query_typed", "batch"];

#[tokio::test]
async fn a_statement_that_is_refused_once_is_run_again_unseen() {
    for refusal in refusals() {
        for verb in VERBS {
            let name = format!("{} once, {verb}", refusal.name);
            let refusing = refusing(&refusal, 1);
            let pool = refusing.server.pool("pool_size=1");
            assert_eq!(must_end(&name, run(&pool, verb, 3)).await.expect(&name), 3, "{name}");
            assert_eq!(must_end(&name, run(&pool, verb, 4)).await.expect(&name), 4, "{name}");
            assert_eq!(refusing.runs() - 1, 2, "{name}: refused once, and once good");
            assert_eq!(must_end(&name, run(&pool, verb, 5)).await.expect(&name), 5, "{name}: healed for good");
            assert_eq!(refusing.runs() - 1, 3, "{name}");
            assert!(refusing.parsed() <= 3, "{name}: {:?}", refusing.parsed.lock().unwrap());
            assert_eq!(refusing.server.accepted(), 1, "{name}");
        }
    }
}

/// Once it has begun to run, nobody knows what stays of it, whatever it says.
#[tokio::test]
async fn a_statement_that_fails_while_it_runs_is_not_run_again() {
    let refusal = Refusal { name: "0A000", error: changed_result("RevalidateCachedQuery"), at: at_execute };
    for verb in VERBS {
        let refusing = refusing(&refusal, 1);
        let pool = refusing.server.pool("pool_size=1");
        must_end(verb, run(&pool, verb, 3)).await.expect(verb);
        let error = must_end(verb, run(&pool, verb, 4)).await.expect_err(verb);
        assert!(error.is_server(), "{verb}: {error}");
        assert_eq!(refusing.runs(), 2, "{verb}: once each");
        assert_eq!(must_end(verb, run(&pool, verb, 5)).await.expect(verb), 5);
    }
}

#[tokio::test]
async fn a_statement_that_is_refused_for_ever_is_run_again_once() {
    for refusal in refusals() {
        for verb in VERBS {
            let name = format!("{} for ever, {verb}", refusal.name);
            let refusing = refusing(&refusal, usize::MAX);
            let pool = refusing.server.pool("pool_size=1");
            must_end(&name, run(&pool, verb, 3)).await.expect(&name);
            for attempt in 1..=3 {
                let error = must_end(&name, run(&pool, verb, 3)).await.expect_err(&name);
                assert!(error.is_server(), "{name}: {error}");
                assert!(error.to_string().contains(&refusal.name[..5]), "{name}: {error}");
                let runs = refusing.runs() - 1;
                assert!(runs <= 2 * attempt, "{name}: {runs} runs in {attempt} attempts");
            }
            assert_eq!(pool.stats().in_flight(), 0, "{name}");
            assert_eq!(refusing.server.accepted(), 1, "{name}");
        }
    }
}

#[tokio::test]
async fn an_error_that_does_not_heal_comes_out_at_once() {
    let error = |code, text| message::error("ERROR", code, text);
    let refusals = [
        Refusal { name: "another 0A000", error: changed_result("transformWindowFuncCall"), at: at_bind },
        Refusal { name: "a 0A000 without routine", error: error("0A000", "not supported"), at: at_execute },
        Refusal { name: "22012", error: error("22012", "division by zero"), at: at_execute },
        Refusal { name: "another XX000", error: error("XX000", "unexpected chunk number"), at: at_execute },
        Refusal { name: "40001", error: error("40001", "could not serialize access"), at: at_execute },
    ];
    for refusal in refusals {
        for verb in ["query_one", "batch"] {
            let name = format!("{}, {verb}", refusal.name);
            let refusing = refusing(&refusal, 1);
            let pool = refusing.server.pool("pool_size=1");
            must_end(&name, run(&pool, verb, 3)).await.expect(&name);
            let error = must_end(&name, run(&pool, verb, 3)).await.expect_err(&name);
            assert!(error.is_server(), "{name}: {error}");
            assert_eq!(refusing.runs() - 1, 1, "{name}");
            assert_eq!(must_end(&name, run(&pool, verb, 4)).await.expect(&name), 4, "{name}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_cannot_prepare_what_another_has_learned_learns_it_anew() {
    for times in [1, usize::MAX] {
        // The first connection ends when it has described the statement; the second is to prepare it and to run it.
        let refused = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&refused);
        let server = Server::start(move |session| {
            if session.number == 0 {
                let description = answer(&session.requests()?);
                return session.send(&description);
            }
            loop {
                let requests = session.requests()?;
                let prepares_and_runs = requests.iter().any(at_parse) && requests.contains(&Request::Execute);
                let error = message::error("ERROR", "42P05", "prepared statement \"s1\" already exists");
                match prepares_and_runs && counted.fetch_add(1, Ordering::SeqCst) < times {
                    true => session.send(&refuse(&requests, &error, at_parse))?,
                    false => session.send(&answer(&requests))?,
                }
            }
        });
        let pool = server.pool("pool_size=1");
        // It may be that the first connection is found closed only when it is used.
        let mut result = must_end("the first try", run(&pool, "query_one", 3)).await;
        if result.as_ref().is_err_and(Error::is_network) {
            result = must_end("the second try", run(&pool, "query_one", 3)).await;
        }
        assert_eq!(result.expect("learned anew"), 3);
        assert_eq!(refused.load(Ordering::SeqCst).min(times), 1, "the second learning prepares it for good");
    }
}

#[tokio::test]
async fn fifty_in_flight_when_the_result_changes_are_all_run_again() {
    let refusal = &refusals()[0];
    let error = refusal.error.clone();
    let server = Server::start(move |session| {
        // One description and one run, as ever.
        for _ in 0..2 {
            let reply = answer(&session.requests()?);
            session.send(&reply)?;
        }
        // Then each use of the statement as it was described first is refused.
        loop {
            let requests = session.requests()?;
            let old = |request: &Request| matches!(request, Request::Bind { statement, .. } if statement == "s1");
            session.send(&refuse(&requests, &error, old))?;
        }
    });
    let pool = server.pool("pool_size=1");
    assert_eq!(must_end("the first use", run(&pool, "query_one", 1)).await.unwrap(), 1);
    let callers = (0..50).map(|value| {
        let pool = pool.clone();
        tokio::spawn(async move { (value, run(&pool, "query_one", value).await) })
    });
    for caller in callers.collect::<Vec<_>>() {
        let (value, result) = must_end("one of 50 callers", caller).await.expect("no panic");
        assert_eq!(result.unwrap_or_else(|error| panic!("{value}: {error}")), value);
    }
    assert_eq!(server.accepted(), 1);
}
