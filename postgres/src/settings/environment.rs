//! The environment: `DATABASE_URL` and libpq's `PG*` variables.
//!
//! The variables are looked up by a function that is passed in, so nothing here touches the process.

use cenote_pool::settings::{Assignments, SettingsError, variable};

use super::{Lookup, Settings, assignments};

/// Wins over all the others.
const URL: &str = "DATABASE_URL";

/// Which variable stands for which parameter. Those which cannot be met are here, too: they are refused
/// by their parameter's name rather than passed over.
const VARIABLES: &[(&str, &str)] = &[
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGDATABASE", "dbname"),
    ("PGAPPNAME", "application_name"),
    ("PGOPTIONS", "options"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGCLIENTENCODING", "client_encoding"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLSNI", "sslsni"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGSERVICE", "service"),
    ("PGMINPROTOCOLVERSION", "min_protocol_version"),
    ("PGMAXPROTOCOLVERSION", "max_protocol_version"),
];

/// Makes settings of what `lookup` finds.
pub(super) fn read(lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
    let mut assignments = Assignments::default();
    if let Some(url) = variable(lookup, URL)? {
        super::read_text(&url, &mut assignments).map_err(|error| error.within(URL))?;
    }
    // Where a host is named, an address from elsewhere must not take its place.
    let has_host = assignments.has("host") || assignments.has("hostaddr");
    for &(variable, parameter) in VARIABLES {
        let named = match parameter {
            "host" | "hostaddr" => has_host,
            "sslmode" => assignments.has("sslmode") || assignments.has("ssl"),
            _ => assignments.has(parameter),
        };
        if !named {
            assignments.set_from(lookup, variable, parameter)?;
        }
    }
    // libpq's oldest way to say `sslmode=require`.
    let require_ssl = variable(lookup, "PGREQUIRESSL")?.is_some_and(|value| value.starts_with('1'));
    if require_ssl && !assignments.has("sslmode") && !assignments.has("ssl") {
        assignments.set("sslmode", "require", true).map_err(|error| error.within("PGREQUIRESSL"))?;
    }
    assignments::finish(assignments, lookup)
}
