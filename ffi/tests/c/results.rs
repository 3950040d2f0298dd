//! What comes back: results of every shape, and errors.

use cenote_tests::mysql::Server;

use super::program::run;

#[test]
fn results_of_every_shape_are_read() {
    for url in [cenote_tests::postgres_url(), Server::Mysql.url()] {
        run("tests/c/results.c", &[&url]);
    }
}

#[test]
fn an_error_outlives_its_pool_and_its_context() {
    for url in [cenote_tests::postgres_url(), Server::Mysql.url()] {
        run("tests/c/errors.c", &[&url]);
    }
}
