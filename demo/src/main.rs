//! Runs the demo server until SIGINT or SIGTERM. `PORT`, `POSTGRES_URL`, `MYSQL_URL` and `DATABASE_URL`
//! set it up. The first line it prints is its address, the second which databases it has.

use std::error::Error;
use std::process::ExitCode;

use cenote_demo::Settings;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cenote-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let server = cenote_demo::start(Settings::from_env()?)?;
    println!("http://{}", server.address());
    match server.database_names() {
        [] => println!("no database: set POSTGRES_URL, MYSQL_URL or both"),
        names => println!("databases: {}", names.join(", ")),
    }
    Ok(server.join()?)
}
