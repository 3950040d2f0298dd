//! The demo's routes. To add one: a variant, a line in [`routes`], and an arm in `App::answer`.

use cenote_http::{Method, RouteError, Routes};

/// Items under `/r/`: enough routes for a table that searches one after another to show.
const ITEMS: u8 = 100;

/// What answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Root,
    User,
    CreateUser,
    Json,
    EchoJson,
    NamedUser,
    /// With the name of the item.
    Item(String),
    Metrics,
    Db,
    Queries,
    MySqlDb,
    MySqlQueries,
}

/// The table.
pub(crate) fn routes() -> Result<Routes<Route>, RouteError> {
    let mut routes = Routes::new();
    routes
        .add(Method::GET, "/", Route::Root)?
        .add(Method::GET, "/user/:id", Route::User)?
        .add(Method::POST, "/user", Route::CreateUser)?
        .add(Method::GET, "/json", Route::Json)?
        .add(Method::POST, "/json", Route::EchoJson)?
        .add(Method::GET, "/users/:id", Route::NamedUser)?
        .add(Method::GET, "/db", Route::Db)?
        .add(Method::GET, "/queries", Route::Queries)?
        .add(Method::GET, "/mysql/db", Route::MySqlDb)?
        .add(Method::GET, "/mysql/queries", Route::MySqlQueries)?
        .add(Method::GET, "/metrics", Route::Metrics)?;
    for number in 1..=ITEMS {
        let name = format!("item{number:03}");
        routes.add(Method::GET, &format!("/r/{name}"), Route::Item(name))?;
    }
    Ok(routes)
}
