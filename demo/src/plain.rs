//! The routes that need no database.

use std::borrow::Cow;

use cenote_http::{Body, Head, Parameters, Response, StatusCode};
use serde::Serialize;

/// `GET /json`: made anew for each request, as the comparisons ask of everybody.
pub(crate) fn hello() -> Response {
    #[derive(Serialize)]
    struct Hello {
        message: &'static str,
    }
    json(&Hello { message: "Hello, World!" })
}

/// `GET /user/:id`
pub(crate) fn user(parameters: &Parameters<'_, '_>) -> Result<Response, Response> {
    Ok(Response::text(id(parameters).into_owned()))
}

/// `GET /users/:id?name=x`
pub(crate) fn named_user(parameters: &Parameters<'_, '_>, head: &Head) -> Result<Response, Response> {
    #[derive(Serialize)]
    struct User<'a> {
        id: &'a str,
        name: &'a str,
    }
    let name = head.query("name")?.unwrap_or_default();
    Ok(json(&User { id: &id(parameters), name: &name }))
}

/// `POST /json`
pub(crate) async fn echo_json(body: Body) -> Result<Response, Response> {
    let body = body.read().await?;
    match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(value) => Ok(json(&value)),
        Err(error) => {
            let message = format!("invalid JSON: {error}");
            Err(Response::error(StatusCode::BAD_REQUEST, &message))
        }
    }
}

/// The routes that call this have the parameter.
fn id<'p>(parameters: &Parameters<'_, 'p>) -> Cow<'p, str> {
    parameters.get("id").unwrap_or_default()
}

pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => Response::json(text),
        // Nothing here has maps with keys that are not text, which is what fails.
        Err(error) => Response::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
