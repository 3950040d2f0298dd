//! From a host's name to the places to connect to.
//!
//! A name is looked up anew for each attempt: it may have moved. The look-up itself cannot be called off (it is a call of
//! the system's that may wait for a name server that never answers), so it runs on the library's own threads: neither the
//! attempt nor the end of a caller's runtime waits for it. How long the attempt waits is for `connect` to say.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use crate::home;
use crate::language::Language;
use crate::pool::Pool;

/// A look-up under way. Dropped when it has taken too long.
pub type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// What finds the addresses of a name, with the port to connect to.
pub type Resolver = Arc<dyn Fn(&str, u16) -> LookingUp + Send + Sync>;

/// Each address may take a whole connect timeout, so not all of a name with hundreds are tried in one attempt.
const ADDRESSES_MAX: usize = 16;

/// How the names of one pool are looked up.
pub(crate) struct Lookup {
    resolver: RwLock<Resolver>,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup { resolver: RwLock::new(Arc::new(ask_system)) }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl Lookup {
    /// The addresses of a host, in the order in which they are to be tried. What is an address already is not looked up.
    ///
    /// # Errors
    ///
    /// When the name has no address, or cannot be looked up.
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let resolver = Arc::clone(&self.resolver.read().unwrap_or_else(PoisonError::into_inner));
        let addresses = in_turns(resolver(host, port).await?);
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(addresses)
    }
}

impl<L: Language> Pool<L> {
    /// Has the names of this pool looked up by `resolver` instead of the system: for tests of names that move, or that
    /// nobody answers for.
    #[doc(hidden)]
    pub fn set_resolver(&self, resolver: Resolver) {
        let lookup = &self.inner().budget.manager().lookup;
        *lookup.resolver.write().unwrap_or_else(PoisonError::into_inner) = resolver;
    }
}

fn ask_system(host: &str, port: u16) -> LookingUp {
    let host = host.to_owned();
    let asking = async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) };
    match home::background() {
        Some(runtime) => Box::pin(async move { runtime.spawn(asking).await.map_err(io::Error::other)? }),
        None => Box::pin(asking),
    }
}

/// Each address once, IPv6 and IPv4 in turns, beginning with the system's first: where one of the two leads nowhere, the
/// other is tried second and not last.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut seen = HashSet::new();
    let begins_with_six = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let addresses = addresses.into_iter().filter(|address| seen.insert(*address));
    let (like_first, others): (Vec<_>, Vec<_>) = addresses.partition(|address| address.is_ipv6() == begins_with_six);
    let (mut ahead, mut behind) = (like_first.into_iter(), others.into_iter());
    let turns = std::iter::from_fn(|| {
        let address = ahead.next().or_else(|| behind.next());
        std::mem::swap(&mut ahead, &mut behind);
        address
    });
    turns.take(ADDRESSES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_kinds_of_address_take_turns() {
        let order = |addresses: &[&str]| -> Vec<String> {
            let addresses = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 1)).collect();
            in_turns(addresses).iter().map(|address| address.ip().to_string()).collect()
        };
        assert_eq!(order(&[]), [""; 0]);
        assert_eq!(order(&["::1", "::2", "::3", "10.0.0.1"]), ["::1", "10.0.0.1", "::2", "::3"]);
        assert_eq!(order(&["10.0.0.1", "10.0.0.2", "::1", "::2"]), ["10.0.0.1", "::1", "10.0.0.2", "::2"]);
        assert_eq!(order(&["10.0.0.2", "10.0.0.1", "10.0.0.2"]), ["10.0.0.2", "10.0.0.1"], "each once");
    }

    #[test]
    fn of_many_addresses_some_are_tried() {
        let many = (0..=255).map(|last| SocketAddr::from(([10, 0, 0, last], 1))).collect();
        assert_eq!(in_turns(many).len(), ADDRESSES_MAX);
    }
}
