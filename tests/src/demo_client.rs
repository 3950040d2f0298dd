//! A client for the demo's routes, that reads HTTP by itself: what an HTTP library would smooth over is seen.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::must_end;

/// What was answered to one request.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// The body as JSON, or as a string if it is none.
    pub body: Value,
}

impl Answer {
    /// The value of a header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }
}

/// All answers to requests that are sent at once on one connection.
pub async fn ask_pipelined(address: SocketAddr, targets: &[String]) -> Vec<Answer> {
    let mut stream = TcpStream::connect(address).await.expect("the demo listens");
    let mut requests = String::new();
    for (index, target) in targets.iter().enumerate() {
        let connection = if index + 1 == targets.len() { "close" } else { "keep-alive" };
        requests.push_str(&format!("GET {target} HTTP/1.1\r\nhost: demo\r\nconnection: {connection}\r\n\r\n"));
    }
    stream.write_all(requests.as_bytes()).await.expect("the demo reads");
    let mut said = Vec::new();
    must_end("the demo's answers", stream.read_to_end(&mut said)).await.expect("the demo answers");
    let mut rest = std::str::from_utf8(&said).expect("text");
    let mut answers = Vec::new();
    while let Some((head, behind)) = rest.split_once("\r\n\r\n") {
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        let mut answer = Answer { status, head: head.to_owned(), body: Value::Null };
        let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let (body, behind) = behind.split_at(length);
        answer.body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        answers.push(answer);
        rest = behind;
    }
    answers
}

/// The answer to one request.
pub async fn ask(address: SocketAddr, target: &str) -> Answer {
    ask_pipelined(address, &[target.to_owned()]).await.pop().expect("an answer")
}
