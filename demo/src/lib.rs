//! The demo server: what cenote is worth, seen over HTTP.
//!
//! ```text
//!   main ── Settings::from_env ──> start ──> cenote-http, one event loop per core
//!                                                 │ one App per thread
//!                                                 v
//!                                     Route ──> answer
//! ```
//!
//! | route | answer |
//! |---|---|
//! | `GET /` | 200, empty body |
//! | `GET /user/:id` | 200, the id as text |
//! | `POST /user` | 200, empty body |
//! | `GET /json` | `{"message":"Hello, World!"}` |
//! | `GET /users/:id?name=x` | `{"id":"..","name":".."}` |
//! | `POST /json` | the same JSON back |
//! | `GET /r/item001` .. `/r/item100` | the item's name as text |
//! | `GET /db` | one row of `world` in Postgres by a random id, as `{"id":1,"randomNumber":2}` |
//! | `GET /queries?n=20` | n such rows, each read after the one before; n from 1 to 500 |
//! | `GET /mysql/db`, `GET /mysql/queries?n=20` | the same from MySQL or MariaDB |
//! | `GET /metrics` | Prometheus text |
//!
//! Errors are short JSON, `{"error":"..."}`. The library is what the tests run in their own process, on port 0;
//! `main.rs` is what people run.

mod app;
mod databases;
mod metrics;
mod plain;
mod routes;
mod server;
mod settings;
mod world;

pub use server::{Running, start};
pub use settings::{Settings, SettingsError};
