//! cenote on real MySQL and MariaDB servers and on scripted ones. One program for all, since each would hold the driver,
//! its libraries and their debug information anew.

mod call;
mod changing_tables;
mod chaos;
mod demo;
mod harness;
mod held_writes;
mod lease_waits;
mod leases;
mod lifecycle;
mod login;
mod lost_connections;
mod own_answer;
mod prepared_statements;
mod restart;
mod scripted_connections;
mod scripted_login;
mod scripted_login_rogue;
mod scripted_pipelining;
mod scripted_replies;
mod scripted_segments;
mod scripted_tls;
mod session_reset;
mod shared_session;
mod sizes;
mod tls;
mod transaction_ends;
mod transactions;
mod values;
mod verbs;
