//! A database that a test has for itself: tables, views and procedures in it are in nobody's way.

use cenote_mysql::SettingsBuilder;

use super::admin::{Admin, run_apart};
use super::{Server, settings};
use crate::own_pool::unique_name;

/// A database of one test; removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct OwnDatabase {
    name: String,
    server: Server,
}

impl OwnDatabase {
    /// Makes one on a shared server; the ordinary user may do everything in it.
    pub async fn create(server: Server, test: &str) -> OwnDatabase {
        let database = OwnDatabase { name: unique_name(test), server };
        let admin = Admin::connect(server).await;
        let name = &database.name;
        admin.run(&format!("create database {name} character set utf8mb4")).await;
        admin.run(&format!("grant all on {name}.* to 'cenote'@'%'")).await;
        database
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Settings of a pool of the test's own that uses it.
    pub fn settings(&self) -> SettingsBuilder {
        settings(self.server, &self.name).database(&self.name)
    }

    /// An administrator's connection that uses it.
    pub async fn admin(&self) -> Admin {
        let admin = Admin::connect(self.server).await;
        admin.run(&format!("use {}", self.name)).await;
        admin
    }
}

impl Drop for OwnDatabase {
    fn drop(&mut self) {
        let name = &self.name;
        let statements =
            vec![format!("revoke all on {name}.* from 'cenote'@'%'"), format!("drop database if exists {name}")];
        // What is left behind by a failure here is in nobody's way.
        if let Err(error) = run_apart(&self.server.admin_url(), statements) {
            eprintln!("the database {name} stays: {error}");
        }
    }
}
