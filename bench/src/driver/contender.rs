//! Who takes part, and on which database.

use std::str::FromStr;

use serde::Serialize;

/// The databases whose drivers are compared, each with its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Database {
    Postgres,
    Mysql,
}

impl Database {
    /// Names the server; `scripts/servers env` sets it.
    pub(crate) const fn url_variable(self) -> &'static str {
        match self {
            Self::Postgres => "POSTGRES_URL",
            Self::Mysql => "MYSQL_URL",
        }
    }

    /// Who takes part on it, in the order of the report.
    pub(crate) const fn contenders(self) -> &'static [ContenderName] {
        match self {
            Self::Postgres => &[ContenderName::Cenote, ContenderName::TokioPostgres, ContenderName::Floor],
            Self::Mysql => &[ContenderName::Cenote, ContenderName::MysqlAsync, ContenderName::Floor],
        }
    }
}

/// A contender; `Cenote` and `Floor` are each database's own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ContenderName {
    Cenote,
    /// By way of the C ABI, from C.
    CenoteAbi,
    TokioPostgres,
    MysqlAsync,
    Floor,
}

impl ContenderName {
    /// In the order of the report.
    pub(crate) const ALL: [Self; 5] =
        [Self::Cenote, Self::CenoteAbi, Self::TokioPostgres, Self::MysqlAsync, Self::Floor];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cenote => "cenote",
            Self::CenoteAbi => "cenote-abi",
            Self::TokioPostgres => "tokio-postgres",
            Self::MysqlAsync => "mysql-async",
            Self::Floor => "floor",
        }
    }
}

impl FromStr for ContenderName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| format!("known are {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ContenderName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            let json = serde_json::to_value(name).expect("a name is text");
            assert_eq!(json, name.as_str());
        }
        assert!("".parse::<ContenderName>().is_err());
    }

    #[test]
    fn each_databases_contenders_are_in_the_order_of_the_report() {
        for database in [Database::Postgres, Database::Mysql] {
            assert!(database.contenders().is_sorted(), "{database:?}");
        }
    }
}
