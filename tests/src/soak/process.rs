//! What the kernel says of this process: its memory, and its sockets. Linux only.

use std::fs;

/// Memory in use, in KiB.
pub(crate) fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells about this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it tells the memory in use");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Sockets to this port of 127.0.0.1 that somebody here holds: connected, being connected, or not closed yet.
pub(crate) fn sockets_to(port: u16) -> usize {
    let table = fs::read_to_string("/proc/self/net/tcp").expect("the kernel tells about sockets");
    let remote = format!("0100007F:{port:04X}");
    table
        .lines()
        .filter(|line| {
            let mut fields = line.split_whitespace();
            // What nobody holds any more has no inode: the kernel is just finishing it.
            fields.nth(2) == Some(&remote) && fields.nth(6).is_some_and(|inode| inode != "0")
        })
        .count()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn sockets_are_counted_while_they_are_held() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        assert_eq!(sockets_to(port), 0);
        let held = [0; 3].map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
        assert_eq!(sockets_to(port), 3);
        drop(held);
        assert_eq!(sockets_to(port), 0);
        assert!(resident_kib() > 100);
    }
}
