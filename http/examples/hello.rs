//! A server with three routes: `cargo run --release -p cenote-http --example hello`, then
//! `curl localhost:8080/json`. `PORT` sets another port.

use std::rc::Rc;
use std::sync::Arc;
use std::{env, io};

use cenote_http::{Handler, Method, Request, Response, Routes, Server};

enum Route {
    Json,
    Echo,
    Greeting,
}

/// What each thread answers with.
struct Hello {
    routes: Arc<Routes<Route>>,
}

impl Hello {
    async fn answer(&self, request: Request) -> Result<Response, Response> {
        let (route, parameters) = self.routes.find(request.method(), request.path())?;
        match route {
            Route::Json => Ok(Response::json(r#"{"message":"Hello, World!"}"#)),
            Route::Echo => Ok(Response::text(request.body.read().await?)),
            Route::Greeting => {
                let name = parameters.get("name").unwrap_or_default();
                Ok(Response::text(format!("Hello, {name}!\n")))
            }
        }
    }
}

impl Handler for Hello {
    async fn call(self: Rc<Self>, request: Request) -> Response {
        self.answer(request).await.unwrap_or_else(|refusal| refusal)
    }
}

fn main() -> io::Result<()> {
    let port = env::var("PORT").unwrap_or_else(|_| "8080".into());
    let mut routes = Routes::new();
    routes.add(Method::GET, "/json", Route::Json)?.add(Method::POST, "/echo", Route::Echo)?.add(
        Method::GET,
        "/hello/:name",
        Route::Greeting,
    )?;
    let routes = Arc::new(routes);

    let server = Server::builder().address(format!("127.0.0.1:{port}")).stop_on_signals(true).bind()?;
    println!("http://{}", server.address());
    server.run(move |_thread| Hello { routes: Arc::clone(&routes) })
}
