//! What is told by `tracing`: each query with its rows and time, and what happens to connections; never the values of
//! parameters.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use cenote_tests::{Admin, OwnSchema, open, settings, unique_name, wait_until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// All that is told by this thread, and by no other: spans when they close, events when they come.
#[derive(Clone, Default)]
struct Ear {
    spans: Arc<Mutex<HashMap<u64, String>>>,
    heard: Arc<Mutex<Vec<String>>>,
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a text takes what is written");
    }
}

impl<S: Subscriber> Layer<S> for Ear {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut words = attributes.metadata().name().to_owned();
        attributes.record(&mut Words(&mut words));
        self.spans.lock().unwrap().insert(id.into_u64(), words);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(words) = self.spans.lock().unwrap().get_mut(&id.into_u64()) {
            values.record(&mut Words(words));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = String::new();
        event.record(&mut Words(&mut words));
        self.heard.lock().unwrap().push(words);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if let Some(words) = self.spans.lock().unwrap().remove(&id.into_u64()) {
            self.heard.lock().unwrap().push(words);
        }
    }
}

impl Ear {
    fn heard(&self, all_of: &[&str]) -> bool {
        self.heard.lock().unwrap().iter().any(|words| all_of.iter().all(|word| words.contains(word)))
    }

    #[track_caller]
    fn must_have_heard(&self, all_of: &[&str]) {
        assert!(self.heard(all_of), "{all_of:?} in {:#?}", self.heard.lock().unwrap());
    }
}

#[tokio::test]
async fn a_query_is_told_with_its_rows_and_never_with_its_values() {
    let ear = Ear::default();
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(ear.clone()));
    let schema = OwnSchema::create("tracing").await;
    let pool = open(schema.settings());
    let secret = unique_name("secret");
    pool.execute("create table told(word text)", &[]).await.unwrap();
    pool.execute("insert into told values ($1), ($1)", &[&secret]).await.unwrap();
    pool.query("select word from told where word = $1", &[&secret]).await.unwrap();
    pool.query_opt("select 1 from told where word <> $1", &[&secret]).await.unwrap();
    pool.query("select word::int from told", &[]).await.unwrap_err();
    ear.must_have_heard(&["query", "insert into told", "rows=2", "took_us="]);
    ear.must_have_heard(&["select word from told", "rows=2", "postgresql"]);
    ear.must_have_heard(&["select 1 from told", "rows=0"]);
    // The server's own message names the value that it could not read.
    ear.must_have_heard(&["select word::int", "error=server error 22P02"]);
    let heard = ear.heard.lock().unwrap();
    assert!(!heard.iter().any(|words| words.contains(&secret)), "{heard:#?}");
}

#[tokio::test]
async fn what_happens_to_connections_and_leases_is_told() {
    let ear = Ear::default();
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(ear.clone()));
    let pool = open(settings("told_connections").pool_size(2));
    pool.query_one("select 1", &[]).await.unwrap();
    ear.must_have_heard(&["connected", "lane=", "address="]);
    drop(pool.lease().await.unwrap());
    ear.must_have_heard(&["leased", "taken_at=tests/tests/postgres/tracing.rs"]);
    ear.must_have_heard(&["lease returned", "held_ms="]);
    Admin::connect().await.terminate(&pool).await;
    wait_until("the loss is told", async || ear.heard(&["connection lost", "lane=", "cause="])).await;
}
