//! Measures an outage: a server of its own is killed under 256 callers and started again, and it is looked at what that costs
//! this process meanwhile and how soon everybody is served again.
//!
//! `outage [--mysql | --mariadb] [--rounds N]`; a release build, on a machine that does nothing else. Ends with 1 when a
//! number that is asked for is missed. What must not happen in an outage, however slow the machine, is tested by
//! `tests/restart.rs` and `tests/mysql_restart.rs`.

mod callers;
mod client;
mod figures;
mod processor;
mod round;
mod watch;

use std::process::ExitCode;

use cenote_tests::mysql::Server;
use cenote_tests::{PrivateServer, mysql};

use crate::client::Client;
use crate::figures::Figures;

/// One outage says little about the next.
const ROUNDS: u32 = 3;

/// Connections, shared by all callers.
const POOL_SIZE: usize = 8;

/// Threads that the callers run on.
const THREADS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Options {
    /// Postgres, where it is neither of the two.
    server: Option<Server>,
    rounds: u32,
}

fn main() -> ExitCode {
    let options = match read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("outage: {text}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let figures = runtime.expect("a runtime").block_on(run(options));
    let missed = figures.iter().filter(|figures| !figures.met()).count();
    println!("{} of {} rounds meet what is asked", figures.len() - missed, figures.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { server: None, rounds: ROUNDS };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--mysql" => options.server = Some(Server::Mysql),
            "--mariadb" => options.server = Some(Server::Mariadb),
            "--rounds" => {
                let rounds = arguments.next().and_then(|text| text.parse().ok()).filter(|rounds| *rounds > 0);
                options.rounds = rounds.ok_or("--rounds needs a number from 1")?;
            }
            other => return Err(format!("{other} is not known; known are --mysql, --mariadb and --rounds N")),
        }
    }
    Ok(options)
}

async fn run(options: Options) -> Vec<Figures> {
    match options.server {
        None => {
            let server = PrivateServer::postgres("outage").await;
            let settings = cenote_tests::settings_at(server.url(), "outage").pool_size(POOL_SIZE);
            run_rounds(options, &server, cenote_tests::open(settings)).await
        }
        Some(kind) => {
            let server = PrivateServer::mysql(kind, "outage").await;
            let settings = mysql::settings_at(server.url(), "outage").pool_size(POOL_SIZE);
            run_rounds(options, &server, mysql::open(settings)).await
        }
    }
}

async fn run_rounds(options: Options, server: &PrivateServer, client: impl Client) -> Vec<Figures> {
    println!(
        "{}: {} callers, {POOL_SIZE} connections",
        options.server.map_or("postgres", Server::service),
        callers::CALLERS
    );
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        let figures = round::measure(server, &client).await;
        println!("round {number}\n{figures}");
        rounds.push(figures);
    }
    rounds
}
