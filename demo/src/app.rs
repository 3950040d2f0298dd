//! What each thread answers with: the routes and what they need.

use std::rc::Rc;
use std::sync::Arc;

use cenote_http::{Handler, Request, Response, Routes, StatsHandle};

use crate::databases::Databases;
use crate::metrics;
use crate::plain;
use crate::routes::Route;
use crate::world;

/// One per thread.
pub(crate) struct App {
    pub(crate) routes: Arc<Routes<Route>>,
    pub(crate) stats: StatsHandle,
    pub(crate) databases: Databases,
}

impl Handler for App {
    async fn call(self: Rc<Self>, request: Request) -> Response {
        self.answer(request).await.unwrap_or_else(|refusal| refusal)
    }
}

impl App {
    async fn answer(&self, request: Request) -> Result<Response, Response> {
        let (route, parameters) = self.routes.find(request.method(), request.path())?;
        match route {
            Route::Root | Route::CreateUser => Ok(Response::empty()),
            Route::User => plain::user(&parameters),
            Route::Json => Ok(plain::hello()),
            Route::EchoJson => plain::echo_json(request.body).await,
            Route::NamedUser => plain::named_user(&parameters, &request.head),
            Route::Item(name) => Ok(Response::text(name.clone())),
            Route::Db => world::one(self.databases.postgres.as_ref()).await,
            Route::Queries => world::many(self.databases.postgres.as_ref(), &request.head).await,
            Route::MySqlDb => world::one(self.databases.mysql.as_ref()).await,
            Route::MySqlQueries => world::many(self.databases.mysql.as_ref(), &request.head).await,
            Route::Metrics => Ok(metrics::answer(&self.stats, &self.databases)),
        }
    }
}
