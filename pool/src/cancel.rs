//! Asking the server to stop what runs on a lease.

use std::sync::Arc;

use crate::lane::Lane;
use crate::language::Language;
use crate::pool::Inner;

/// Asks the server to stop what runs on this connection.
pub(crate) async fn cancel<L: Language>(_pool: &Arc<Inner<L>>, lane: &Arc<Lane<L>>) {
    lane.lock().tenancy.disturbed = true;
}
