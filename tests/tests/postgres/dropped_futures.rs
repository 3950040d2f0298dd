//! A caller may vanish at any await: the connection stays in step, and those who share it notice nothing.

use cenote_postgres::types::{ToSql, Type};
use cenote_postgres::{Error, Pool};
use cenote_tests::{Dropped, drop_after_polls, must_end, open, settings, wait_until};
use futures_util::future::join_all;

const POLLS_MAX: usize = 20;

/// The verbs whose futures are dropped.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Query,
    QueryOne,
    QueryOpt,
    QueryAs,
    QueryTyped,
    Execute,
    Batch,
    FirstQuery,
    FirstQueryTyped,
    FirstBatch,
    Failing,
    FailingBatch,
}

const VERBS: [Verb; 12] = [
    Verb::Query,
    Verb::QueryOne,
    Verb::QueryOpt,
    Verb::QueryAs,
    Verb::QueryTyped,
    Verb::Execute,
    Verb::Batch,
    Verb::FirstQuery,
    Verb::FirstQueryTyped,
    Verb::FirstBatch,
    Verb::Failing,
    Verb::FailingBatch,
];

const KNOWN: &str = "select $1::int4 as known";

/// Runs a verb; its answer is `token`, unless the verb is one that fails.
async fn run(pool: &Pool, verb: Verb, token: i32) -> Result<i32, Error> {
    let parameters: &[&(dyn ToSql + Sync)] = &[&token];
    let typed: &[(&(dyn ToSql + Sync), Type)] = &[(&token, Type::INT4)];
    let fresh = format!("select $1::int4 as fresh_{token}_{}", fastrand::u64(..));
    match verb {
        Verb::Query => pool.query(KNOWN, parameters).await?[0].get(0),
        Verb::QueryOne => pool.query_one(KNOWN, parameters).await?.get(0),
        Verb::QueryOpt => pool.query_opt(KNOWN, parameters).await?.expect("a row").get(0),
        Verb::QueryAs => Ok(pool.query_as::<(i32,)>(KNOWN, parameters).await?[0].0),
        Verb::QueryTyped => pool.query_typed(KNOWN, typed).await?[0].get(0),
        Verb::Execute => pool.execute(KNOWN, parameters).await.map(|count| token + count as i32 - 1),
        Verb::Batch => pool.batch().add(KNOWN, &[&0]).add(KNOWN, parameters).run().await?[1].rows()[0].get(0),
        Verb::FirstQuery => pool.query(&fresh, parameters).await?[0].get(0),
        Verb::FirstQueryTyped => pool.query_typed(&fresh, typed).await?[0].get(0),
        Verb::FirstBatch => pool.batch().add(&fresh, &[&0]).add(&fresh, parameters).run().await?[1].rows()[0].get(0),
        Verb::Failing => pool.query_one("select $1::int4 / 0", parameters).await?.get(0),
        Verb::FailingBatch => {
            pool.batch().add(KNOWN, &[&0]).add("select $1::int4 / 0", parameters).run().await?[1].rows()[0].get(0)
        }
    }
}

fn check(verb: Verb, token: i32, outcome: Result<i32, Error>) {
    match (verb, outcome) {
        (Verb::Failing | Verb::FailingBatch, Err(error)) if error.is_server() => {}
        (Verb::Failing | Verb::FailingBatch, other) => panic!("{verb:?} divided by zero and got {other:?}"),
        (_, Ok(got)) => assert_eq!(got, token, "{verb:?}"),
        (_, Err(error)) => panic!("{verb:?}: {error}"),
    }
}

async fn prepared_at_the_server(pool: &Pool) -> i64 {
    pool.query_one("select count(*) from pg_prepared_statements", &[]).await.unwrap().get(0).unwrap()
}

async fn nothing_is_left(pool: &Pool) {
    wait_until("what was abandoned has been answered", async || pool.stats().in_flight() == 0).await;
    let stats = pool.stats();
    assert_eq!((stats.waiting, stats.connections_lost, stats.quarantines), (0, 0, 0), "{stats:?}");
}

/// The nearest relative tells of statements that stay prepared for ever when the future of `prepare` is dropped
/// (rust-postgres PR 1374).
#[tokio::test]
async fn any_verb_may_be_dropped_after_any_number_of_polls() {
    const KEPT: usize = 32;
    let pool = open(settings("any_verb").pool_size(1).statement_cache_size(KEPT));
    let mut token = 0;
    let mut dropped = 0;
    for verb in VERBS {
        for polls in 0..=POLLS_MAX {
            for _ in 0..3 {
                token += 1;
                // One in front, one to be dropped, one behind, all on the same connection.
                let (before, between, behind) = tokio::join!(
                    biased;
                    run(&pool, Verb::Query, token),
                    drop_after_polls(polls, run(&pool, verb, token)),
                    run(&pool, Verb::QueryOne, token),
                );
                check(Verb::Query, token, before);
                check(Verb::QueryOne, token, behind);
                match between {
                    Dropped::Ready(outcome) => check(verb, token, outcome),
                    Dropped::Pending => dropped += 1,
                }
            }
            // The next use of the same verb is as if nothing had been.
            check(verb, token, run(&pool, verb, token).await);
        }
    }
    assert!(dropped > VERBS.len() * 3, "{dropped} were dropped");
    nothing_is_left(&pool).await;
    let prepared = prepared_at_the_server(&pool).await;
    assert!(prepared <= KEPT as i64, "{prepared} statements are prepared at the server");
    let stats = pool.stats();
    assert_eq!(stats.lanes.iter().map(|lane| lane.prepared as i64).collect::<Vec<_>>(), [prepared], "{stats:?}");
    assert_eq!(stats.connects, 1, "{stats:?}");
}

/// The same on a runtime of several threads, where the drop falls into the middle of the connection's own work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_on_several_threads_disturb_nobody() {
    let pool = open(settings("threads").pool_size(3).statement_cache_size(32));
    let callers = (0..64).map(|caller| {
        let pool = pool.clone();
        tokio::spawn(async move {
            for round in 0..100 {
                let token = caller * 1_000 + round;
                let verb = VERBS[fastrand::usize(..VERBS.len())];
                if let Dropped::Ready(outcome) =
                    drop_after_polls(fastrand::usize(..=POLLS_MAX), run(&pool, verb, token)).await
                {
                    check(verb, token, outcome);
                }
                check(verb, token, run(&pool, verb, token).await);
            }
        })
    });
    for joined in must_end("callers who drop", join_all(callers)).await {
        joined.unwrap();
    }
    nothing_is_left(&pool).await;
}

#[tokio::test]
async fn dropped_first_uses_stay_bounded() {
    const FIRST_USES: usize = 10_000;
    const KEPT: usize = 64;
    let pool = open(settings("first_uses").pool_size(2).statement_cache_size(KEPT));
    let mut sqls = (0..FIRST_USES).map(|number| format!("select {number}, $1::int4"));
    let mut dropped = 0;
    loop {
        let some: Vec<String> = sqls.by_ref().take(100).collect();
        if some.is_empty() {
            break;
        }
        let outcomes = join_all(some.iter().enumerate().map(|(number, sql)| {
            let pool = &pool;
            async move { drop_after_polls(1 + number % 3, pool.query(sql, &[&1])).await }
        }));
        dropped += outcomes.await.iter().filter(|outcome| matches!(outcome, Dropped::Pending)).count();
        assert!(pool.stats().lanes.iter().all(|lane| lane.prepared <= KEPT), "{:?}", pool.stats());
    }
    assert!(dropped > FIRST_USES / 2, "{dropped} were dropped");
    nothing_is_left(&pool).await;
    for _ in 0..20 {
        let prepared = prepared_at_the_server(&pool).await;
        assert!(prepared <= KEPT as i64, "{prepared} statements are prepared at the server");
    }
}

/// One who learns a statement for all and vanishes hands that on.
#[tokio::test]
async fn first_users_go_on_when_the_first_of_them_vanishes() {
    let pool = open(settings("vanishes").pool_size(1));
    pool.query_one("select 1", &[]).await.unwrap();
    for polls in 0..6 {
        let sql = format!("select $1::int4 as vanishes_{polls}");
        let first = drop_after_polls(polls, pool.query_one(&sql, &[&0]));
        let others = join_all((0..50).map(|number| {
            let (pool, sql) = (&pool, &sql);
            async move { pool.query_one(sql, &[&number]).await }
        }));
        let (_, others) = must_end("first users", async { tokio::join!(biased; first, others) }).await;
        for (number, answer) in (0..).zip(others) {
            assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number, "after {polls} polls");
        }
    }
    nothing_is_left(&pool).await;
}

/// Who waits for room and vanishes gives his place up.
#[tokio::test]
async fn dropped_waiters_hand_their_places_on() {
    let pool = open(settings("waiters").pool_size(1).max_pipeline(1));
    pool.query_one(KNOWN, &[&0]).await.unwrap();
    for polls in 0..=POLLS_MAX {
        let callers = (0..40).map(|number: i32| {
            let pool = &pool;
            async move {
                let parameters: [&(dyn ToSql + Sync); 1] = [&number];
                let query = pool.query_one(KNOWN, &parameters);
                if number % 2 == 0 { drop_after_polls(polls, query).await } else { Dropped::Ready(query.await) }
            }
        });
        for (number, outcome) in (0..).zip(must_end("waiters", join_all(callers)).await) {
            if let Dropped::Ready(answer) = outcome {
                assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number, "after {polls} polls");
            }
        }
    }
    nothing_is_left(&pool).await;
}
