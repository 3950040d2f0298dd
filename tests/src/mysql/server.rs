//! Which of the two servers a test runs on, and its addresses, as `scripts/servers env` prints them.

use crate::environment::{url, url_if_given};

/// A shared server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// MySQL.
    Mysql,
    /// MariaDB.
    Mariadb,
}

impl Server {
    /// Both.
    pub const ALL: [Server; 2] = [Server::Mysql, Server::Mariadb];

    /// Its name in `scripts/servers`.
    pub const fn service(self) -> &'static str {
        match self {
            Server::Mysql => "mysql",
            Server::Mariadb => "mariadb",
        }
    }

    /// With what the names of its variables begin.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Server::Mysql => "MYSQL",
            Server::Mariadb => "MARIADB",
        }
    }

    /// Its address for an ordinary user.
    pub fn url(self) -> String {
        url(&self.variable("URL"))
    }

    /// Its address for one who may do everything.
    pub fn admin_url(self) -> String {
        url(&self.variable("ADMIN_URL"))
    }

    /// Its address for another kind of user: `EMPTY`, `LONG`, `SSL`, `X509`, and what only one of the servers has.
    pub fn url_of(self, user: &str) -> String {
        url(&self.variable(&format!("{user}_URL")))
    }

    /// The path of its Unix socket, where it can be reached from here.
    pub fn socket_if_given(self) -> Option<String> {
        url_if_given(&self.variable("SOCKET"))
    }

    fn variable(self, rest: &str) -> String {
        format!("{}_{rest}", self.prefix())
    }
}

/// Makes of each function, which takes a [`Server`](crate::mysql::Server), two tests: `NAME::on_mysql` and
/// `NAME::on_mariadb`.
///
/// ```ignore
/// on_each_server!(a_lookup_finds_its_row, an_error_is_told);
/// on_each_server!(#[tokio::test(flavor = "multi_thread")] two_threads_share_a_pool);
///
/// async fn a_lookup_finds_its_row(server: Server) { ... }
/// ```
///
/// A function that is not listed is an unused one, which the compiler reports.
#[macro_export]
macro_rules! on_each_server {
    ($($name:ident),+ $(,)?) => {
        $($crate::on_each_server!(#[tokio::test] $name);)+
    };
    (#[$test:meta] $name:ident) => {
        mod $name {
            #[$test]
            async fn on_mysql() {
                super::$name($crate::mysql::Server::Mysql).await;
            }

            #[$test]
            async fn on_mariadb() {
                super::$name($crate::mysql::Server::Mariadb).await;
            }
        }
    };
}
