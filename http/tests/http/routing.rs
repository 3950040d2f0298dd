//! The table of routes behind a server.

use std::sync::Arc;

use cenote_http::{Method, Request, Response, Routes};

use crate::client::{Served, builder, serve};

enum Route {
    Root,
    User,
    CreateUser,
    Item(usize),
}

fn served() -> Served {
    let mut routes = Routes::new();
    routes.add(Method::GET, "/", Route::Root).unwrap();
    routes.add(Method::GET, "/user/:id", Route::User).unwrap();
    routes.add(Method::POST, "/user/:id", Route::CreateUser).unwrap();
    for item in 1..=100 {
        routes.add(Method::GET, &format!("/r/item{item:03}"), Route::Item(item)).unwrap();
    }
    let routes = Arc::new(routes);
    serve(builder(), move |request: Request| {
        let routes = Arc::clone(&routes);
        async move {
            match routes.find(request.method(), request.path()) {
                Ok((Route::User, parameters)) => match parameters.get("id") {
                    Some(id) => Response::text(id.into_owned()),
                    None => Response::text("no id"),
                },
                Ok((Route::Item(item), _)) => Response::text(format!("item {item}")),
                Ok((Route::Root, _)) => Response::text("root"),
                Ok((Route::CreateUser, _)) => Response::text("created"),
                Err(miss) => miss.into(),
            }
        }
    })
}

#[test]
fn every_one_of_many_routes_is_found() {
    let served = served();
    let mut client = served.connect();
    for item in 1..=100 {
        client.get(&format!("/r/item{item:03}?x=y"));
        assert_eq!(client.answer().body, format!("item {item}"));
    }
    client.get("/");
    assert_eq!(client.answer().body, "root");
    client.get("/user/a%2Fb%20c+d");
    assert_eq!(client.answer().body, "a/b c+d");
    client.post("/user/7", "{}");
    assert_eq!(client.answer().body, "created");
}

#[test]
fn what_is_not_there_is_404_405_or_400_and_the_connection_stays() {
    let served = served();
    let mut client = served.connect();
    for (request, status, allow, body) in [
        ("GET /nothing", 404, None, r#"{"error":"not found"}"#),
        ("GET /user/", 404, None, r#"{"error":"not found"}"#),
        ("DELETE /user/1", 405, Some("GET, HEAD, POST"), r#"{"error":"method not allowed"}"#),
        ("BREW /r/item001", 405, Some("GET, HEAD"), r#"{"error":"method not allowed"}"#),
        ("OPTIONS *", 404, None, r#"{"error":"not found"}"#),
        ("GET /user/%zz", 400, None, r#"{"error":"invalid percent-encoding"}"#),
        ("GET /user/%ff", 400, None, r#"{"error":"invalid percent-encoding"}"#),
    ] {
        client.send(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("allow")), (status, allow), "{request}");
        assert_eq!(answer.body, body, "{request}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{request}");
    }
    let stats = served.stats();
    assert_eq!((stats.connections_accepted, stats.responses_by_class), (1, [0, 0, 0, 7, 0]));
}
