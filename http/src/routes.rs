//! Which value answers a method and a path.
//!
//! ```text
//!   /            ->  GET
//!   /json        ->  GET, POST          no parameter: one look-up of the whole path
//!   /user/:id    ->  GET
//!    └ user ─ :id                       else one map look-up per segment, the fixed one before the parameter
//! ```
//!
//! A table, not a framework: it maps to values of any type, so a handler can match on an `enum` (no boxed
//! future per request) and a foreign one can look up a number. Costs do not grow with the number of routes.
//!
//! Does not do: wildcards over several segments, regular expressions, redirects of trailing slashes (`/a` and
//! `/a/` differ), `OPTIONS`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;

use crate::encoding::{Plus, decode};
use crate::{BadEncoding, HeaderValue, Method, Response, StatusCode, header};

/// Parameters per route at most: places for so many are kept on the stack of each look-up.
const PARAMETERS_MAX: usize = 8;

/// A table from methods and paths to values.
///
/// ```
/// use cenote_http::{Method, Routes};
///
/// #[derive(Debug, PartialEq)]
/// enum Route { Home, User }
///
/// let mut routes = Routes::new();
/// routes.add(Method::GET, "/", Route::Home)?.add(Method::GET, "/user/:id", Route::User)?;
///
/// let (route, parameters) = routes.find(&Method::GET, "/user/42").unwrap();
/// assert_eq!(*route, Route::User);
/// assert_eq!(parameters.get("id").unwrap(), "42");
/// assert_eq!(parameters.parse::<u32>("id")?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Routes<T> {
    endpoints: Vec<Endpoint<T>>,
    /// Paths without parameters, whole: the fast way in. The program chooses the keys, so a hash that takes
    /// no care of hostile ones will do.
    plain: FxHashMap<Box<str>, usize>,
    /// Every path by segment.
    root: Node,
}

/// A path and what answers each of its methods.
#[derive(Debug)]
struct Endpoint<T> {
    routes: Vec<Route<T>>,
    allow: HeaderValue,
}

#[derive(Debug)]
struct Route<T> {
    method: Method,
    names: Box<[Box<str>]>,
    value: T,
}

#[derive(Debug, Default)]
struct Node {
    fixed: FxHashMap<Box<str>, Node>,
    parameter: Option<Box<Node>>,
    endpoint: Option<usize>,
}

impl<T> Routes<T> {
    /// A table without routes.
    pub fn new() -> Routes<T> {
        Routes { endpoints: Vec::new(), plain: FxHashMap::default(), root: Node::default() }
    }

    /// Adds `value` for `method` on `pattern`: `/` and segments, each of which is fixed text (as it reads
    /// decoded) or `:name`, which takes one segment that is not empty.
    ///
    /// Where several patterns fit a path, a fixed segment wins over a parameter, from the left. The path that
    /// wins decides alone which methods are allowed. `HEAD` is answered by the route for `GET` unless it has
    /// its own.
    ///
    /// # Errors
    ///
    /// The pattern does not start with `/`, a parameter has no name or the name of another, there are more
    /// than 8 parameters, or the method and path have a value already.
    pub fn add(&mut self, method: Method, pattern: &str, value: T) -> Result<&mut Routes<T>, RouteError> {
        let refuse = |reason| Err(RouteError { pattern: pattern.into(), reason });
        let Some(segments) = pattern.strip_prefix('/') else {
            return refuse("it does not start with a slash");
        };
        let mut names: Vec<Box<str>> = Vec::new();
        for name in segments.split('/').filter_map(|segment| segment.strip_prefix(':')) {
            if name.is_empty() {
                return refuse("a parameter has no name");
            }
            if names.iter().any(|known| **known == *name) {
                return refuse("two parameters have the same name");
            }
            names.push(name.into());
        }
        if names.len() > PARAMETERS_MAX {
            return refuse("it has too many parameters");
        }

        let mut node = &mut self.root;
        for segment in segments.split('/') {
            node = match segment.strip_prefix(':') {
                Some(_) => node.parameter.get_or_insert_default(),
                None => node.fixed.entry(segment.into()).or_default(),
            };
        }
        let next = self.endpoints.len();
        let index = *node.endpoint.get_or_insert(next);
        if index == next {
            let allow = HeaderValue::from_static("");
            self.endpoints.push(Endpoint { routes: Vec::new(), allow });
        }
        if names.is_empty() {
            self.plain.insert(pattern.into(), index);
        }
        if let Some(endpoint) = self.endpoints.get_mut(index) {
            if endpoint.routes.iter().any(|route| route.method == method) {
                return refuse("its method and path have a value already");
            }
            endpoint.routes.push(Route { method, names: names.into(), value });
            endpoint.allow = allowed_methods(&endpoint.routes);
        }
        Ok(self)
    }

    /// Looks up what answers `method` on `path` (as sent, still encoded, without the query).
    ///
    /// # Errors
    ///
    /// A [`Miss`], which is also the answer to give: 404, 405 with `Allow`, or 400 for a path that is not
    /// valid percent-encoded UTF-8.
    pub fn find<'r, 'p>(&'r self, method: &Method, path: &'p str) -> Result<(&'r T, Parameters<'r, 'p>), Miss> {
        let mut spans = Spans::default();
        let endpoint = match self.plain.get(path) {
            Some(endpoint) => Some(*endpoint),
            None => self.walk_from_root(path, &mut spans)?,
        };
        let endpoint = endpoint.and_then(|index| self.endpoints.get(index)).ok_or(Miss::NotFound)?;
        let route = endpoint.route(method).ok_or_else(|| Miss::Method(endpoint.allow.clone()))?;
        Ok((&route.value, Parameters { names: &route.names, path, spans }))
    }

    fn walk_from_root(&self, path: &str, spans: &mut Spans) -> Result<Option<usize>, Miss> {
        let encoded = path.contains('%');
        if encoded {
            decode(path, Plus::Literal).map_err(Miss::Encoding)?;
        }
        // Longer ones could not be told apart in a span; no head limit in use lets them through.
        if !path.starts_with('/') || u16::try_from(path.len()).is_err() {
            return Ok(None);
        }
        self.root.walk(path, 1, encoded, spans).map_err(Miss::Encoding)
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Routes<T> {
        Routes::new()
    }
}

impl<T> Endpoint<T> {
    fn route(&self, method: &Method) -> Option<&Route<T>> {
        let of = |method: &Method| self.routes.iter().find(|route| route.method == *method);
        of(method).or_else(|| if *method == Method::HEAD { of(&Method::GET) } else { None })
    }
}

impl Node {
    /// The endpoint below this node for what is left of `path` from byte `start`, trying the fixed segment
    /// first. Depth is bounded by the deepest pattern, work by the number of patterns.
    fn walk(&self, path: &str, start: usize, encoded: bool, spans: &mut Spans) -> Result<Option<usize>, BadEncoding> {
        let Some(rest) = path.get(start..) else {
            return Ok(self.endpoint);
        };
        let segment = rest.split_once('/').map_or(rest, |(segment, _)| segment);
        let end = start + segment.len();
        // One past the end of the path when this was the last segment, which `get` above answers with None.
        let next = end + 1;

        let fixed = match encoded {
            false => self.fixed.get(segment),
            true => self.fixed.get(&*decode(segment, Plus::Literal)?),
        };
        if let Some(node) = fixed
            && let Some(endpoint) = node.walk(path, next, encoded, spans)?
        {
            return Ok(Some(endpoint));
        }
        match &self.parameter {
            Some(node) if !segment.is_empty() => {
                let depth = spans.count;
                spans.push(start, end);
                let endpoint = node.walk(path, next, encoded, spans)?;
                if endpoint.is_none() {
                    spans.count = depth;
                }
                Ok(endpoint)
            }
            _ => Ok(None),
        }
    }
}

/// Where in the path the parameters are. No path that is looked up is longer than 65,535 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Spans {
    count: usize,
    places: [(u16, u16); PARAMETERS_MAX],
}

impl Spans {
    fn push(&mut self, start: usize, end: usize) {
        if let Some(place) = self.places.get_mut(self.count) {
            *place = (start as u16, end as u16);
            self.count += 1;
        }
    }
}

/// The parameters of a path that was found.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'r, 'p> {
    names: &'r [Box<str>],
    path: &'p str,
    spans: Spans,
}

impl<'p> Parameters<'_, 'p> {
    /// The decoded value of `:name`; `None` if the route has no such parameter.
    pub fn get(&self, name: &str) -> Option<Cow<'p, str>> {
        let index = self.names.iter().position(|known| **known == *name)?;
        let (start, end) = self.spans.places.get(..self.spans.count)?.get(index)?;
        let raw = self.path.get(usize::from(*start)..usize::from(*end))?;
        // The look-up has decoded the whole path before, so this one does not fail.
        decode(raw, Plus::Literal).ok()
    }

    /// The value of `:name` as a `V`.
    ///
    /// # Errors
    ///
    /// The value is none, or the route has no such parameter. The error answers 400.
    pub fn parse<V: FromStr>(&self, name: &str) -> Result<V, BadParameter> {
        let value = self.get(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| BadParameter { name: name.into() })
    }
}

/// A path parameter that is not of the type asked for. It answers 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadParameter {
    name: Box<str>,
}

impl fmt::Display for BadParameter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid value for {}", self.name)
    }
}

impl std::error::Error for BadParameter {}

impl From<BadParameter> for Response {
    fn from(error: BadParameter) -> Response {
        Response::error(StatusCode::BAD_REQUEST, &error.to_string())
    }
}

/// Why nothing was found, which is also the answer to give.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Miss {
    /// No route has this path: 404.
    NotFound,
    /// The path is there and does not take this method: 405, with the value of `Allow`.
    Method(HeaderValue),
    /// The path is not valid percent-encoded UTF-8: 400.
    Encoding(BadEncoding),
}

impl From<Miss> for Response {
    fn from(miss: Miss) -> Response {
        match miss {
            Miss::NotFound => Response::error(StatusCode::NOT_FOUND, "not found"),
            Miss::Method(allow) => {
                Response::error(StatusCode::METHOD_NOT_ALLOWED, "method not allowed").with_header(header::ALLOW, allow)
            }
            Miss::Encoding(error) => error.into(),
        }
    }
}

/// A route that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError {
    pattern: Box<str>,
    reason: &'static str,
}

impl fmt::Display for RouteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot add the route {:?}: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for RouteError {}

impl From<RouteError> for std::io::Error {
    fn from(error: RouteError) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, error)
    }
}

/// The value of `Allow`: the methods that have a route, and `HEAD` where `GET` answers it.
fn allowed_methods<T>(routes: &[Route<T>]) -> HeaderValue {
    let mut methods: Vec<&str> = routes.iter().map(|route| route.method.as_str()).collect();
    if methods.contains(&"GET") && !methods.contains(&"HEAD") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    // A method is a token, and tokens are valid in a header.
    HeaderValue::try_from(methods.join(", ")).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(patterns: &[(&str, &str)]) -> Routes<String> {
        let mut routes = Routes::new();
        for (method, pattern) in patterns {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            routes.add(method, pattern, (*pattern).to_owned()).unwrap();
        }
        routes
    }

    fn found(routes: &Routes<String>, path: &str) -> String {
        match routes.find(&Method::GET, path) {
            Ok((pattern, parameters)) => {
                let values = parameters.names.iter().map(|name| parameters.get(name).unwrap());
                std::iter::once(pattern.as_str().into()).chain(values).collect::<Vec<_>>().join(" ")
            }
            Err(miss) => format!("{miss:?}"),
        }
    }

    #[test]
    fn a_fixed_segment_wins_and_the_parameter_is_tried_after_it() {
        let routes = table(&[
            ("GET", "/"),
            ("GET", "/users/:id"),
            ("GET", "/users/me"),
            ("GET", "/users/me/name"),
            ("GET", "/users/:id/orders/:order"),
            ("GET", "/:kind/:id/orders/last/x"),
        ]);
        for (path, expected) in [
            ("/", "/"),
            ("/users/me", "/users/me"),
            ("/users/7", "/users/:id 7"),
            ("/users/me/name", "/users/me/name"),
            ("/users/me/orders/9", "/users/:id/orders/:order me 9"),
            ("/users/7/orders/last", "/users/:id/orders/:order 7 last"),
            ("/users/7/orders/last/x", "/:kind/:id/orders/last/x users 7"),
            ("/users", "NotFound"),
            ("/users/", "NotFound"),
            ("/users/7/", "NotFound"),
            ("/users//orders/9", "NotFound"),
            ("//", "NotFound"),
            ("", "NotFound"),
            ("*", "NotFound"),
        ] {
            assert_eq!(found(&routes, path), expected, "{path}");
        }
    }

    #[test]
    fn segments_are_decoded_after_they_are_split() {
        let routes = table(&[("GET", "/a b/:x"), ("GET", "/é")]);
        assert_eq!(found(&routes, "/a%20b/c%2Fd"), "/a b/:x c/d");
        assert_eq!(found(&routes, "/%C3%A9"), "/é");
        assert_eq!(found(&routes, "/a%20b/50+50"), "/a b/:x 50+50");
        assert_eq!(found(&routes, "/a%2Fb/c"), "NotFound");
        for path in ["/a%20b/%", "/a%20b/%zz", "/a%20b/%ff", "/%e"] {
            let miss = routes.find(&Method::GET, path).unwrap_err();
            assert!(matches!(miss, Miss::Encoding(_)), "{path}: {miss:?}");
        }
    }

    #[test]
    fn a_wrong_method_names_the_right_ones() {
        let routes = table(&[("POST", "/json"), ("GET", "/json"), ("DELETE", "/user/:id")]);
        let allow = |method: Method, path| match routes.find(&method, path) {
            Err(Miss::Method(allow)) => allow.to_str().unwrap().to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(allow(Method::PUT, "/json"), "GET, HEAD, POST");
        assert_eq!(allow(Method::GET, "/user/1"), "DELETE");
        assert_eq!(allow(Method::HEAD, "/user/1"), "DELETE");
        assert!(routes.find(&Method::HEAD, "/json").is_ok(), "HEAD is answered by GET");
    }

    #[test]
    fn parameters_are_parsed_or_refused() {
        let routes = table(&[("GET", "/n/:n")]);
        let parse = |path| {
            let (_, parameters) = routes.find(&Method::GET, path).unwrap();
            parameters.parse::<u16>("n").map_err(|error| error.to_string())
        };
        assert_eq!(parse("/n/65535"), Ok(65_535));
        assert_eq!(parse("/n/65536"), Err("invalid value for n".into()));
        assert_eq!(parse("/n/x"), Err("invalid value for n".into()));
        let (_, parameters) = routes.find(&Method::GET, "/n/1").unwrap();
        assert_eq!(parameters.get("m"), None);
    }

    #[test]
    fn bad_patterns_are_refused_with_a_reason() {
        for (pattern, reason) in [
            ("user", "slash"),
            ("", "slash"),
            ("/:", "no name"),
            ("/:a/:a", "same name"),
            ("/:a/:b/:c/:d/:e/:f/:g/:h/:i", "too many"),
            ("/known", "already"),
        ] {
            let mut routes = table(&[("GET", "/known")]);
            let error = routes.add(Method::GET, pattern, String::new()).unwrap_err().to_string();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_path_may_be_as_long_as_a_head_allows() {
        let routes = table(&[("GET", "/x/:y")]);
        let long = "y".repeat(60_000);
        assert_eq!(found(&routes, &format!("/x/{long}")), format!("/x/:y {long}"));
        assert_eq!(found(&routes, &format!("/x/{}", "y".repeat(70_000))), "NotFound");
    }
}
