//! A schema that a test has for itself: tables, types and functions in it are in nobody's way.

use cenote_postgres::SettingsBuilder;

use crate::admin::Admin;
use crate::environment::admin_url;
use crate::own_pool::{settings_at, unique_name};

/// A schema of one test; removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct OwnSchema {
    name: String,
    admin_url: String,
}

impl OwnSchema {
    /// Makes one on the shared server, owned by the ordinary user.
    pub async fn create(test: &str) -> OwnSchema {
        let schema = OwnSchema { name: unique_name(test), admin_url: admin_url() };
        let admin = Admin::connect_to(&schema.admin_url).await;
        admin.run(&format!("create schema {} authorization cenote", schema.name)).await;
        schema
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Settings of a pool of the test's own whose names are looked up in this schema first.
    pub fn settings(&self) -> SettingsBuilder {
        self.settings_at(&crate::environment::postgres_url())
    }

    /// The same, by another way to the same server.
    pub fn settings_at(&self, url: &str) -> SettingsBuilder {
        settings_at(url, &self.name).options(format!("-c search_path={},public", self.name))
    }

    /// An administrator's connection whose names are looked up in this schema first.
    pub async fn admin(&self) -> Admin {
        let admin = Admin::connect_to(&self.admin_url).await;
        admin.run(&format!("set search_path to {}, public", self.name)).await;
        admin
    }
}

impl Drop for OwnSchema {
    fn drop(&mut self) {
        let sql = format!("drop schema if exists {} cascade", self.name);
        let admin_url = self.admin_url.clone();
        // On a thread of its own: a runtime cannot be blocked on from within another. A failure leaves a schema that
        // is in nobody's way.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&admin_url, tokio_postgres::NoTls).await.map_err(std::io::Error::other)?;
                tokio::spawn(connection);
                // Somebody may still hold a lock in it: then it stays.
                let sql = format!("set lock_timeout = '5s'; {sql}");
                client.batch_execute(&sql).await.map_err(std::io::Error::other)
            })
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("the schema {} stays: {error}", self.name);
        }
    }
}
