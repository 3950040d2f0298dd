//! A user that a test has for itself: to log in for the first time, with any password, in any way that the server knows.

use super::Server;
use super::admin::{Admin, run_apart};
use crate::own_pool::unique_name;

/// `Can't create more than max_user_connections` and the like count by user; names of more bytes are refused by MySQL.
const NAME_BYTES_MAX: usize = 32;

/// A user of one test, who may read the database `cenote`; removed when this is dropped.
#[derive(Debug)]
pub struct OwnUser {
    name: String,
    server: Server,
}

impl OwnUser {
    /// Makes one, as `identified` says in the words of `CREATE USER`:
    /// `identified with caching_sha2_password by 'secret' require ssl`.
    pub async fn create(server: Server, identified: &str) -> OwnUser {
        let mut name = unique_name("u");
        assert!(name.len() <= NAME_BYTES_MAX, "{name} is no name for a user");
        name.make_ascii_lowercase();
        let admin = Admin::connect(server).await;
        admin.run(&format!("create user '{name}'@'%' {identified}")).await;
        let user = OwnUser { name, server };
        admin.run(&format!("grant select on cenote.* to '{}'@'%'", user.name)).await;
        user
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for OwnUser {
    fn drop(&mut self) {
        let statement = format!("drop user if exists '{}'@'%'", self.name);
        // Who is left behind by a failure here is in nobody's way.
        if let Err(error) = run_apart(&self.server.admin_url(), vec![statement]) {
            eprintln!("the user {} stays: {error}", self.name);
        }
    }
}
